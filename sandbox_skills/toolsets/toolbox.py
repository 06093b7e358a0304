"""Several toolsets as one: what a model is offered, and every call answered, in whatever form its toolset has."""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from sandbox_skills.catalog.text import one_line
from sandbox_skills.errors import (
    ApprovalNeededError,
    PolicyError,
    RequestError,
    SandboxSkillsError,
    SettingsError,
    ToolNotFoundError,
)
from sandbox_skills.policy import Policy, decide
from sandbox_skills.telemetry import NOTHING, Redaction, ToolResponse, span
from sandbox_skills.toolsets.base import CallContext, ConversationHooks, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.engines.base import OutputSink
    from sandbox_skills.policy import Decision
    from sandbox_skills.telemetry import ResponseStatus
    from sandbox_skills.toolsets.base import Conversation, Status, Subject, Tool, ToolCall, Toolset

logger = logging.getLogger(__name__)

APPROVED = "temp:tool:approved:"
"""Prefix of the state keys of what a person has allowed in a conversation, for `first_use`."""

_MAX_NAME = 128
"""Characters of an unknown tool's name that are repeated to the model."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call under way, and the event that it ends with."""

    call: ToolCall
    conversation: Conversation
    started: float

    @property
    def tool(self) -> str:
        """The name as it may be shown: a model can call a tool whatever it likes."""
        return one_line(self.call.name, _MAX_NAME)

    def response(
        self, status: ResponseStatus, *, code: str, state_delta: Mapping[str, str] | None = None
    ) -> ToolResponse:
        """Returns what is told of the call once it is over."""
        return ToolResponse(
            tool=self.tool,
            call_id=self.call.id,
            status=status,
            state_delta=state_delta or {},
            code=code,
            seconds=round(time.monotonic() - self.started, 6),
            tenant=self.conversation.tenant,
            session=self.conversation.id,
        )


class Toolbox:
    """The tools that one agent has. Every call gets exactly one result; only a cancel raises.

    Raises SettingsError where two toolsets have a tool of one name. `on_response` hears of every call, of one that is
    cancelled too. `canonical` returns the own name of a skill that is called by its id, and any other text as it is;
    it may block. No result has what `redaction` takes out.
    """

    def __init__(
        self,
        toolsets: Sequence[Toolset],
        *,
        policy: Policy | None = None,
        canonical: Callable[[str], str] = str,
        redaction: Redaction = NOTHING,
        on_response: Callable[[ToolResponse], None] | None = None,
    ) -> None:
        if not toolsets:
            raise SettingsError("no toolset is chosen", hint="name at least one, such as openrouter")
        self.toolsets = tuple(toolsets)
        self._policy = policy or Policy()
        self._canonical = canonical
        self._redaction = redaction
        self._on_response = on_response or _unheard
        _check_names([one.name for one in self.toolsets])
        self.tools()

    def tools(self, conversation: Conversation | None = None) -> tuple[Tool, ...]:
        """Returns the tools as they are now, with those made in a conversation. Blocking: looks at skills' status."""
        return tuple(tool for _, tool in self._owned(conversation))

    def prompt(self, conversation: Conversation, *, query: str = "") -> str:
        """Returns the section of the system prompt: those of its toolsets that have something to say. Blocking."""
        parts = [toolset.prompt(conversation, query=query) for toolset in self.toolsets]
        return "\n\n".join(part for part in parts if part)

    def approval(self, call: ToolCall, conversation: Conversation) -> bool:
        """Tells whether a person is to be asked first; what the policy refuses needs nobody's word. Blocking."""
        try:
            _, subject = self._about(call, conversation)
        except ToolNotFoundError:
            return False
        return _asks(self._decision(subject, conversation), subject, conversation)

    async def call(
        self,
        call: ToolCall,
        conversation: Conversation,
        *,
        on_output: OutputSink | None = None,
        approved: bool = False,
    ) -> ToolResult:
        """Answers one call and takes over what it changes of the conversation's state.

        `approved` says that a person has allowed this call.
        """
        asked = _Asked(call, conversation, time.monotonic())
        try:
            with span("tool.call", tool=asked.tool):
                context = CallContext(conversation, call.id, on_output)
                result = self._redacted(await self._answer(call, context, approved=approved))
        except BaseException as error:
            given_up = isinstance(error, anyio.get_cancelled_exc_class())
            status: ResponseStatus = "cancelled" if given_up else "failed"
            self._on_response(asked.response(status, code=type(error).__name__))
            raise
        conversation.apply(result.state_delta)
        self._on_response(asked.response(result.status, code=result.code, state_delta=result.state_delta))
        return result

    def _redacted(self, result: ToolResult) -> ToolResult:
        if not self._redaction:
            return result
        return replace(
            result,
            content=self._redaction.value(result.content),
            state_delta=self._redaction.value(dict(result.state_delta)),
            display=self._redaction.text(result.display),
            instructions=self._redaction.text(result.instructions),
        )

    async def call_all(
        self, calls: Sequence[ToolCall], conversation: Conversation, *, limit: int = 8
    ) -> tuple[ToolResult, ...]:
        """Answers calls at the same time, at most `limit` of them, and returns the results in call order."""
        results: dict[int, ToolResult] = {}
        slots = anyio.CapacityLimiter(limit)

        async def answer(index: int, call: ToolCall) -> None:
            async with slots:
                results[index] = await self.call(call, conversation)

        async with anyio.create_task_group() as group:
            for index, call in enumerate(calls):
                group.start_soon(answer, index, call)
        return tuple(results[index] for index in range(len(calls)))

    def run_started(self, conversation: Conversation) -> None:
        """Says that a turn of the user's begins: what was loaded for one turn is dropped."""
        self._apply(conversation, lambda hooks: hooks.run_started(conversation))

    def request_made(self, conversation: Conversation) -> None:
        """Says that the model was asked: what was loaded for one request is dropped."""
        self._apply(conversation, lambda hooks: hooks.request_made(conversation))

    def rewritten(self, items: Sequence[JsonObject], conversation: Conversation) -> list[JsonObject]:
        """Returns the input of a model request with what is loaded put where it belongs. Blocking."""
        rewritten = list(items)
        for toolset in self.toolsets:
            if isinstance(toolset, ConversationHooks):
                rewritten = toolset.rewritten(rewritten, conversation)
        return rewritten

    def _apply(
        self, conversation: Conversation, change: Callable[[ConversationHooks], Mapping[str, str]]
    ) -> None:
        for toolset in self.toolsets:
            if isinstance(toolset, ConversationHooks):
                conversation.apply(change(toolset))

    async def _answer(self, call: ToolCall, context: CallContext, *, approved: bool) -> ToolResult:
        toolset = self.toolsets[0]
        conversation = context.conversation
        try:
            # One visit to a thread for both: each is a hundredth of a short call.
            toolset, subject = await to_thread.run_sync(self._about, call, conversation)
            decision = self._decision(subject, conversation)
            _admit(decision, subject, conversation, approved=approved)
            result = await toolset.call(call, context)
        except SandboxSkillsError as error:
            self._redaction.error(error)
            return _refusal(toolset, call, error)
        if approved and decision.approval == "first_use":
            return replace(result, state_delta={**result.state_delta, approval_key(subject): "1"})
        return result

    def _about(self, call: ToolCall, conversation: Conversation) -> tuple[Toolset, Subject]:
        toolset = self._owner(call.name, conversation)
        return toolset, self._subject(toolset, call, conversation)

    def _subject(self, toolset: Toolset, call: ToolCall, conversation: Conversation) -> Subject:
        """Returns what a call is about, with the skill's own name: a policy knows no other. Blocking."""
        subject = toolset.subject(call, conversation)
        return replace(subject, skill=self._canonical(subject.skill)) if subject.skill else subject

    def _decision(self, subject: Subject, conversation: Conversation) -> Decision:
        """Decides on what is known before the call is read; `SkillRuns` decides again on what is run.

        A script is left to that: only there it is known which one a model means.
        """
        return decide(
            self._policy,
            tenant=conversation.tenant,
            tool=subject.tool,
            skill=subject.skill,
            command=subject.command,
        )

    def _owner(self, name: str, conversation: Conversation) -> Toolset:
        """Returns the toolset that has a tool of that name; raises ToolNotFoundError with the names there are."""
        owned = self._owned(conversation)
        for toolset, tool in owned:
            if tool.name == name:
                return toolset
        names = ", ".join(tool.name for _, tool in owned)
        raise ToolNotFoundError(
            f"no tool is named {one_line(name, _MAX_NAME)!r}", hint=f"The tools are: {names or 'none'}."
        )

    def _owned(self, conversation: Conversation | None) -> list[tuple[Toolset, Tool]]:
        owned = [(toolset, tool) for toolset in self.toolsets for tool in toolset.tools(conversation)]
        owners: dict[str, Toolset] = {}
        for toolset, tool in owned:
            other = owners.setdefault(tool.name, toolset)
            if other is not toolset:
                raise SettingsError(
                    f"the toolsets {other.name} and {toolset.name} both have a tool {tool.name}",
                    hint="choose one of them",
                )
        return owned


def _check_names(names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise SettingsError(f"the toolset {twice[0]} is chosen twice")


def _admit(decision: Decision, subject: Subject, conversation: Conversation, *, approved: bool) -> None:
    if not decision.allowed:
        raise PolicyError(decision.reason, hint="Use another way, or ask the user to change the policy.")
    if not approved and _asks(decision, subject, conversation):
        raise ApprovalNeededError(
            f"{subject.tool} needs the user's approval, and has none", hint="Ask the user."
        )


def _asks(decision: Decision, subject: Subject, conversation: Conversation) -> bool:
    if not decision.allowed or decision.approval == "never":
        return False
    return decision.approval == "always" or approval_key(subject) not in conversation.state


def approval_key(subject: Subject) -> str:
    """Returns the state key of a person's word on a tool of a skill."""
    return f"{APPROVED}{subject.tool}/{subject.skill}"


def _refusal(toolset: Toolset, call: ToolCall, error: SandboxSkillsError) -> ToolResult:
    """Returns the toolset's form of an error, marked as what it is; a sandbox that failed is logged for people."""
    if not isinstance(error, RequestError):
        logger.error("%s: the sandbox failed: %s", one_line(call.name, _MAX_NAME), error.message)
    status: Status = "rejected" if isinstance(error, RequestError) else "sandbox_error"
    return replace(toolset.refused(call, error), status=status, code=error.code, is_error=True)


def _unheard(_response: ToolResponse) -> None:
    return None

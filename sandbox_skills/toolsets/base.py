"""What a toolset is: read this first. Tools are offered to a model, and its calls come back to be answered.

model ── ToolCall ──▶ Toolbox ── policy, approval ──▶ Toolset ──▶ SkillRuns ──▶ workspace
      ◀─ ToolResult ──
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, cast, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sandbox_skills.artifacts import Artifact
    from sandbox_skills.catalog.manifest_json import JsonObject, JsonValue
    from sandbox_skills.engines.base import OutputSink
    from sandbox_skills.errors import SandboxSkillsError

Effect = Literal["read", "write", "run"]
"""What a call does at most: looks, changes what the conversation or its workspace holds, runs code of a skill."""

Status = Literal["ok", "rejected", "sandbox_error"]
"""Whether a call was done, was refused before anything started, or lost its sandbox."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool as a model is told of it. Immutable.

    `parameters` is the JSON Schema of the arguments, an object. `result` is the schema of a result that is an object,
    None where it is text or depends on the skill. `skill` is the skill that declares it, "" for a built-in one.
    """

    name: str
    description: str
    parameters: JsonObject = field(hash=False)
    result: JsonObject | None = field(default=None, hash=False)
    effect: Effect = "run"
    skill: str = ""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as the model made it: `arguments` are a stranger's words until the toolset has read them."""

    name: str
    arguments: object
    id: str = ""

    def named(self, key: str) -> str:
        """Returns the text that the arguments have under a key, stripped, "" where they have none. Never raises."""
        given = self.arguments
        if not isinstance(given, dict):
            return ""
        value = cast("dict[object, object]", given).get(key)
        return value.strip() if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to one call.

    `content` is what the model is given, in the form of the toolset's design; `code` is the stable code of what went
    wrong. A program that failed is "ok" with `is_error`. `display` is a line for people. `state_delta` maps keys of
    the conversation's state to their new text, "" clears one. `instructions` may stand in the system prompt in place
    of `content`; `remember` False says that later turns need not see the call.
    """

    content: JsonValue
    status: Status = "ok"
    code: str = ""
    is_error: bool = False
    display: str = ""
    state_delta: Mapping[str, str] = field(default_factory=dict[str, str])
    instructions: str = ""
    remember: bool = True
    artifacts: tuple[Artifact, ...] = ()

    @property
    def text(self) -> str:
        """What the model reads: a text as it is, everything else as JSON."""
        if isinstance(self.content, str):
            return self.content
        return json.dumps(self.content, ensure_ascii=False)


@dataclass(slots=True)
class Conversation:
    """What the calls of one conversation share. Plain data, which a caller may save and give back.

    `id` names its workspace; a tenant's conversations of one id are one. `agent` scopes which skills count as loaded.
    """

    id: str
    tenant: str
    agent: str = ""
    state: dict[str, str] = field(default_factory=dict[str, str])

    def apply(self, delta: Mapping[str, str]) -> None:
        """Takes over what a call changed."""
        for key, value in delta.items():
            if value:
                self.state[key] = value
            else:
                self.state.pop(key, None)


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a call runs in: its conversation, and who hears the output while it comes."""

    conversation: Conversation
    call_id: str = ""
    on_output: OutputSink | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """What a call is about, for the policy: parts that it does not have are empty."""

    tool: str
    skill: str = ""
    script: str = ""
    command: str = ""


class Toolset(Protocol):
    """The tools of one design, over the skills that one agent is offered."""

    @property
    def name(self) -> str:
        """What settings call it."""
        ...

    def tools(self, conversation: Conversation | None = None) -> tuple[Tool, ...]:
        """Returns its tools as they are now; none where there is no skill. Blocking: looks at the skills' status.

        A conversation has those that were made in it besides; None has what every one has.
        """
        ...

    def prompt(self, conversation: Conversation, *, query: str = "") -> str:
        """Returns its section of the system prompt, "" where there is no skill. Blocking.

        `query` is the user's latest text, by which a long list of skills may be ranked.
        """
        ...

    def subject(self, call: ToolCall, conversation: Conversation | None = None) -> Subject:
        """Returns what a call is about; never raises, whatever the arguments are. Pure."""
        ...

    async def call(self, call: ToolCall, context: CallContext) -> ToolResult:
        """Answers a call. Raises RequestError for one that cannot be done, EngineError where the sandbox failed."""
        ...

    def refused(self, call: ToolCall, error: SandboxSkillsError) -> ToolResult:
        """Returns what the model is told of an error, in the form of this design, next step included. Pure."""
        ...


@runtime_checkable
class ConversationHooks(Protocol):
    """A toolset that has more to do with a conversation than to answer its calls."""

    def run_started(self, conversation: Conversation) -> Mapping[str, str]:
        """Returns what changes of the state when a user's turn begins. Pure."""
        ...

    def request_made(self, conversation: Conversation) -> Mapping[str, str]:
        """Returns what changes of the state when the model was asked. Pure."""
        ...

    def rewritten(self, items: Sequence[JsonObject], conversation: Conversation) -> list[JsonObject]:
        """Returns the input items of a model request with what is loaded put where it belongs. Blocking."""
        ...

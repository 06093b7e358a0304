"""The toolbox: every call gets one answer, judged by the policy, asked for, kept, and without secrets."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from sandbox_skills.errors import (
    EngineError,
    InputError,
    SandboxLostError,
    SandboxSkillsError,
    SettingsError,
)
from sandbox_skills.policy import Policy
from sandbox_skills.telemetry import REDACTED, Redaction, ToolResponse
from sandbox_skills.toolsets.base import Conversation, Subject, Tool, ToolCall, ToolResult
from sandbox_skills.toolsets.toolbox import APPROVED, Toolbox

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.toolsets.base import CallContext

pytestmark = pytest.mark.anyio

SECRET = "sk-live-0123456789"
EMPTY: JsonObject = {"type": "object", "properties": {}}


class Plain:
    """A toolset whose tools answer with what they were asked, or raise what they are told to."""

    def __init__(self, name: str, *tools: str, fails: SandboxSkillsError | None = None) -> None:
        self.name = name
        self.names = tools
        self.called: list[ToolCall] = []
        self._fails = fails

    def tools(self, conversation: Conversation | None = None) -> tuple[Tool, ...]:
        return tuple(Tool(name, f"Does {name}.", EMPTY) for name in self.names)

    def prompt(self, conversation: Conversation, *, query: str = "") -> str:
        return f"{self.name}{query}" if self.names else ""

    def subject(self, call: ToolCall, conversation: Conversation | None = None) -> Subject:
        return Subject(call.name, skill=call.named("skill"), command=call.named("command"))

    async def call(self, call: ToolCall, context: CallContext) -> ToolResult:
        self.called.append(call)
        await anyio.sleep(float(call.named("wait") or 0))
        if self._fails is not None:
            raise self._fails
        return ToolResult(f"{self.name}: {call.named('say')}", state_delta={"said": call.named("say")})

    def refused(self, call: ToolCall, error: SandboxSkillsError) -> ToolResult:
        return ToolResult({"refused": error.message, "hint": error.hint}, display=error.message)


class Broken(Plain):
    async def call(self, call: ToolCall, context: CallContext) -> ToolResult:
        raise ValueError("no number")


class Hooked(Plain):
    def run_started(self, conversation: Conversation) -> Mapping[str, str]:
        return {"turn": "began"}

    def request_made(self, conversation: Conversation) -> Mapping[str, str]:
        return {"turn": ""}

    def rewritten(self, items: Sequence[JsonObject], conversation: Conversation) -> list[JsonObject]:
        return [*items, {"by": self.name}]


def box(*toolsets: Plain, policy: dict[str, Any] | None = None, **options: Any) -> Toolbox:  # noqa: ANN401  # as Toolbox
    return Toolbox(toolsets or (Plain("one", "a", "b"),), policy=Policy.of(policy or {}), **options)


def talk() -> Conversation:
    return Conversation("c", tenant="t")


class TestOffers:
    def test_the_tools_of_all_in_their_order(self) -> None:
        both = box(Plain("one", "a", "b"), Plain("two", "c"))
        assert [tool.name for tool in both.tools()] == ["a", "b", "c"]
        assert both.prompt(talk(), query="?") == "one?\n\ntwo?"

    @pytest.mark.parametrize(
        ("toolsets", "why"),
        [
            ((Plain("one", "a"), Plain("two", "a")), "the toolsets one and two both have a tool a"),
            ((Plain("one", "a"), Plain("one", "b")), "the toolset one is chosen twice"),
        ],
    )
    def test_names_that_collide_are_a_fault_that_tells_both(
        self, toolsets: tuple[Plain, ...], why: str
    ) -> None:
        with pytest.raises(SettingsError, match=why):
            box(*toolsets)

    def test_none_is_a_fault(self) -> None:
        with pytest.raises(SettingsError, match="no toolset is chosen"):
            Toolbox([])

    async def test_a_collision_that_comes_later_is_told_to_the_model(self) -> None:
        first, second = Plain("one", "a"), Plain("two", "b")
        both = box(first, second)
        second.names = ("a",)
        result = await both.call(ToolCall("a", {}), talk())
        assert (result.status, result.code) == ("rejected", "settings_invalid")


class TestCalls:
    async def test_one_is_answered_by_the_toolset_that_has_it(self) -> None:
        conversation = talk()
        result = await box(Plain("one", "a"), Plain("two", "b")).call(
            ToolCall("b", {"say": "hi"}), conversation
        )
        assert (result.content, result.status, result.code) == ("two: hi", "ok", "")
        assert conversation.state == {"said": "hi"}

    async def test_an_unknown_tool_is_told_with_those_there_are(self) -> None:
        result = await box().call(ToolCall("x" * 9_000, {}), talk())
        assert (result.status, result.code, result.is_error) == ("rejected", "tool_not_found", True)
        assert isinstance(result.content, dict)
        assert result.content["hint"] == "The tools are: a, b."
        assert len(str(result.content)) < 300

    @pytest.mark.parametrize(
        ("error", "status"), [(InputError("no"), "rejected"), (SandboxLostError("gone"), "sandbox_error")]
    )
    async def test_an_error_has_the_form_of_its_toolset(
        self, error: SandboxSkillsError, status: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.ERROR):
            result = await box(Plain("one", "a", fails=error)).call(ToolCall("a", {}), talk())
        assert (result.status, result.code, result.is_error) == (status, error.code, True)
        assert result.content == {"refused": error.message, "hint": ""}
        assert bool(caplog.records) is isinstance(error, EngineError)

    async def test_several_run_at_once_and_are_answered_in_call_order(self) -> None:
        calls = [ToolCall("a", {"say": str(n), "wait": str(0.05 * (3 - n))}) for n in range(4)]
        with anyio.fail_after(5):
            results = await box().call_all(calls, talk())
        assert [result.content for result in results] == [f"one: {n}" for n in range(4)]

    async def test_hooks_of_toolsets_that_have_some(self) -> None:
        both, conversation = box(Plain("one", "a"), Hooked("two", "b"), Hooked("three", "c")), talk()
        both.run_started(conversation)
        assert conversation.state == {"turn": "began"}
        both.request_made(conversation)
        assert conversation.state == {}
        assert both.rewritten([{"x": 1}], conversation) == [{"x": 1}, {"by": "two"}, {"by": "three"}]


class TestPolicy:
    async def test_what_is_denied_never_reaches_the_toolset(self) -> None:
        one = Plain("one", "a")
        denying = box(one, policy={"tools": {"a": {"allow": False}}})
        result = await denying.call(ToolCall("a", {}), talk(), approved=True)
        assert (result.status, result.code, one.called) == ("rejected", "policy_denied", [])
        assert isinstance(result.content, dict)
        assert result.content["refused"] == "the policy does not allow the tool a"

    @pytest.mark.parametrize("name", ["evil", "evil-id", " evil "])
    async def test_a_skill_is_denied_by_whatever_name_it_is_called(self, name: str) -> None:
        def canonical(asked: str) -> str:
            return "evil" if asked.strip() in {"evil", "evil-id"} else asked

        one = Plain("one", "a")
        denying = box(one, policy={"skills": {"evil": {"allow": False}}}, canonical=canonical)
        assert (await denying.call(ToolCall("a", {"skill": name}), talk())).code == "policy_denied"
        assert one.called == []

    async def test_a_command_is_judged_before_anybody_is_asked(self) -> None:
        policy = {"default": {"commands": {"allow": ["wc"]}, "needs_approval": "always"}}
        judging, call = box(policy=policy), ToolCall("a", {"skill": "s", "command": "ls"})
        assert not judging.approval(call, talk())
        assert (await judging.call(call, talk())).code == "policy_denied"

    async def test_the_rules_are_those_of_the_conversations_tenant(self) -> None:
        judging = box(policy={"tenants": {"t": {"tools": {"a": {"allow": False}}}}})
        assert (await judging.call(ToolCall("a", {}), talk())).code == "policy_denied"
        assert (await judging.call(ToolCall("a", {}), Conversation("c", tenant="u"))).status == "ok"


class TestApproval:
    def asking(self, approval: str) -> Toolbox:
        return box(policy={"tools": {"a": {"needs_approval": approval}}})

    async def test_never_asks_nobody(self) -> None:
        assert not self.asking("never").approval(ToolCall("a", {}), talk())
        assert (await self.asking("never").call(ToolCall("a", {}), talk())).status == "ok"

    @pytest.mark.parametrize("approval", ["always", "first_use"])
    async def test_without_a_persons_word_it_does_not_run(self, approval: str) -> None:
        conversation = talk()
        assert self.asking(approval).approval(ToolCall("a", {}), conversation)
        result = await self.asking(approval).call(ToolCall("a", {}), conversation)
        assert (result.status, result.code) == ("rejected", "approval_needed")
        assert conversation.state == {}

    async def test_always_asks_every_time(self) -> None:
        asking, conversation, call = self.asking("always"), talk(), ToolCall("a", {})
        assert (await asking.call(call, conversation, approved=True)).status == "ok"
        assert asking.approval(call, conversation)
        assert not any(key.startswith(APPROVED) for key in conversation.state)

    async def test_first_use_asks_once_for_a_tool_of_a_skill_in_a_conversation(self) -> None:
        asking, conversation = self.asking("first_use"), talk()
        assert (await asking.call(ToolCall("a", {"skill": "s"}), conversation, approved=True)).status == "ok"
        assert not asking.approval(ToolCall("a", {"skill": "s"}), conversation)
        assert (await asking.call(ToolCall("a", {"skill": "s"}), conversation)).status == "ok"
        assert asking.approval(ToolCall("a", {"skill": "other"}), conversation)
        assert asking.approval(ToolCall("a", {"skill": "s"}), talk())

    async def test_a_call_that_failed_was_no_use(self) -> None:
        failing = Plain("one", "a", fails=InputError("no"))
        asking = box(failing, policy={"tools": {"a": {"needs_approval": "first_use"}}})
        conversation = talk()
        await asking.call(ToolCall("a", {}), conversation, approved=True)
        assert asking.approval(ToolCall("a", {}), conversation)

    def test_nobody_is_asked_for_what_is_denied_or_unknown(self) -> None:
        both = {"tools": {"a": {"allow": False, "needs_approval": "always"}}}
        assert not box(policy=both).approval(ToolCall("a", {}), talk())
        assert not box(policy=both).approval(ToolCall("x", {}), talk())


class TestTold:
    async def test_every_call_is_told_once_whatever_became_of_it(self) -> None:
        told: list[ToolResponse] = []
        telling = box(policy={"tools": {"b": {"allow": False}}}, on_response=told.append)
        for name in ("a", "b", "x"):
            await telling.call(ToolCall(name, {"say": "hi"}, f"id-{name}"), talk())
        assert [(one.tool, one.call_id, one.status, one.code) for one in told] == [
            ("a", "id-a", "ok", ""),
            ("b", "id-b", "rejected", "policy_denied"),
            ("x", "id-x", "rejected", "tool_not_found"),
        ]
        assert {(one.tenant, one.session) for one in told} == {("t", "c")}
        assert told[0].recorded().state_delta == {"said": ""}

    async def test_one_that_is_cancelled_and_one_that_breaks_are_told_too(self) -> None:
        told: list[ToolResponse] = []
        telling = box(on_response=told.append)
        conversation = talk()
        with anyio.move_on_after(0.05):
            await telling.call(ToolCall("a", {"wait": "60", "say": "hi"}, "1"), conversation)
        with pytest.raises(ValueError, match="no number"):
            await box(Broken("one", "a"), on_response=told.append).call(ToolCall("a", {}, "2"), conversation)
        assert [(one.call_id, one.status, one.code) for one in told] == [
            ("1", "cancelled", "CancelledError"),
            ("2", "failed", "ValueError"),
        ]
        assert conversation.state == {}

    @pytest.mark.parametrize("status", ["ok", "sandbox_error"])
    async def test_no_result_log_or_state_has_a_secret(
        self, status: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        error = SandboxLostError(f"lost {SECRET}", hint=SECRET) if status != "ok" else None
        conversation = talk()
        hiding = box(Plain("one", "a", fails=error), redaction=Redaction([SECRET]))
        with caplog.at_level(logging.DEBUG):
            result = await hiding.call(ToolCall("a", {"say": SECRET}), conversation)
        assert result.status == status
        assert SECRET not in f"{result}{conversation.state}{caplog.text}"
        assert REDACTED in result.text

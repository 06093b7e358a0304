"""Whole runs: tools of both kinds, approvals, saved state, hooks, limits, spans, many at once."""

from __future__ import annotations

import json
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from opentelemetry.trace import SpanKind

from sandbox_skills.controller.client_options import ClientOptions
from sandbox_skills.controller.controller import Controller, Decisions
from sandbox_skills.controller.events import Done, ToolFinished, ToolOutput
from sandbox_skills.controller.hooks import Hooks
from sandbox_skills.controller.openrouter import OpenRouterClient
from sandbox_skills.controller.options import ControllerOptions
from sandbox_skills.controller.own_tools import OwnTool, function_tool
from sandbox_skills.controller.session import LOADED
from sandbox_skills.controller.state import RunState
from sandbox_skills.errors import ConversationError, ModelRefusedError, SettingsError
from sandbox_skills.policy import Policy
from sandbox_skills.toolsets.base import Conversation, Subject, Tool, ToolCall, ToolResult
from sandbox_skills.toolsets.toolbox import Toolbox
from tests.model_server import Say, call, refusal, stream_of, text
from tests.unit.controller.conftest import Echo, Word

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from sandbox_skills.controller.events import RunEvent
    from sandbox_skills.controller.request import ModelRequest
    from sandbox_skills.controller.stops import Progress
    from sandbox_skills.errors import SandboxSkillsError
    from sandbox_skills.toolsets.base import CallContext
    from tests.unit.controller.conftest import Model

    Json = dict[str, Any]

pytestmark = pytest.mark.anyio

DONE = Say([text("Done.")])


def outputs(body: Json) -> dict[str, str]:
    return {
        one["call_id"]: one["output"] for one in body["input"] if one.get("type") == "function_call_output"
    }


class Notes:
    """A small toolset, complete: loads notes as skills are loaded, and prints while it works."""

    name = "notes"

    def tools(self, conversation: Conversation | None = None) -> tuple[Tool, ...]:
        schema: Any = {"type": "object", "properties": {"note": {"type": "string"}}}
        return (Tool("load_note", "Loads.", schema, effect="read"), Tool("use_note", "Uses.", schema))

    def prompt(self, conversation: Conversation, *, query: str = "") -> str:
        return f"There are notes. Asked: {query}"

    def subject(self, call: ToolCall, conversation: Conversation | None = None) -> Subject:
        return Subject(call.name, skill="note")

    async def call(self, call: ToolCall, context: CallContext) -> ToolResult:
        note = call.arguments["note"]  # type: ignore[index]
        if call.name == "load_note":
            return ToolResult(f"All of {note}.", instructions=f"[Skill: {note}]\nAll of {note}.")
        if context.on_output is not None:
            for byte in "dü".encode():
                context.on_output("stdout", bytes([byte]))
        return ToolResult({"note": note}, remember=False, state_delta={"used": str(note)})

    def refused(self, call: ToolCall, error: SandboxSkillsError) -> ToolResult:
        return ToolResult(f"refused: {error.message}")


async def test_tools_of_a_toolset_and_ones_own_are_one(model: Model, talk: Conversation) -> None:
    model.server.script(Say([call("use_note", {"note": "a"}, "c1"), call("echo", {"word": "b"}, "c2")]), DONE)
    heard: list[RunEvent] = []
    async with (
        model.controller(Echo().tool(), toolbox=Toolbox([Notes()]), instructions="Be brief.") as controller,
        controller.stream("Hi there.", talk) as events,
    ):
        heard = [event async for event in events]
    assert model.server.asked[0].tools == ["echo", "load_note", "use_note"]
    assert model.server.bodies[0]["instructions"] == "Be brief.\n\nThere are notes. Asked: Hi there."
    assert outputs(model.server.bodies[1]) == {"c1": '{"note": "a"}', "c2": "echo b"}
    assert [one.text for one in heard if isinstance(one, ToolOutput)] == ["d", "ü"]
    assert talk.state == {"used": "a"}
    (done,) = [one for one in heard if isinstance(one, Done)]
    assert heard[-1] is done
    assert done.result.text == "Done."
    assert done.result.usage.answers == 2
    assert done.result.usage.cost == pytest.approx(0.002)
    for event in heard:
        assert json.loads(json.dumps(event.as_dict()))["event"] == event.event


class Made(Notes):
    """Has a tool that was made in one conversation."""

    def tools(self, conversation: Conversation | None = None) -> tuple[Tool, ...]:
        made = (Tool("made", "Made.", {"type": "object", "properties": {}}),)
        return (*super().tools(), *(made if conversation is not None and conversation.id == "maker" else ()))


async def test_tools_made_in_a_conversation_are_offered_in_that_one_alone(model: Model) -> None:
    model.server.script(DONE, DONE)
    async with model.controller(toolbox=Toolbox([Made()])) as controller:
        for name in ("maker", "other"):
            await controller.run("Hi.", Conversation(name, tenant="t"))
    assert [asked.tools for asked in model.server.asked] == [
        ["load_note", "use_note", "made"],
        ["load_note", "use_note"],
    ]


async def test_names_that_toolset_and_caller_share_are_refused() -> None:
    client = OpenRouterClient(ClientOptions())
    tool = OwnTool("use_note", "Mine.")
    with pytest.raises(SettingsError, match="two tools"):
        Controller(client, ControllerOptions("m"), toolbox=Toolbox([Notes()]), tools=[tool])


async def test_a_loaded_skill_may_stand_in_the_instructions_once(model: Model, talk: Conversation) -> None:
    loads = Say([call("load_note", {"note": "a"}, "c1"), call("load_note", {"note": "a"}, "c2")])
    model.server.script(loads, DONE, DONE)
    async with model.controller(toolbox=Toolbox([Notes()]), inject_instructions=True) as controller:
        result = await controller.run("Hi.", talk)
        await controller.run("More.", result.state)
    for body in model.server.bodies[1:]:
        assert body["instructions"].count("[Skill: a]") == 1
        assert set(outputs(body).values()) == {LOADED}
    assert set(result.state.loop.pinned) == {"c1", "c2"}  # in the order in which they were done


@pytest.mark.parametrize("forget", [True, False])
async def test_a_result_that_is_not_to_be_remembered_leaves_later_runs(
    model: Model, talk: Conversation, forget: object
) -> None:
    model.server.script(Say([call("use_note", {"note": "a"}, "c1")]), DONE, DONE)
    async with model.controller(toolbox=Toolbox([Notes()]), forget=bool(forget)) as controller:
        result = await controller.run("Hi.", talk)
        await controller.run("More.", result.state)
    assert set(outputs(model.server.bodies[1])) == {"c1"}
    assert set(outputs(model.server.bodies[2])) == (set() if forget else {"c1"})


def policy(approval: str = "always") -> Policy:
    return Policy.of({"tools": {"use_note": {"needs_approval": approval}}})


async def test_a_call_waits_for_approval_and_is_resumed_in_another_process(
    model: Model, talk: Conversation
) -> None:
    asked = Say(
        [call("use_note", {"note": "a"}, "c1"), call("use_note", {"note": "b"}, "c2"), call("echo", {}, "c3")]
    )
    model.server.script(asked, DONE)
    toolbox = Toolbox([Notes()], policy=policy())
    echo = Echo()
    async with model.controller(echo.tool(), toolbox=toolbox) as controller:
        result = await controller.run("Hi.", talk)
    assert result.status == "waiting"
    assert [(one.id, one.kind) for one in result.waiting] == [("c1", "approval"), ("c2", "approval")]
    assert echo.words == ["nothing"]
    stored = result.state.dumps()

    async with model.controller(echo.tool(), toolbox=Toolbox([Notes()], policy=policy())) as controller:
        state = RunState.loads(stored)
        with pytest.raises(ConversationError, match="waits"):
            await controller.run("More.", state)
        with pytest.raises(ConversationError, match="no call c9"):
            await controller.run(Decisions(approve=("c9",)), state)
        first = await controller.run(Decisions(approve=("c1",)), state)
        assert [one.id for one in first.waiting] == ["c2"]
        assert len(model.server.asked) == 1
        second = await controller.run(Decisions(reject={"c2": "Too dear."}), first.state)
    assert second.text == "Done."
    told = outputs(model.server.bodies[1])
    assert list(told) == ["c1", "c2", "c3"]
    assert told["c1"] == '{"note": "a"}'
    assert told["c2"] == "The user did not allow this call. Too dear."
    assert echo.words == ["nothing"]


async def test_what_was_approved_once_need_not_be_again(model: Model, talk: Conversation) -> None:
    model.server.script(
        Say([call("use_note", {"note": "a"}, "c1")]), Say([call("use_note", {"note": "b"})]), DONE
    )
    async with model.controller(toolbox=Toolbox([Notes()], policy=policy("first_use"))) as controller:
        result = await controller.run("Hi.", talk)
        result = await controller.run(Decisions(approve=("c1",)), result.state)
    assert result.text == "Done."


async def test_tools_of_ones_own_may_wait_for_approval_or_for_an_output(
    model: Model, talk: Conversation
) -> None:
    echo = Echo()
    model.server.script(Say([call("echo", {"word": "a"}, "c1"), call("ask_user", {"q": "?"}, "c2")]), DONE)
    manual = OwnTool("ask_user", "Asks.")
    async with model.controller(echo.tool(needs_approval=True), manual) as controller:
        result = await controller.run("Hi.", talk)
        assert [(one.name, one.kind) for one in result.waiting] == [
            ("echo", "approval"),
            ("ask_user", "manual"),
        ]
        with pytest.raises(ConversationError, match="waits for an output"):
            await controller.run(Decisions(outputs={"c1": "x"}), result.state)
        result = await controller.run(Decisions(("c1",), outputs={"c2": "Yes."}), result.state)
    assert outputs(model.server.bodies[1]) == {"c1": "echo a", "c2": "Yes."}
    assert result.text == "Done."


async def test_after_a_crash_what_had_finished_is_not_run_again(model: Model, talk: Conversation) -> None:
    saved: list[str] = []
    echo = Echo()

    async def save(state: RunState) -> None:
        saved.append(state.dumps())

    model.server.default = lambda asked: (
        DONE if outputs(asked.body) else Say([call("echo", {"word": "a"}, "c1")])
    )
    async with model.controller(echo.tool(), hooks=Hooks(save=save)) as controller:
        await controller.run("Hi.", talk)
        assert echo.words == ["a"]
        first_run = tuple(saved)
        for text_of_state in first_run:
            state = RunState.loads(text_of_state)
            begun = any(one.status == "running" for one in state.loop.pending)
            ran = state.loop.phase != "calling"
            before = len(echo.words)
            result = await controller.run(Decisions(), state)
            assert result.status == "done"
            assert len(echo.words) == before + (not begun and not ran)
            told = list(outputs({"input": list(result.state.loop.items)}).values())
            assert len(told) == 1
            assert ("not known" in told[0]) == begun


async def test_hooks_take_part(model: Model, talk: Conversation) -> None:
    seen: list[str] = []

    async def before_request(request: ModelRequest, progress: Progress) -> ModelRequest:
        from dataclasses import replace

        return replace(request, temperature=progress.steps / 10)

    async def before_tool(made: ToolCall) -> str | None:
        return "Not this one." if made.id == "c1" else None

    async def after_tool(made: ToolCall, result: ToolResult) -> ToolResult:
        if made.id == "c3":
            raise RuntimeError("the hook is broken")
        return ToolResult(f"{result.text}!")

    async def turn_started(progress: Progress) -> None:
        seen.append(f"start {progress.steps}")

    async def turn_finished(event: Any) -> None:  # noqa: ANN401  # TurnFinished
        seen.append(f"end {event.step}")

    hooks = Hooks(
        before_request=before_request,
        before_tool=before_tool,
        after_tool=after_tool,
        turn_started=turn_started,
        turn_finished=turn_finished,
    )
    made = [call("echo", {"word": str(n)}, f"c{n}") for n in (1, 2, 3)]
    model.server.script(Say(made), DONE)
    echo = Echo()
    async with model.controller(echo.tool(), hooks=hooks) as controller:
        await controller.run("Hi.", talk)
    assert outputs(model.server.bodies[1]) == {
        "c1": "Not this one.",
        "c2": "echo 2!",
        "c3": "Error: RuntimeError: the hook is broken",
    }
    assert sorted(echo.words) == ["2", "3"]
    assert [body["temperature"] for body in model.server.bodies] == [0.0, 0.1]
    assert seen == ["start 0", "end 1", "start 1", "end 2"]


async def test_a_failing_save_ends_the_run_with_its_own_error(model: Model, talk: Conversation) -> None:
    async def save(state: RunState) -> None:
        if any(one.status == "running" for one in state.loop.pending):
            raise OSError(28, "No space left on device")

    model.server.script(Say([call("echo")]))
    echo = Echo()
    async with model.controller(echo.tool(), hooks=Hooks(save=save)) as controller:
        with pytest.raises(OSError, match="No space"):
            await controller.run("Hi.", talk)
    assert echo.words == []


async def test_functions_of_every_form(model: Model, talk: Conversation) -> None:
    def plain() -> dict[str, int]:
        """Counts."""
        return {"n": 1}

    async def coroutine(given: Word) -> Word:
        return given

    async def progress(given: Word) -> AsyncIterator[str]:
        yield "half"
        yield "nearly"
        yield f"result {given.word}"

    def broken() -> str:
        raise ValueError("no\nway")

    names = ("plain", "coroutine", "progress", "broken", "nothing", "local")
    model.server.script(Say([call(name, {}, name) for name in names]), DONE)
    tools = [function_tool(one) for one in (plain, coroutine, progress, broken)]
    tools.append(function_tool(lambda: None, name="nothing"))
    tools.append(function_tool(lambda given: given.word, name="local", arguments=Word))
    async with model.controller(*tools) as controller, controller.stream("Hi.", talk) as events:
        heard = [event async for event in events]
    assert outputs(model.server.bodies[1]) == {
        "plain": '{"n": 1}',
        "coroutine": '{"word": "nothing"}',
        "progress": "result nothing",
        "broken": "Error: ValueError: no way",
        "nothing": "done",
        "local": "nothing",
    }
    said = [(one.id, one.stream, one.text) for one in heard if isinstance(one, ToolOutput)]
    assert said == [("progress", "progress", "half"), ("progress", "progress", "nearly")]
    (parameters,) = {
        json.dumps(one["parameters"]) for one in model.server.bodies[0]["tools"] if one["name"] == "plain"
    }
    assert json.loads(parameters) == {"type": "object", "properties": {}, "required": []}


async def test_wrong_arguments_are_told_with_the_names_there_are(model: Model, talk: Conversation) -> None:
    model.server.script(Say([call("echo", {"word": 7}, "c1")]), DONE)
    async with model.controller(Echo().tool()) as controller:
        await controller.run("Hi.", talk)
    told = outputs(model.server.bodies[1])["c1"]
    assert "word" in told
    assert "The parameters are: word." in told


def test_a_function_of_another_form_is_refused() -> None:
    with pytest.raises(SettingsError, match="one pydantic model"):
        function_tool(lambda a, b: a)


async def test_a_call_has_its_time(model: Model, talk: Conversation) -> None:
    async def sleep() -> None:
        await anyio.sleep(30)

    model.server.script(Say([call("sleep", {}, "c1")]), DONE)
    async with model.controller(
        function_tool(sleep), tool_seconds=9.0, seconds_of_tool={"sleep": 0.05}
    ) as controller:
        await controller.run("Hi.", talk)
    assert "stopped after 0.05 seconds" in outputs(model.server.bodies[1])["c1"]


async def test_calls_run_together_but_not_too_many(model: Model, talk: Conversation) -> None:
    running, most = 0, 0

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.sleep(0.05)
        running -= 1

    model.server.script(Say([call("work", {"n": n}, f"c{n}") for n in range(6)]), DONE)
    async with model.controller(function_tool(work), concurrency=3) as controller:
        await controller.run("Hi.", talk)
    assert most == 3


async def test_the_time_of_a_run_bounds_the_model_too(model: Model, talk: Conversation) -> None:
    model.server.script(stream_of(b": \n\n", 10.0), DONE)
    async with model.controller(max_seconds=1.0) as controller:
        result = await controller.run("Hi.", talk)
    assert (result.stop, result.text) == ("max_seconds", "Done.")
    assert model.server.bodies[1]["input"][-1]["content"].startswith("Stop here")


async def test_a_last_answer_that_does_not_come_ends_the_run_with_what_there_is(
    model: Model, talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox_skills.controller.session.LAST_SECONDS", 0.2)
    silent = stream_of(b": \n\n", 10.0)
    model.server.script(Say([call("echo", {}, "c1")]), silent, silent)
    async with model.controller(Echo().tool(), max_seconds=1.0) as controller:
        result = await controller.run("Hi.", talk)
    assert (result.stop, result.text, result.steps) == ("max_seconds", "", 1)
    assert len(model.server.bodies) == 3
    assert result.state.loop.phase == "done"


async def test_without_a_last_answer_a_run_that_is_out_of_time_asks_nothing_more(
    model: Model, talk: Conversation
) -> None:
    model.server.script(stream_of(b": \n\n", 10.0), DONE)
    async with model.controller(max_seconds=1.0, final_turn=False) as controller:
        result = await controller.run("Hi.", talk)
    assert (result.stop, len(model.server.bodies)) == ("max_seconds", 1)


async def test_a_plain_function_has_its_time_too(model: Model, talk: Conversation) -> None:
    released = threading.Event()

    def block() -> str:
        """Blocks."""
        return str(released.wait(15))

    model.server.script(Say([call("block", {}, "c1")]), DONE)
    async with model.controller(function_tool(block), tool_seconds=0.05) as controller:
        with anyio.fail_after(10):
            await controller.run("Hi.", talk)
    released.set()
    assert "stopped after 0.05 seconds" in outputs(model.server.bodies[1])["c1"]


async def test_where_an_event_loop_runs_a_run_without_one_is_refused(
    model: Model, talk: Conversation
) -> None:
    async with model.controller() as controller:
        with pytest.raises(RuntimeError, match="Already running"):
            controller.run_sync("Hi.", talk)


async def test_an_error_of_the_model_leaves_a_conversation_that_goes_on(
    model: Model, talk: Conversation
) -> None:
    model.server.script(Say([call("echo")]), refusal(403, {"error": {"code": 403, "message": "no"}}), DONE)
    async with model.controller(Echo().tool()) as controller:
        async with controller.stream("Hi.", talk) as events:
            with pytest.raises(ModelRefusedError):
                _ = [event async for event in events]
        result = await controller.run(Decisions(), RunState.loads(events.state.dumps()))
    assert result.text == "Done."
    assert result.steps == 2


async def test_leaving_a_stream_ends_the_run(model: Model, talk: Conversation) -> None:
    left = anyio.Event()

    async def sleep() -> None:
        try:
            await anyio.sleep(30)
        finally:
            left.set()

    model.server.script(Say([call("sleep", {}, "c1")]))
    async with model.controller(function_tool(sleep)) as controller, controller.stream("Hi.", talk) as events:
        async for event in events:
            if event.event == "tool_started":
                await anyio.sleep(0.05)
                break
    assert left.is_set()
    loop = events.state.loop
    assert (loop.phase, loop.stop) == ("done", "cancelled")
    RunState.loads(events.state.dumps())


async def fail_in(controller: Controller, talk: Conversation) -> None:
    async with controller.stream("Hi.", talk) as events:
        async for _ in events:
            raise KeyError("mine")


async def test_an_error_of_the_consumer_is_its_own(model: Model, talk: Conversation) -> None:
    model.server.script(DONE)
    async with model.controller() as controller:
        with pytest.raises(KeyError, match="mine"):
            await fail_in(controller, talk)


async def test_a_cancel_before_anything_asks_nothing(model: Model, talk: Conversation) -> None:
    async with model.controller() as controller, controller.stream("Hi.", talk) as events:
        events.cancel()
        (done,) = [event async for event in events if isinstance(event, Done)]
    assert done.result.stop == "cancelled"
    assert model.server.asked == []


def test_a_run_without_an_event_loop(model: Model, talk: Conversation) -> None:
    model.server.script(Say([call("echo")]), DONE, DONE)
    client = OpenRouterClient(ClientOptions(base_url=model.server.base_url))
    controller = Controller(client, ControllerOptions("m"), tools=[Echo().tool()])
    result = controller.run_sync("Hi.", talk)
    assert controller.run_sync("More.", result.state).total.answers == 3


def test_a_controller_without_a_model_is_refused() -> None:
    with pytest.raises(SettingsError, match="no model"):
        ControllerOptions("")


async def test_both_wires_end_the_same_way(model: Model) -> None:
    for wire in ("responses", "chat"):
        model.server.script(Say([text("Look."), call("echo", {"word": "a"}, "c1")]), DONE)
        async with model.controller(Echo().tool(), client={"wire": wire}) as controller:
            result = await controller.run("Hi.", Conversation(wire, "tests"))
        assert result.text == "Done."
    messages = model.server.bodies[-1]["messages"]
    assert [one["role"] for one in messages] == ["user", "assistant", "tool"]
    assert messages[1]["content"] == "Look."
    assert messages[2] == {"role": "tool", "tool_call_id": "c1", "content": "echo a"}


async def test_spans_have_the_names_of_the_convention(
    model: Model, talk: Conversation, recorded: InMemorySpanExporter
) -> None:
    model.server.script(
        Say([call("echo", {}, "c1")]), refusal(403, {"error": {"code": 403, "message": "secret"}})
    )
    async with model.controller(Echo().tool()) as controller:
        with pytest.raises(ModelRefusedError):
            await controller.run("Hi.", talk)
    spans = {one.name: one for one in recorded.get_finished_spans()}
    assert Counter(one.name for one in recorded.get_finished_spans()) == {
        "chat scripted/model": 2,
        "execute_tool echo": 1,
        "invoke_agent": 1,
    }
    answered, failed = (one for one in recorded.get_finished_spans() if one.name.startswith("chat"))
    assert answered.kind is SpanKind.CLIENT
    assert answered.attributes is not None
    assert answered.attributes["gen_ai.usage.input_tokens"] == 100
    assert answered.attributes["gen_ai.response.model"] == "scripted/model"
    assert failed.status.description == "model_refused"
    tool = spans["execute_tool echo"].attributes
    assert tool is not None
    assert tool["gen_ai.tool.call.id"] == "c1"
    agent = spans["invoke_agent"].attributes
    assert agent is not None
    assert agent["gen_ai.conversation.id"] == "talk"
    assert "secret" not in str([one.to_json() for one in recorded.get_finished_spans()])


async def test_half_a_character_does_no_harm(model: Model, talk: Conversation) -> None:
    half = "\ud83d"
    model.server.script(
        Say([text(f"a{half}"), call("echo", {"word": half}, f"c{half}")]), Say([text("Done.")])
    )
    async with model.controller(Echo().tool()) as controller:
        result = await controller.run("Hi.", talk)
    assert RunState.loads(result.state.dumps()) == result.state
    assert list(outputs(model.server.bodies[1]).values()) == ["echo \ufffd"]


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_two_hundred_conversations_on_one_loop(model: Model) -> None:
    model.server.default = lambda asked: (
        DONE if outputs(asked.body) else Say([call("echo", {"word": "a"}, "c1")])
    )
    echo, results = Echo(), []
    async with model.controller(echo.tool()) as controller:

        async def one(number: int) -> None:
            results.append(await controller.run("Hi.", Conversation(f"talk {number}", "tests")))

        async with anyio.create_task_group() as group:
            for number in range(200):
                group.start_soon(one, number)
    assert [one.text for one in results] == ["Done."] * 200
    assert len(echo.words) == 200


async def test_a_finished_tool_is_told_with_its_status(model: Model, talk: Conversation) -> None:
    model.server.script(Say([call("nothing", {}, "c1")]), DONE)
    async with (
        model.controller(toolbox=Toolbox([Notes()])) as controller,
        controller.stream("Hi.", talk) as events,
    ):
        (told,) = [event async for event in events if isinstance(event, ToolFinished)]
    assert (told.status, told.is_error, told.name) == ("rejected", True, "nothing")

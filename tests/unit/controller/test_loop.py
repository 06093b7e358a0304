"""The loop as a state machine: every call gets one output, in order, and nothing is started twice."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sandbox_skills.controller import loop
from sandbox_skills.controller.calls import read_turn
from sandbox_skills.controller.history import user_message
from sandbox_skills.controller.loop import (
    AskModel,
    AwaitWord,
    Finish,
    LoopState,
    Rules,
    RunCalls,
    answered,
    begin,
    call_done,
    next_action,
    started,
)
from sandbox_skills.controller.state import RunState
from sandbox_skills.controller.stops import after_cost, after_seconds, after_steps, after_tokens, after_tool
from sandbox_skills.controller.turn import Answer, Usage
from sandbox_skills.toolsets.base import Conversation

if TYPE_CHECKING:
    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.controller.turn import Turn

RULES = Rules()


def message(text: str) -> JsonObject:
    part: JsonObject = {"type": "output_text", "text": text}
    return {"type": "message", "role": "assistant", "content": [part]}


def call(call_id: str = "c1", name: str = "look", arguments: Any = "{}", **more: Any) -> JsonObject:  # noqa: ANN401  # any JSON
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **more}


def turn(state: LoopState, *items: JsonObject, incomplete: str = "", cost: float = 0.0) -> Turn:
    usage = Usage(input_tokens=10, output_tokens=5, cost=cost, answers=1)
    return read_turn(Answer(items, incomplete, usage), state.items)


def hear(state: LoopState, *items: JsonObject, rules: Rules = RULES, incomplete: str = "") -> LoopState:
    return answered(state, turn(state, *items, incomplete=incomplete), rules)


def run_all(state: LoopState, output: str = "ok", rules: Rules = RULES) -> LoopState:
    action = next_action(state)
    assert isinstance(action, RunCalls)
    state = started(state, [one.id for one in action.calls])
    for one in action.calls:
        state = call_done(state, one.id, output, rules)
    return state


def asked(text: str = "Do it.") -> LoopState:
    return begin(LoopState(), [user_message(text)])


def outputs(state: LoopState) -> list[tuple[object, object]]:
    return [(i["call_id"], i["output"]) for i in state.items if i.get("type") == "function_call_output"]


def test_an_answer_in_words_ends_the_run() -> None:
    state = hear(asked(), message("Done."))
    assert next_action(state) == Finish("completed")
    assert state.text == "Done."
    assert state.items[-1] == message("Done.")


def test_calls_are_run_and_their_outputs_go_back_in_call_order() -> None:
    state = hear(asked(), call("a"), call("b"))
    state = started(state, ["a", "b"])
    state = call_done(state, "b", "second", RULES)
    assert next_action(state) == loop.AwaitCalls()
    state = call_done(state, "a", "first", RULES)
    assert outputs(state) == [("a", "first"), ("b", "second")]
    assert next_action(state) == AskModel("auto")


def test_a_call_is_started_once() -> None:
    state = started(hear(asked(), call()), ["c1"])
    with pytest.raises(ValueError, match="once"):
        started(state, ["c1"])


def test_an_output_that_comes_twice_counts_once() -> None:
    state = started(hear(asked(), call("a"), call("b")), ["a", "b"])
    state = call_done(call_done(state, "a", "first", RULES), "a", "again", RULES)
    assert outputs(call_done(state, "b", "x", RULES)) == [("a", "first"), ("b", "x")]
    assert call_done(state, "unknown", "x", RULES) == state


def test_the_first_request_has_the_callers_tool_choice_and_later_ones_the_models() -> None:
    state = asked()
    assert next_action(state) == AskModel("first")
    assert next_action(run_all(hear(state, call()))) == AskModel("auto")


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (after_steps(1), "max_steps"),
        (after_tokens(15), "max_tokens"),
        (after_seconds(3), "max_seconds"),
        (after_tool("look"), "tool_called"),
        (lambda _: "enough", "enough"),
    ],
)
def test_a_limit_gives_one_more_answer_without_tools(condition: Any, reason: str) -> None:  # noqa: ANN401  # a condition
    rules = Rules(stops=(after_cost(1.0), condition))
    state = replace(hear(asked(), call(), rules=rules), seconds=3.0)
    state = run_all(state, rules=rules)
    assert next_action(state) == AskModel("none")
    ended = hear(state, message("So far."), rules=rules)
    assert (ended.phase, ended.stop, ended.text) == ("done", reason, "So far.")


def test_cost_is_summed_and_limits() -> None:
    rules = Rules(stops=(after_cost(0.5),))
    state = answered(asked(), turn(asked(), call(), cost=0.3), rules)
    state = run_all(state, rules=rules)
    assert next_action(state) == AskModel("auto")
    state = answered(state, turn(state, call("c2"), cost=0.3), rules)
    assert next_action(run_all(state, rules=rules)) == AskModel("none")


def test_a_limit_may_end_the_run_at_once() -> None:
    rules = Rules(stops=(after_steps(1),), final_turn=False)
    state = run_all(hear(asked(), call(), rules=rules), rules=rules)
    assert next_action(state) == Finish("max_steps")


def test_calls_of_the_last_answer_without_tools_are_answered_and_not_run() -> None:
    rules = Rules(stops=(after_steps(1),))
    state = run_all(hear(asked(), call(), rules=rules), rules=rules)
    ended = hear(state, call("late"), rules=rules)
    assert next_action(ended) == Finish("max_steps")
    assert outputs(ended)[-1] == ("late", loop.TOO_LATE)


def test_a_limit_in_the_middle_of_calls_answers_them() -> None:
    state = started(hear(asked(), call("a"), call("b")), ["a", "b"])
    state = loop.limited(call_done(state, "a", "ok", RULES), "max_seconds", RULES)
    assert outputs(state) == [("a", "ok"), ("b", loop.TIMED_OUT)]
    assert next_action(state) == AskModel("none")


def test_a_cancel_answers_what_runs_and_ends() -> None:
    state = started(hear(asked(), call("a"), call("b")), ["a", "b"])
    state = loop.cancelled(call_done(state, "a", "ok", RULES))
    assert outputs(state) == [("a", "ok"), ("b", loop.CANCELLED)]
    assert next_action(state) == Finish("cancelled")
    assert next_action(begin(state, [user_message("Go on.")])) == AskModel("first")


def test_a_run_that_was_lost_does_not_run_its_calls_again() -> None:
    state = started(hear(asked(), call("a"), call("b"), call("c")), ["a", "b"])
    state = call_done(state, "a", "ok", RULES)
    state = loop.recovered(state, RULES)
    action = next_action(state)
    assert isinstance(action, RunCalls)
    assert [one.id for one in action.calls] == ["c"]
    assert outputs(run_all(state)) == [("a", "ok"), ("b", loop.INTERRUPTED), ("c", "ok")]


def test_approved_and_rejected_calls() -> None:
    state = asked()
    state = answered(
        state, turn(state, call("a"), call("b"), call("c")), RULES, {"a": "approval", "b": "approval"}
    )
    state = run_all(state)
    action = next_action(state)
    assert isinstance(action, AwaitWord)
    assert [one.call.id for one in action.calls] == ["a", "b"]
    state = loop.decided(state, "b", RULES, rejected="No.")
    state = loop.decided(state, "a", RULES)
    assert next_action(state) == RunCalls((state.pending[0].call,), frozenset({"a"}))
    with pytest.raises(ValueError, match="waits"):
        loop.decided(state, "a", RULES)
    assert outputs(run_all(state, "did")) == [("a", "did"), ("b", "No."), ("c", "ok")]


def test_nothing_begins_while_calls_wait() -> None:
    state = answered(asked(), turn(asked(), call()), RULES, {"c1": "manual"})
    with pytest.raises(ValueError, match="no output"):
        begin(state, [user_message("More.")])


def test_what_is_not_to_be_remembered_is_gone_from_the_next_run() -> None:
    reasoning: JsonObject = {"type": "reasoning", "id": "r", "summary": []}
    state = started(hear(asked(), reasoning, call("a"), call("b")), ["a", "b"])
    state = call_done(state, "a", "noise", RULES, remember=False)
    state = call_done(state, "b", "signal", RULES, instructions="yes")
    state = hear(state, message("Done."))
    assert ("a", "noise") in outputs(state)
    following = begin(state, [user_message("More.")])
    assert outputs(following) == [("b", "signal")]
    assert following.pinned == ("b",)
    assert reasoning in following.items


def test_reasoning_goes_with_the_call_that_followed_it() -> None:
    reasoning: JsonObject = {"type": "reasoning", "id": "r", "summary": []}
    state = started(hear(asked(), reasoning, call("a")), ["a"])
    state = hear(call_done(state, "a", "noise", RULES, remember=False), message("Done."))
    assert reasoning not in begin(state, [user_message("More.")]).items


def test_usage_is_summed_over_runs() -> None:
    state = begin(hear(asked(), message("One.")), [user_message("More.")])
    state = hear(state, message("Two."))
    assert (state.earlier + state.usage).answers == 2
    assert state.usage.answers == 1


class Conversations(RuleBasedStateMachine):
    """A model, calls and people that do whatever they may, in whatever order."""

    def __init__(self) -> None:
        super().__init__()
        self.behaviour = Rules(stops=(after_steps(4),))
        self.state = LoopState()
        self.begun: list[str] = []
        self.number = 0

    @initialize()
    def say(self) -> None:
        self.state = asked()

    @precondition(lambda self: isinstance(next_action(self.state), Finish))
    @rule()
    def say_more(self) -> None:
        self.state = begin(self.state, [user_message("More.")])

    @precondition(lambda self: isinstance(next_action(self.state), AskModel))
    @rule(
        kinds=st.lists(st.sampled_from(["same", "long", "broken", "new", "duplicate"]), max_size=4),
        text=st.sampled_from(["", "Words.", "<tool_call>{}</tool_call>"]),
        cut=st.booleans(),
        waiting=st.sets(st.integers(0, 3)),
    )
    def answer(self, kinds: list[str], text: str, cut: object, waiting: set[int]) -> None:
        made = [self._call(kind) for kind in kinds]
        read = turn(self.state, *made, message(text), incomplete="max_output_tokens" if cut else "")
        waits: dict[str, Any] = {
            one.id: "approval" if n % 2 else "manual" for n, one in enumerate(read.calls) if n in waiting
        }
        self.state = answered(self.state, read, self.behaviour, waits)

    def _call(self, kind: str) -> JsonObject:
        self.number += 1
        ids = {"duplicate": "same-id", "long": "x" * 80}
        raw = "{broken" if kind == "broken" else "{}" if kind == "same" else f'{{"n": {self.number}}}'
        return call(ids.get(kind, f"id{self.number}"), arguments=raw)

    @precondition(lambda self: isinstance(next_action(self.state), RunCalls))
    @rule()
    def start(self) -> None:
        action = next_action(self.state)
        assert isinstance(action, RunCalls)
        self.state = started(self.state, [one.id for one in action.calls])
        self.begun += [one.id for one in action.calls]

    @precondition(lambda self: any(one.status == "running" for one in self.state.pending))
    @rule(data=st.data(), remember=st.booleans())
    def finish_one(self, data: st.DataObject, remember: object) -> None:
        running = [one.call.id for one in self.state.pending if one.status == "running"]
        chosen = data.draw(st.sampled_from(running))
        self.state = call_done(
            self.state, chosen, f"output of {chosen}", self.behaviour, remember=bool(remember)
        )

    @precondition(lambda self: any(one.status == "approval" for one in self.state.pending))
    @rule(data=st.data(), yes=st.booleans())
    def decide(self, data: st.DataObject, yes: object) -> None:
        waiting = [one.call.id for one in self.state.pending if one.status == "approval"]
        chosen = data.draw(st.sampled_from(waiting))
        self.state = loop.decided(self.state, chosen, self.behaviour, rejected=None if yes else "No.")

    @precondition(lambda self: any(one.status == "manual" for one in self.state.pending))
    @rule()
    def bring(self) -> None:
        chosen = next(one.call.id for one in self.state.pending if one.status == "manual")
        self.state = call_done(self.state, chosen, "brought", self.behaviour)

    @rule()
    def crash(self) -> None:
        saved = RunState(Conversation("c", "tests"), self.state).dumps()
        self.state = loop.recovered(RunState.loads(saved).loop, self.behaviour)

    @precondition(lambda self: self.state.phase == "calling")
    @rule()
    def time_is_over(self) -> None:
        self.state = loop.limited(self.state, "max_seconds", self.behaviour)

    @precondition(lambda self: self.state.phase != "idle")
    @rule()
    def cancel(self) -> None:
        self.state = loop.cancelled(self.state)

    @invariant()
    def every_call_has_one_output_in_order(self) -> None:
        calls = [i["call_id"] for i in self.state.items if i.get("type") == "function_call"]
        answered_calls = [one for one, _ in outputs(self.state)]
        open_calls = [one.call.id for one in self.state.pending]
        assert calls == answered_calls + open_calls
        assert len(set(map(str, calls))) == len(calls)

    @invariant()
    def nothing_was_started_twice(self) -> None:
        assert len(set(self.begun)) == len(self.begun)

    @invariant()
    def a_round_that_is_over_is_left(self) -> None:
        if self.state.phase == "calling":
            assert any(one.status != "done" for one in self.state.pending)
        else:
            assert self.state.pending == ()

    @invariant()
    def limits_hold(self) -> None:
        assert self.state.steps <= 4 + 1 + 1  # the last one may be asked for again


Conversations.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestConversations = Conversations.TestCase

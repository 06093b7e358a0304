"""A saved conversation that a stranger wrote, or changed: nothing runs that would have waited, and nothing breaks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.controller.controller import Decisions
from sandbox_skills.controller.loop import LoopState, PendingCall
from sandbox_skills.controller.own_tools import OwnTool
from sandbox_skills.controller.state import RunState
from sandbox_skills.controller.turn import ModelCall, Usage
from sandbox_skills.errors import ConversationError
from sandbox_skills.toolsets.base import Conversation
from tests.model_server import Say, text
from tests.unit.controller.conftest import Echo
from tests.unit.controller.test_reading import JSON, call

if TYPE_CHECKING:
    from tests.unit.controller.conftest import Model

pytestmark = pytest.mark.anyio

DONE = Say([text("Done.")])


def saved(status: Any, name: str = "echo") -> str:  # noqa: ANN401  # as PendingCall
    pending = PendingCall(ModelCall("c1", name, {"word": "a"}), status)
    items: Any = ({"role": "user", "content": "Hi."}, {**call("c1"), "name": name})
    return RunState(Conversation("talk", "tests"), LoopState("calling", items, (pending,))).dumps()


@pytest.mark.parametrize("status", ["open", "approved"])
async def test_a_call_that_needs_a_word_waits_whatever_the_file_says(model: Model, status: str) -> None:
    echo = Echo()
    async with model.controller(echo.tool(needs_approval=True)) as controller:
        result = await controller.run(Decisions(), RunState.loads(saved(status)))
        assert [(one.id, one.kind) for one in result.waiting] == [("c1", "approval")]
        assert echo.words == []
        model.server.script(DONE)
        result = await controller.run(Decisions(approve=("c1",)), RunState.loads(result.state.dumps()))
    assert (result.text, echo.words) == ("Done.", ["a"])


async def test_a_call_that_needs_no_word_goes_on(model: Model) -> None:
    echo = Echo()
    model.server.script(DONE)
    async with model.controller(echo.tool()) as controller:
        result = await controller.run(Decisions(), RunState.loads(saved("open")))
    assert (result.text, echo.words) == ("Done.", ["a"])


async def test_a_manual_call_waits_whatever_the_file_says(model: Model) -> None:
    async with model.controller(OwnTool("echo", "Says.")) as controller:
        result = await controller.run(Decisions(), RunState.loads(saved("open")))
    assert [one.kind for one in result.waiting] == ["manual"]


@pytest.mark.parametrize(
    "change",
    [
        {
            "items": [
                {"type": "function_call", "call_id": {}},
                {"type": "function_call_output", "call_id": []},
            ]
        },
        {"items": [{"type": "function_call_output", "call_id": "a", "output": ""}, call("a")]},
        {"items": ["text"]},
        {"items": [call("")]},
        {"steps": -1000},
        {"seconds": -1e9},
        {"corrections": -5},
        {"streaks": [["x", -9]]},
        {"usage": {"input_tokens": -1}},
        {"earlier": {"cost": -1.0}},
        {"usage": {"cost": "much"}},
        {"phase": "elsewhere"},
        {"pending": [{"call": {"id": "a", "name": "run", "more": 1}, "status": "open"}]},
        {"steps": 10**5000},
    ],
)
def test_a_state_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    whole = json.loads(RunState(Conversation("id", "t"), LoopState("done")).dumps())
    whole["loop"] |= {key: "BIG" if value == 10**5000 else value for key, value in change.items()}
    with pytest.raises(ConversationError):
        RunState.loads(json.dumps(whole).replace('"BIG"', "9" * 5000))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_numbers_that_json_does_not_have_are_not_taken_over(number: str) -> None:
    whole = RunState(Conversation("id", "t"), LoopState("done", ({"role": "user", "x": 0},))).dumps()
    state = RunState.loads(whole.replace('"x":0', f'"x":{number}'))
    assert state.loop.items == ({"role": "user", "x": None},)
    with pytest.raises(ConversationError):
        RunState.loads(whole.replace('"seconds":0.0', f'"seconds":{number}'))


@pytest.mark.parametrize("depth", [150, 5000, 200_000])
def test_a_bomb_of_json_is_refused(depth: int) -> None:
    whole = RunState(Conversation("id", "t"), LoopState("done", ({"role": "user", "x": 0},))).dumps()
    with pytest.raises(ConversationError):
        RunState.loads(whole.replace('"x":0', f'"x":{"[" * depth}{"]" * depth}'))


@given(st.dictionaries(st.sampled_from([*LoopState.__dataclass_fields__]), JSON, max_size=3))
def test_whatever_a_file_says_is_taken_as_it_is_or_refused(change: dict[str, Any]) -> None:
    whole = json.loads(RunState(Conversation("id", "t"), LoopState("done", usage=Usage(1))).dumps())
    whole["loop"] |= change
    read = taken(json.dumps(whole))
    if isinstance(read, RunState):
        assert RunState.loads(read.dumps()) == read
    else:
        assert len(read) < 300


def taken(text: str) -> RunState | str:
    """Returns the state, or what is told instead."""
    try:
        return RunState.loads(text)
    except ConversationError as error:
        return error.message


def test_what_is_told_of_a_file_is_short_and_on_one_line() -> None:
    whole = json.loads(RunState(Conversation("id", "t"), LoopState("done")).dumps())
    whole["loop"]["\x1b[2J\n" * 10_000] = 1
    told = taken(json.dumps(whole))
    assert isinstance(told, str)
    assert len(told) < 400
    assert told.isprintable()

"""What a box says it recorded, and what the host takes of it."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.engines.recorded import recording
from sandbox_skills.errors import RecorderError, RunnerProtocolError
from sandbox_skills.recording import Event, Recording

ROW = ["connect", "192.0.2.1", "80", 2]


def test_a_recording_is_read() -> None:
    found = recording({"events": [ROW], "lost": {"write": 3}})
    assert found == Recording((Event("connect", "192.0.2.1", "80", 2),), {"write": 3})
    assert found.as_dict()["lost"] == {"write": 3}


def test_what_steers_a_terminal_is_told_in_plain_text() -> None:
    (event,) = recording({"events": [["read", "a\x1b[2Jb", "\u202e", 1]], "lost": {}}).events
    assert (event.what, event.detail) == (r"a\x1b[2Jb", r"\u202e")


def test_a_runner_that_knows_nothing_of_it_is_told_as_that() -> None:
    with pytest.raises(RecorderError, match="cannot record"):
        recording(None)


@pytest.mark.parametrize(
    "value",
    [
        [],
        "x",
        {},
        {"events": [ROW]},
        {"events": {}, "lost": {}},
        {"events": [ROW[:3]], "lost": {}},
        {"events": [["exec", "a", "", 1]], "lost": {}},
        {"events": [["read", 1, "", 1]], "lost": {}},
        {"events": [["read", "a", "", 0]], "lost": {}},
        {"events": [["read", "a", "", True]], "lost": {}},
        {"events": [["read", "a", "", 2**63]], "lost": {}},
        {"events": [[["read"], "a", "", 1]], "lost": {}},
        {"events": [], "lost": {"all": 1}},
        {"events": [], "lost": {"read": -1}},
    ],
)
def test_what_no_runner_sends_breaks_the_protocol(value: object) -> None:
    with pytest.raises(RunnerProtocolError):
        recording(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_any_json_is_read_or_refused(value: object) -> None:
    with suppress(RecorderError, RunnerProtocolError):
        recording(value)

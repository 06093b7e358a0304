"""Updates of open pages as an event stream has them."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.daemon.ui.views.updates import QUIET, Append, End, Renew, message


@given(st.text(max_size=50))
def test_no_text_begins_an_event_of_its_own(text: str) -> None:
    lines = message(7, Append("log", "stdout", text)).decode().splitlines()
    assert lines[:2] == ["id: 7", "event: append"]
    assert json.loads(lines[2].removeprefix("data: ")) == {"to": "log", "kind": "stdout", "text": text}
    assert lines[3:] == [""]


def test_the_other_updates() -> None:
    assert message(1, Renew()) == b"id: 1\nevent: renew\ndata: {}\n\n"
    assert message(2, End()) == b"id: 2\nevent: end\ndata: {}\n\n"
    assert message(3, None) == QUIET

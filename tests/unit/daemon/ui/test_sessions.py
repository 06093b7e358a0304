"""Sessions as pages show them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandbox_skills.daemon.service.session_files import Listing, SessionFile
from sandbox_skills.daemon.truth.sessions import Session, SessionEnd, SessionState
from sandbox_skills.daemon.ui.views.sessions import SessionFileRow, session_page, session_row
from tests.unit.daemon.ui.records import NOW

SESSION = Session(
    id="01JDZ6V7Z3M9QHTR4W8YB2C5KD",
    tenant_id="t",
    name="",
    state=SessionState.ACTIVE,
    node=None,
    snapshot=None,
    end=None,
    ttl_seconds=60.0,
    created_at=NOW - 100,
    last_used_at=NOW - 10,
    expires_at=NOW + 50,
)


def test_a_session_without_a_name_is_told_by_its_id() -> None:
    row = session_row(SESSION, NOW)
    assert (row.name, row.badge.words, row.used.words, row.ends.words) == (
        "session B2C5KD",
        "active",
        "10 s ago",
        "in 50 s",
    )


@pytest.mark.parametrize(
    ("state", "end", "expected"),
    [
        (SessionState.IDLE, None, "idle"),
        (SessionState.CLOSED, SessionEnd.CLOSED, "closed"),
        (SessionState.CLOSED, SessionEnd.EXPIRED, "expired"),
        (SessionState.CLOSED, SessionEnd.LOST, "lost"),
    ],
)
def test_how_a_session_stands(state: SessionState, end: SessionEnd | None, expected: str) -> None:
    assert session_row(replace(SESSION, state=state, end=end), NOW).badge.words == expected


def test_only_an_open_session_can_be_closed() -> None:
    assert session_page(SESSION, (), None, NOW).can_close
    assert not session_page(replace(SESSION, state=SessionState.CLOSED), (), None, NOW).can_close


def test_files_are_told_with_where_they_can_be_had() -> None:
    listing = Listing((SessionFile("work/a&b?.txt", 2048),), whole=False)
    view = session_page(SESSION, (), listing, NOW)
    assert view.files == (
        SessionFileRow(
            "/sessions/01JDZ6V7Z3M9QHTR4W8YB2C5KD/file?path=work%2Fa%26b%3F.txt", "work/a&b?.txt", "2.0 KiB"
        ),
    )
    assert view.files_note == "There are more files than are listed."
    assert session_page(SESSION, (), Listing((), whole=True), NOW).files_note == "It has no files yet."

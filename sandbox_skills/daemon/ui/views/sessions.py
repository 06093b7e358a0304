"""Sessions as a list and as pages. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from sandbox_skills.daemon.truth.sessions import SessionEnd, SessionState
from sandbox_skills.daemon.ui.views.formatting import Time, short_id, size, time_of
from sandbox_skills.daemon.ui.views.log_text import page_line
from sandbox_skills.daemon.ui.views.outcomes import Badge, Tone

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_skills.daemon.service.session_files import Listing, SessionFile
    from sandbox_skills.daemon.truth.sessions import Session
    from sandbox_skills.daemon.ui.views.runs import RunRow

_STATES = {
    SessionState.ACTIVE: Badge("active", Tone.LIVE, "It has a sandbox."),
    SessionState.IDLE: Badge("idle", Tone.QUIET, "Its files are kept; the next run gives it a sandbox."),
    SessionState.CLOSED: Badge("closed", Tone.QUIET),
}

_ENDS = {
    SessionEnd.EXPIRED: Badge("expired", Tone.WARN, "Its time was over."),
    SessionEnd.LOST: Badge("lost", Tone.BAD, "Its sandbox went away, and nothing was kept of it."),
}


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One line of the list of sessions."""

    id: str
    name: str
    badge: Badge
    used: Time
    ends: Time
    created: Time


@dataclass(frozen=True, slots=True)
class SessionList:
    """Sessions, the newest first."""

    rows: tuple[SessionRow, ...]
    next: str


@dataclass(frozen=True, slots=True)
class SessionFileRow:
    """One file of a session's workspace."""

    path: str
    name: str
    size: str


@dataclass(frozen=True, slots=True)
class SessionPage:
    """One session, its files and the runs in it. `files_note` says why there are none, or that there are more."""

    row: SessionRow
    can_close: bool
    files: tuple[SessionFileRow, ...]
    files_note: str
    runs: tuple[RunRow, ...]


def session_row(session: Session, now: float) -> SessionRow:
    """Returns a session as one line."""
    usual = _STATES[session.state]
    return SessionRow(
        session.id,
        page_line(session.name) or f"session {short_id(session.id)}",
        usual if session.end is None else _ENDS.get(session.end, usual),
        time_of(session.last_used_at, now),
        time_of(session.expires_at, now),
        time_of(session.created_at, now),
    )


def session_page(
    session: Session, runs: Sequence[RunRow], listing: Listing | None, now: float
) -> SessionPage:
    """Returns the page of a session; without a listing its files were not asked for."""
    return SessionPage(
        session_row(session, now),
        session.state is not SessionState.CLOSED,
        () if listing is None else tuple(_file_row(session.id, file) for file in listing.files),
        "" if listing is None else _files_note(listing),
        tuple(runs),
    )


def _file_row(session_id: str, file: SessionFile) -> SessionFileRow:
    query = urlencode({"path": file.path})
    return SessionFileRow(f"/sessions/{session_id}/file?{query}", page_line(file.path), size(file.size))


def _files_note(listing: Listing) -> str:
    if not listing.files:
        return "It has no files yet."
    return "" if listing.whole else "There are more files than are listed."

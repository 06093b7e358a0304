"""The recording in an ENDED, believed no further than its form: texts are quoted, counts are counts. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast, get_args

from sandbox_skills.engines.wire import plain
from sandbox_skills.errors import RecorderError, RunnerProtocolError
from sandbox_skills.recording import Event, EventKind, Recording

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KINDS: tuple[EventKind, ...] = get_args(EventKind)

MAX_COUNT = 2**63 - 1
"""More than any run can try."""


def recording(value: object) -> Recording:
    """Returns what ENDED says was seen of a run that was to be recorded.

    Raises RecorderError for a runner that knows nothing of recording, RunnerProtocolError for what none sends.
    """
    if value is None:
        raise RecorderError(
            "the runner of this image cannot record",
            hint="sandbox-skills image build, or leave out the image",
        )
    if not isinstance(value, dict):
        raise _wrong()
    body = cast("Mapping[str, object]", value)
    events, lost = body.get("events"), body.get("lost")
    if not isinstance(events, list) or not isinstance(lost, dict):
        raise _wrong()
    rows = cast("Sequence[object]", events)
    counts = cast("Mapping[str, object]", lost)
    return Recording(
        tuple(_event(row) for row in rows), {_kind(kind): _count(count) for kind, count in counts.items()}
    )


def _event(value: object) -> Event:
    if not isinstance(value, list):
        raise _wrong()
    row = cast("Sequence[object]", value)
    if len(row) != 4:  # noqa: PLR2004  # kind, what, detail, count
        raise _wrong()
    return Event(_kind(row[0]), _text(row[1]), _text(row[2]), _count(row[3]))


def _kind(value: object) -> EventKind:
    for kind in KINDS:
        if value == kind:
            return kind
    raise _wrong()


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _wrong()
    return plain(value)


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_COUNT:
        raise _wrong()
    return value


def _wrong() -> RunnerProtocolError:
    return RunnerProtocolError("ENDED has no valid 'record'")

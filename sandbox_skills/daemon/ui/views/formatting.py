"""Times, sizes and names as people read them in a table. Pure: now is an argument."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sandbox_skills.spec import KIB, MIB

NOTHING = "\N{EN DASH}"
"""What stands where there is no value: a blank cell looks like a fault."""

GIB = 1024 * MIB

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400

_ID_TAIL = 6
"""Characters of an id that a table shows: of a ULID the first ones are the time, which has a column of its own."""


def duration(seconds: float | None) -> str:
    """Returns `420 ms`, `3.2 s`, `2 min 05 s`, `1 h 02 min`."""
    if seconds is None:
        return NOTHING
    seconds = max(0.0, seconds)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02d} s"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02d} min"


def size(count: int | None) -> str:
    """Returns `512 B`, `1.4 KiB`, `3.0 MiB`, `2.0 GiB`."""
    if count is None:
        return NOTHING
    if count < KIB:
        return f"{count} B"
    if count < MIB:
        return f"{count / KIB:.1f} KiB"
    if count < GIB:
        return f"{count / MIB:.1f} MiB"
    return f"{count / GIB:.1f} GiB"


def ago(at: float | None, now: float) -> str:
    """Returns how long ago `at` was, coarsely; what lies ahead is `in …`. Both are seconds since the epoch."""
    if at is None:
        return NOTHING
    away = _coarse(abs(now - at))
    if not away:
        return "just now"
    return f"{away} ago" if at <= now else f"in {away}"


def _coarse(seconds: float) -> str:
    for length, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (1, "s")):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return ""


def moment(at: float | None) -> str:
    """Returns the exact time in UTC, for a title."""
    if at is None:
        return NOTHING
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def short_id(text: str) -> str:
    """Returns the end of an id, which tells two neighbours apart."""
    return text[-_ID_TAIL:]


def counted(number: int, one: str, many: str = "") -> str:
    """Returns `1 file`, `2 files`; `many` is a plural that is not made with an s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


@dataclass(frozen=True, slots=True)
class Time:
    """A moment as a page shows it: coarsely, with the exact one behind it."""

    words: str
    exact: str


def time_of(at: float | None, now: float) -> Time:
    """Returns a moment as seen from `now`; both are seconds since the epoch."""
    return Time(ago(at, now), moment(at))

"""Which staged copies a garbage collection takes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

RECENT_SECONDS = 3600.0
"""Never evicted within this time of its use, for room, or because the clock was set to another year: four times the
longest run, so no process is still in it."""


USE_SECONDS = 10.0
"""How exact it is when a copy was used last: to write that down for each run costs a tenth of a warm one."""


@dataclass(frozen=True, slots=True)
class Copy:
    """One staged copy: its directory name, its size, and when it was last used.

    `used_at` is in seconds since the epoch, `used_uptime` in seconds since the host had started.
    """

    name: str
    bytes: int
    used_at: float
    used_uptime: float = 0.0


def victims(
    copies: Iterable[Copy],
    *,
    now: float,
    up: float,
    max_age: float,
    max_bytes: int,
    in_use: Collection[str],
) -> list[Copy]:
    """Returns the copies to remove, longest unused first; `now` is Unix time, `up` the host's uptime.

    Those unused for more than `max_age` seconds, then as many more as bring the rest under `max_bytes`; never one
    whose name is `in_use`, and for room never one used in the last hour. That hour, and a shorter `max_age`, are
    counted by the uptime as well: nothing that a process may still use goes because a clock jumped. All of it is
    USE_SECONDS longer, for uses that nobody wrote down.
    """
    ordered = sorted(copies, key=lambda copy: (copy.used_at, copy.name))
    excess = sum(copy.bytes for copy in ordered) - max_bytes
    taken: list[Copy] = []
    for copy in ordered:
        idle = now - copy.used_at - USE_SECONDS
        for_room = excess > 0 and idle > RECENT_SECONDS
        unused_for = up - copy.used_uptime - USE_SECONDS
        unused = copy.used_uptime > up or unused_for > min(max_age, RECENT_SECONDS)
        if copy.name not in in_use and unused and (idle > max_age or for_room):
            taken.append(copy)
            excess -= copy.bytes
    return taken

"""A comparison with an end: regular expressions and JSONPaths are a stranger's, and some would go on for ever.

It is done in a process of its own, as nothing else can be stopped there, and it is the processor's time that counts.
"""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import anyio
from anyio import to_process

from sandbox_skills.ci.compare import compare
from sandbox_skills.ci.observed import Failure

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

    from sandbox_skills.ci.expect import Expect
    from sandbox_skills.ci.observed import Observed

CPU_SECONDS = 5.0
"""Comparisons take milliseconds, or for ever."""

WALL_SECONDS = 120.0
"""For a process that does not get to its end otherwise; a busy machine takes seconds to start one."""


class _OverError(Exception):
    """The time is up."""


async def compare_bounded(
    expected: Expect, seen: Observed, snapshots: Mapping[str, str | None], *, cpu_seconds: float = CPU_SECONDS
) -> tuple[Failure, ...]:
    """Returns every expectation that does not hold, or that finding out takes too long."""
    if not expected.is_slow:
        return compare(expected, seen, snapshots)
    work = partial(_compare, expected, seen, dict(snapshots), cpu_seconds)
    with anyio.move_on_after(WALL_SECONDS):
        return await to_process.run_sync(work, cancellable=True)
    return _over(WALL_SECONDS)


def _compare(
    expected: Expect, seen: Observed, snapshots: Mapping[str, str | None], cpu_seconds: float
) -> tuple[Failure, ...]:
    signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_seconds)
    try:
        return compare(expected, seen, snapshots)
    except _OverError:
        return _over(cpu_seconds)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _OverError


def _over(seconds: float) -> tuple[Failure, ...]:
    told = f"comparing took more than {seconds:g} s: make its regular expressions and JSONPaths simpler"
    return (Failure("expect", told),)

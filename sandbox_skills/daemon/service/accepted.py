"""What was read of runs that this process accepted a moment ago: whoever works on one need not read it again."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox_skills.daemon.service.run_order import RunOrder
    from sandbox_skills.daemon.service.skills import OpenedSkill

MOMENT_SECONDS = 1.0
"""How old what was read may be: the catalog is looked at again for a run that had to wait."""

MOST = 64
"""Runs that are remembered: more do not begin within a moment, and each may hold a body of a megabyte."""


@dataclass(frozen=True, slots=True)
class AcceptedRun:
    """What was asked for, and the skill as it was found; None for one that was uploaded, whose files are to be held."""

    order: RunOrder
    skill: OpenedSkill | None


class AcceptedRuns:
    """What is known of runs by their ids, for a moment and once each. A memory alone: the rows say all of it, too."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, AcceptedRun]] = OrderedDict()

    def keep(self, run_id: str, accepted: AcceptedRun) -> None:
        """Remembers a run, and forgets the one that is remembered longest where there are too many."""
        self._known[run_id] = (self._clock(), accepted)
        while len(self._known) > MOST:
            self._known.popitem(last=False)

    def take(self, run_id: str) -> AcceptedRun | None:
        """Returns what is known of a run and forgets it; None where that is nothing, or too old."""
        kept_at, accepted = self._known.pop(run_id, (0.0, None))
        return accepted if self._clock() - kept_at < MOMENT_SECONDS else None

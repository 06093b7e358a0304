"""How runs ended, for those of this process who wait: with no look at the database."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sandbox_skills.daemon.dispatch.waiting import Waiting

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from sandbox_skills.daemon.truth.run import Run


class Ends:
    """Tells a run that is over to everybody who awaits it. Of one event loop."""

    def __init__(self) -> None:
        self._awaited: Waiting[asyncio.Future[Run]] = Waiting()

    def tell(self, run: Run) -> None:
        """Says how a run ended, once that is written down."""
        for told in self._awaited.of(run.id):
            if not told.done():
                told.set_result(run)

    def awaiting(self, run_id: str) -> AbstractContextManager[asyncio.Future[Run]]:
        """Gives what will be the run, once it is over, if it ends from now on and in this process."""
        return self._awaited.held(run_id, asyncio.get_running_loop().create_future())

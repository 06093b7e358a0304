"""How runs ended, for those of this process who wait: with no look at the database."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

    from sandbox_skills.daemon.truth.run import Run


class Ends:
    """Tells a run that is over to everybody who awaits it. Of one event loop."""

    def __init__(self) -> None:
        self._awaited: dict[str, set[asyncio.Future[Run]]] = {}

    def tell(self, run: Run) -> None:
        """Says how a run ended, once that is written down."""
        for told in self._awaited.get(run.id, ()):
            if not told.done():
                told.set_result(run)

    @contextmanager
    def awaiting(self, run_id: str) -> Generator[asyncio.Future[Run]]:
        """Gives what will be the run, once it is over, if it ends from now on and in this process."""
        told: asyncio.Future[Run] = asyncio.get_running_loop().create_future()
        awaited = self._awaited.setdefault(run_id, set())
        awaited.add(told)
        try:
            yield told
        finally:
            awaited.discard(told)
            if not awaited and self._awaited.get(run_id) is awaited:
                del self._awaited[run_id]

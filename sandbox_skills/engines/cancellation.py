"""Clean-up that a cancel cannot interrupt: a box that is half ended is a leak."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


async def finish(work: Coroutine[object, object, T], *, grace: float | None = None) -> T:
    """Runs `work` to its end whatever cancels the caller, then lets the cancel through.

    With `grace`, `work` is itself cancelled that many seconds after the first cancel. Raises what `work` raises, or
    CancelledError when the caller was cancelled meanwhile.
    """
    task = asyncio.ensure_future(work)
    cancel: asyncio.CancelledError | None = None
    deadline: float | None = None
    # anyio cancels again at every await unless shielded, so that clean-up in a cancelled scope is shielded at once;
    # asyncio cancels once, which the loop absorbs.
    with anyio.CancelScope(shield=anyio.current_effective_deadline() == -math.inf) as scope:
        while not task.done():
            try:
                await asyncio.wait([task], timeout=deadline and max(0.0, deadline - time.monotonic()))
            except asyncio.CancelledError as error:
                scope.shield = True
                if cancel is None and grace is not None:
                    deadline = time.monotonic() + grace
                cancel = error
            else:
                if not task.done():
                    task.cancel()
                    deadline = None
    if cancel is not None:
        if not task.cancelled():
            task.exception()  # marks it as seen: the cancel is what the caller hears of
        raise cancel
    return task.result()

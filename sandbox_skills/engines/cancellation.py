"""Clean-up that a cancel cannot interrupt: a box that is half ended is a leak."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine

T = TypeVar("T")
Other = TypeVar("Other")


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


async def together(first: Awaitable[T], second: Awaitable[Other]) -> tuple[T, Other]:
    """Runs both at once, begun in that order, and returns what they do; raises what the first to fail raises.

    Unlike `asyncio.gather`, it is left only when both have ended: neither goes on behind a cancel or a failure.
    """
    tasks: list[asyncio.Future[Any]] = [asyncio.ensure_future(first), asyncio.ensure_future(second)]
    try:
        one, other = await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await finish(asyncio.wait(tasks))
        raise
    return one, other

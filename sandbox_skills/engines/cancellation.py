"""Clean-up that a cancel cannot interrupt: a box that is half ended is a leak."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

import anyio

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


async def finish(work: Coroutine[object, object, T]) -> T:
    """Runs `work` to its end whatever cancels the caller, then lets the cancel through.

    Raises what `work` raises, or CancelledError when the caller was cancelled meanwhile.
    """
    task = asyncio.ensure_future(work)
    cancel: asyncio.CancelledError | None = None
    # anyio cancels again at every await unless shielded; asyncio cancels once, which the loop absorbs.
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancel = error
    if cancel is not None:
        if not task.cancelled():
            task.exception()  # marks it as seen: the cancel is what the caller hears of
        raise cancel
    return task.result()

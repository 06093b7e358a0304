"""Streams that live as long as their reader does: what comes is sent at once, and silence is broken now and then."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

T = TypeVar("T")

QUIET_SECONDS = 15.0
"""Silence after which something is sent that means nothing: proxies hang up after thirty to sixty seconds."""


async def spoken(
    events: AsyncGenerator[T], spell: Callable[[T], bytes], quiet: bytes, *, seconds: float = QUIET_SECONDS
) -> AsyncGenerator[bytes]:
    """Yields what `spell` makes of each event, and `quiet` where none came for so long. Leaving it ends `events`."""
    async with aclosing(events):
        while True:
            waiting = asyncio.ensure_future(anext(events, None))
            try:
                while not (await asyncio.wait([waiting], timeout=seconds))[0]:
                    yield quiet
                event = waiting.result()
            finally:
                # A generator that is asked cannot be closed.
                if not waiting.done():
                    waiting.cancel()
                    await asyncio.wait([waiting])
            if event is None:
                return
            yield spell(event)

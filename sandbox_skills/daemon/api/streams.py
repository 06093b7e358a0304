"""Streams that live as long as their reader does: what comes is sent at once, and silence is broken now and then."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

T = TypeVar("T")

QUIET_SECONDS = 15.0
"""Silence after which something is sent that means nothing: proxies hang up after thirty to sixty seconds."""

LOOK_SECONDS = 15.0
"""Between two looks at whether a key counts still: for so long, one that was revoked is listened to."""


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


async def while_allowed(
    chunks: AsyncGenerator[bytes], allowed: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[bytes]:
    """Yields chunks for as long as `allowed` says so, which is asked again every LOOK_SECONDS."""
    looked = time.monotonic()
    async with aclosing(chunks):
        async for chunk in chunks:
            if time.monotonic() - looked >= LOOK_SECONDS:
                if not await allowed():
                    return
                looked = time.monotonic()
            yield chunk

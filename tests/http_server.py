"""An application behind a real HTTP server on the loopback, in the test's own event loop."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.types import ASGIApp


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncGenerator[int]:
    """Serves while the block lasts, and gives the port."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    async with asyncio.timeout(10):
        while not server.started:  # noqa: ASYNC110  # it tells nobody
            await asyncio.sleep(0.005)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await task

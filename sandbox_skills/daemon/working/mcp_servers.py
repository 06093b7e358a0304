"""MCP over HTTP: one server for each tenant, with the tools, skills and artifacts of that tenant."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from anyio import to_thread
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from sandbox_skills.daemon.access.limits import tenant_limits
from sandbox_skills.daemon.service.while_used import WhileUsed
from sandbox_skills.mcp.resources import Resources
from sandbox_skills.mcp.server import SkillServer
from sandbox_skills.wiring import artifact_store

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from starlette.types import Receive, Scope, Send

    from sandbox_skills.daemon.access.rates import RateLimiter
    from sandbox_skills.daemon.service.tenant_tools import TenantTools
    from sandbox_skills.daemon.service.tools import ToolService
    from sandbox_skills.daemon.truth.tenants import Tenant
    from sandbox_skills.settings import Settings

SESSIONS = 200
"""Of one tenant's clients at a time: each holds a few kilobytes, and a client that lost its own makes another."""

IDLE_SECONDS = 1_800.0
"""After which a session without a request is over: its client begins a new one, and its files have gone anyhow."""


@dataclass(slots=True)
class _Serving:
    """The server of one tenant while it serves; `over` ends it. `asking` requests are under way."""

    tools: TenantTools
    manager: StreamableHTTPSessionManager
    over: asyncio.Event
    task: asyncio.Task[None]
    asking: int = 0
    used_at: float = field(default_factory=time.monotonic)

    @contextmanager
    def used(self) -> Generator[None]:
        """Says that a request is under way while the block lasts."""
        self.asking += 1
        try:
            yield
        finally:
            self.asking -= 1
            self.used_at = time.monotonic()

    def is_idle(self, seconds: float) -> bool:
        """Whether nobody has asked for so long: its sessions are over by then."""
        return not self.asking and time.monotonic() - self.used_at >= seconds


class McpServers:
    """Serves tenants over MCP while it is entered; each one's server is made at its first request."""

    def __init__(self, settings: Settings, tools: ToolService, rates: RateLimiter) -> None:
        self._settings = settings
        self._tools = tools
        self._rates = rates
        self._serving: dict[str, _Serving] = {}
        self._locks = WhileUsed(asyncio.Lock)

    def count(self) -> int:
        """Returns how many tenants have a server just now."""
        return len(self._serving)

    async def handle(self, tenant: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request of a tenant."""
        serving = await self._server(tenant)
        with serving.used():
            await serving.manager.handle_request(scope, receive, send)

    async def tidy(self, *, idle_seconds: float = IDLE_SECONDS) -> None:
        """Ends the servers of tenants that have not asked for so long; the next request makes another."""
        for tenant in list(self._serving):
            async with self._locks.of(tenant):
                serving = self._serving.get(tenant)
                if serving is not None and serving.is_idle(idle_seconds):
                    await self._end(tenant)

    async def aclose(self) -> None:
        """Ends every session."""
        for tenant in list(self._serving):
            await self._end(tenant)

    async def _server(self, tenant: str) -> _Serving:
        tools = await self._tools.tools_of(tenant)
        async with self._locks.of(tenant):
            serving = self._serving.get(tenant)
            if serving is not None and (serving.tools is not tools or serving.task.done()):
                # An admin has changed what the tenant may: its sessions begin anew.
                await self._end(tenant)
                serving = None
            if serving is None:
                serving = self._serving[tenant] = await self._begin(tools, tenant)
            return serving

    async def _begin(self, tools: TenantTools, tenant: str) -> _Serving:
        toolbox = await to_thread.run_sync(tools.toolbox)
        resources = Resources(tools.offered, artifact_store(self._settings), tenant)
        server = SkillServer(toolbox, resources, tenant, partial(self._slot, tools.tenant))
        mcp = await to_thread.run_sync(server.server)
        manager = StreamableHTTPSessionManager(mcp, session_idle_timeout=IDLE_SECONDS, max_sessions=SESSIONS)
        begun, over = asyncio.Event(), asyncio.Event()

        async def serve() -> None:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(manager.run())
                await stack.enter_async_context(server.watching())
                begun.set()
                await over.wait()

        # A task of its own: what it enters must be left where it was entered, and requests come and go.
        task = asyncio.create_task(serve(), name=f"mcp of {tenant}")
        waiting = asyncio.create_task(begun.wait())
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if task.done():
            task.result()
        return _Serving(tools, manager, over, task)

    @asynccontextmanager
    async def _slot(self, tenant: Tenant) -> AsyncGenerator[None]:
        """Waits for the turn of a call, which counts as a run; raises RateLimitedError."""
        limits = tenant_limits(tenant.limits)
        self._rates.check(tenant.id, per_minute=limits.runs_per_minute, now=time.monotonic())
        async with self._tools.slot(tenant.id):
            yield

    async def _end(self, tenant: str) -> None:
        if serving := self._serving.pop(tenant, None):
            serving.over.set()
            await asyncio.wait([serving.task])

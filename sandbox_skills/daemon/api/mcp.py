"""MCP at `/mcp`, by the same keys as everything else: a key's tenant is all that its client sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from sandbox_skills.daemon.access.keys import KEY_HINT
from sandbox_skills.daemon.access.scopes import Scope
from sandbox_skills.daemon.api.auth import identified, token_in
from sandbox_skills.daemon.api.streams import HeldOpen
from sandbox_skills.daemon.errors import KeyInvalidError

if TYPE_CHECKING:
    from starlette.types import Receive, Send
    from starlette.types import Scope as Connection

    from sandbox_skills.daemon.working.daemon import Daemon

PATH = "/mcp"


@dataclass(frozen=True, slots=True)
class McpEndpoint:
    """An ASGI application: who asks is found out, then the tenant's own server answers."""

    daemon: Daemon

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Answers one request; raises KeyInvalidError, ScopeError, PolicyError, DrainingError."""
        who = await identified(self.daemon, token_in(Headers(scope=scope)))
        who.need(Scope.RUN)
        who.need_engine(self.daemon)
        self.daemon.check_taking()
        held = HeldOpen(receive, send, who.counts)
        await self.daemon.mcp.handle(who.tenant_id, scope, held.receive, held.send)
        if held.refused and not held.begun:
            raise KeyInvalidError("the key does not count any more", hint=KEY_HINT)
        await held.end()

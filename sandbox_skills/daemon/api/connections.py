"""Connections: one that says nothing holds a descriptor, and for no long; a WebSocket that is refused was answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from sandbox_skills.daemon.api.body_limits import WHOLE

if TYPE_CHECKING:
    import asyncio

    from uvicorn._types import ASGISendEvent

HEAD_SECONDS = 20.0
"""Longest from the first byte of a request, or from the connection, to the end of its head."""


class Connection(H11Protocol):
    """HTTP/1.1, closed where the head of a request does not come; the web server itself would wait for ever."""

    _giving_up: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as it is there
        """Waits for the first request."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Takes bytes, and waits for the rest of a head that is not whole; notes with a request that it is."""
        super().data_received(data)
        if self.conn.their_state is h11.DONE:  # the application begins with the loop's next turn
            self.cycle.scope.setdefault("state", {})[WHOLE] = True
        if self.conn.their_state is h11.IDLE:
            self._await_head()
        else:
            self._wait_no_more()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the wait."""
        self._wait_no_more()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self._giving_up is None:
            self._giving_up = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _wait_no_more(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None


class TalkConnection(WebSocketsSansIOProtocol):
    """A WebSocket. One that is refused by an answer was answered: the web server would log that as an error of ours."""

    async def send(self, message: ASGISendEvent) -> None:
        """Sends a message of the application's."""
        await super().send(message)
        if self.close_sent:
            self.handshake_complete = True

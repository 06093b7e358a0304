"""Connections: one that says nothing holds a descriptor, and for no long; a WebSocket that is refused was answered.

The parser (llhttp) bounds nothing of what it keeps of a request before it is whole; that is done here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from sandbox_skills.daemon.api.body_limits import WHOLE
from sandbox_skills.spec import KIB

if TYPE_CHECKING:
    import asyncio

    from uvicorn._types import ASGISendEvent
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

HEAD_SECONDS = 20.0
"""Longest from the first byte of a request, or from the connection, to the end of its head."""

MAX_HEAD = 64 * KIB
"""Bytes of a request's head, and of what stands around the parts of its body: no client of ours sends a tenth."""

AROUND = len(": \r\n")
"""Bytes of a header beside its name and its value."""

REFUSED = "The head of the request is too long."


class BadHeadError(Exception):
    """The head of a request is none that is answered: the parser makes of it what it makes of every fault, a 400."""


class Connection(HttpToolsProtocol):
    """HTTP/1.1, closed where the head of a request does not come; the web server itself would wait for ever."""

    _giving_up: asyncio.TimerHandle | None = None
    _in_head = True
    _head = 0
    """Bytes of the request's headers, those behind its body included."""
    _unread = 0
    """Bytes that came since something was whole."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as it is there
        """Waits for the first request."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Takes bytes, and waits for the rest of a head that is not whole, if it may be longer."""
        self._unread += len(data)
        super().data_received(data)
        if self._unread > MAX_HEAD:
            self._refuse()
        if self._in_head:
            self._await_head()
        else:
            self._wait_no_more()

    def on_message_begin(self) -> None:
        """Begins to count."""
        super().on_message_begin()
        self._in_head, self._head = True, 0

    def on_url(self, url: bytes) -> None:
        """Keeps a piece of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keeps a header; none from behind the body: what stands in front of it was believed already."""
        self._count(len(name) + len(value) + AROUND)
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Lets the application begin with the loop's next turn; raises BadHeadError for a request of no one host."""
        self._in_head, self._unread = False, 0
        # RFC 9112, 3.2: a proxy may have gone by the other one.
        hosts = [name for name, _ in self.headers].count(b"host")
        version = self.parser.get_http_version()  # pyright: ignore[reportOptionalMemberAccess]  # gone with the connection
        if hosts != 1 and version != "1.0":
            raise BadHeadError
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Hands on a part of the body, which has its own bounds."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Notes with a request that it is whole."""
        self._unread = 0
        super().on_message_complete()
        if (cycle := self._current()) is not None:
            cycle.scope.setdefault("state", {})[WHOLE] = True

    def _current(self) -> RequestResponseCycle | None:
        """Returns the request that came last, and its answer; at first there is none, which its type hides."""
        return self.cycle

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > MAX_HEAD:
            raise BadHeadError

    def _refuse(self) -> None:
        cycle = self._current()
        if cycle is None or cycle.response_complete:
            self.send_400_response(REFUSED)
        self.transport.close()

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

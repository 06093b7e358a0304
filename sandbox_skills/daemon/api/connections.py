"""Connections: one that says nothing holds a descriptor, and for no long; a WebSocket that is refused was answered.

The parser (llhttp) bounds nothing of what it keeps of a request before it is whole; that is done here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from sandbox_skills.daemon.api.body_limits import WHOLE
from sandbox_skills.spec import KIB

if TYPE_CHECKING:
    import asyncio

    from uvicorn._types import ASGI3Application, ASGIReceiveCallable, ASGISendCallable, ASGISendEvent, Scope
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

HEAD_SECONDS = 20.0
"""Longest from the first byte of a request, or from the connection, to the end of its head."""

MAX_HEAD = 64 * KIB
"""Bytes of a request's head, and of what stands around the parts of its body: no client of ours sends a tenth."""

AROUND = len(": \r\n")
"""Bytes of a header beside its name and its value."""

MAX_WAITING = 64
"""Requests that came behind one that is not answered yet; a read of 256 KiB holds fourteen thousand."""

TOO_LONG = "The head of the request is too long."
UNREADABLE = "Invalid HTTP request received."

CODINGS: list[list[bytes]] = [[], [b"chunked"]]
"""What a request may say of the coding of its body: the parser would take a packed one, and hand it on as it is."""

BODIED = frozenset({b"content-length", b"transfer-encoding"})

OLD = frozenset({"0.9", "1.0"})
"""Versions that know neither chunks nor a host nor an answer before the answer."""


class BadHeadError(Exception):
    """The head of a request is none that is answered: the parser makes of it what it makes of every fault, a 400."""


class Connection(HttpToolsProtocol):
    """HTTP/1.1, closed where the head of a request does not come; the web server itself would wait for ever."""

    _giving_up: asyncio.TimerHandle | None = None
    _answering: RequestResponseCycle | None = None
    """The request that was given to the application last; those behind it wait."""
    _refusal: str | None = None
    """Said when all before it is answered; nothing is read any more."""
    _line = (b"", b"", b"")
    """Method, address and version."""
    _in_head = True
    _head = 0
    """Bytes of the request's address and headers, those behind its body included."""
    _unread = 0
    """Bytes that came since something was whole."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as it is there
        """Waits for the first request."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Takes bytes, and waits for the rest, if it may be longer, where nothing is being answered: else others do."""
        if self._refusal is not None:
            return
        self._unset_keepalive_if_required()
        self._unread += len(data)
        self._parse(memoryview(data))
        if self._unread > MAX_HEAD and self._refusal is None:
            self.send_400_response(TOO_LONG)
        if self._is_answering() or self.transport.get_protocol() is not self:
            self._wait_no_more()
        else:
            self._await_head()

    def _parse(self, data: memoryview) -> None:
        while data:
            try:
                self._reading().feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                if self._should_upgrade():
                    self.handle_websocket_upgrade()
                    return
                data = memoryview(self._plain_head() + data[upgrade.args[0] :])
            except httptools.HttpParserError:
                self.logger.warning(UNREADABLE)
                self.send_400_response(UNREADABLE)
                return
            else:
                return

    def _plain_head(self) -> bytes:
        """Returns the head that was read, wanting no other protocol: in that the parser would not read its body."""
        kept = [(name, value) for name, value in self.headers if name != b"upgrade"]
        lines = [b"%b %b HTTP/%b" % self._line, *(b"%b: %b" % header for header in kept)]
        return b"\r\n".join([*lines, b"", b""])

    def handle_websocket_upgrade(self) -> None:
        """Gives the connection away, if nobody is to be answered on it any more."""
        if self._is_answering():
            self.send_400_response(UNREADABLE)
        else:
            super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """Refuses what cannot be read, behind the answers to what could be: a client tells them by their order."""
        self._refusal = msg
        cycle = self._current()
        if self.pipeline and cycle is not None and cycle.more_body:
            self.pipeline.popleft()  # it is the body of this one
        elif not self._is_answering() or (cycle is self._answering and cycle is not None and cycle.more_body):
            self._refuse(msg)

    def _refuse(self, msg: str) -> None:
        if self._is_answering() and self._answering is not None and self._answering.response_started:
            self.transport.close()
        else:
            super().send_400_response(msg)

    def on_response_complete(self) -> None:
        """Goes on to what waits."""
        super().on_response_complete()
        if self._refusal is not None and not self._is_answering() and not self.transport.is_closing():
            super().send_400_response(self._refusal)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._answering = cycle
        super()._start_asgi_task(
            cycle, _in_one_piece(cycle, app) if cycle.scope["http_version"] in OLD else app
        )

    def _is_answering(self) -> bool:
        return self._answering is not None and not self._answering.response_complete

    def on_message_begin(self) -> None:
        """Begins to count; raises BadHeadError where too many wait."""
        if len(self.pipeline) >= MAX_WAITING:
            raise BadHeadError
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
            # Space behind a value is no part of it; the parser leaves it there.
            super().on_header(name, value.rstrip(b" \t"))

    def on_headers_complete(self) -> None:
        """Lets the application begin with the loop's next turn; raises BadHeadError for what is read in two ways."""
        self._in_head, self._unread = False, 0
        parser = self._reading()
        version, method = parser.get_http_version(), parser.get_method()
        # RFC 9112, 3.2 and 6.1: a proxy may have gone by the other one.
        hosts = [name for name, _ in self.headers].count(b"host")
        codings = [value.lower() for name, value in self.headers if name == b"transfer-encoding"]
        if (hosts != 1 and version not in OLD) or codings not in CODINGS or method == b"CONNECT":
            raise BadHeadError
        self._line = (method, self.url, version.encode())
        if parser.should_upgrade():
            if not self._should_upgrade():
                return  # it comes again
            if any(name in BODIED and value != b"0" for name, value in self.headers):
                raise BadHeadError  # who takes the connection would wait for the body, which is not read
        self.expect_100_continue = self.expect_100_continue and version not in OLD
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Hands on a part of the body, which has its own bounds."""
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Notes with a request that it is whole."""
        self._unread = 0
        if self._reading().should_upgrade():
            return
        super().on_message_complete()
        if (cycle := self._current()) is not None:
            cycle.scope.setdefault("state", {})[WHOLE] = True

    def _current(self) -> RequestResponseCycle | None:
        """Returns the request that came last, and its answer; at first there is none, which its type hides."""
        return self.cycle

    def _reading(self) -> httptools.HttpRequestParser:
        """Returns the parser, which is gone with the connection only."""
        return self.parser  # pyright: ignore[reportReturnType]

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > MAX_HEAD:
            raise BadHeadError

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the wait, and tells the one who is answering: the web server tells him who came last."""
        self._wait_no_more()
        self.pipeline.clear()
        if self._answering is not None and self._is_answering():
            self._answering.disconnected = True
            self._answering.message_event.set()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self._giving_up is None:
            self._giving_up = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _wait_no_more(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None


def _in_one_piece(cycle: RequestResponseCycle, app: ASGI3Application) -> ASGI3Application:
    """Returns the application with answers that have no chunks: they end with the connection, or as they say."""
    cycle.chunked_encoding = False

    async def answer(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        async def sending(message: ASGISendEvent) -> None:
            if message["type"] == "http.response.body":
                cycle.expected_content_length = len(message.get("body", b""))
            await send(message)

        await app(scope, receive, sending)

    return answer


class TalkConnection(WebSocketsSansIOProtocol):
    """A WebSocket. One that is refused by an answer was answered: the web server would log that as an error of ours."""

    async def send(self, message: ASGISendEvent) -> None:
        """Sends a message of the application's."""
        await super().send(message)
        if self.close_sent:
            self.handshake_complete = True

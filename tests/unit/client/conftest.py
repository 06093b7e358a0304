"""A daemon's side of the wire as it was told to be: answers in their order, connections that break among them."""

from __future__ import annotations

import json
import threading
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.client import ServerOptions
from sandbox_skills.outgoing.retry_policy import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "ssk_0123456789abcdef"
QUICK = RetryPolicy(attempts=4, seconds=10.0, first_wait=0.01, longest_wait=0.05)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; its `body` is JSON or bytes. With `cut` only that many of them come, and the connection ends."""

    body: object = field(default_factory=dict)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection ends without an answer."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401  # whatever it is
        return json.loads(self.body)


class ScriptedServer:
    """Answers on the loopback; one request too many gets a 500."""

    def __init__(self) -> None:
        self.replies: deque[Reply | Lost] = deque()
        self.asked: list[Asked] = []
        self.url = ""

    def script(self, *replies: Reply | Lost) -> None:
        self.replies += replies

    def options(self, **more: Any) -> ServerOptions:  # noqa: ANN401  # as ServerOptions
        return ServerOptions(**{"url": self.url, "api_key": KEY, "retry": QUICK, **more})

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = _body(handler)
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.asked.append(Asked(handler.command, handler.path, headers, body))
        reply = self.replies.popleft() if self.replies else Reply({"detail": "not told"}, 500)
        if isinstance(reply, Lost):
            handler.close_connection = True
            return
        data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        handler.send_response(reply.status)
        handler.send_header("Content-Length", str(len(data)))
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data[: reply.cut])
        handler.close_connection = reply.cut is not None


def _body(handler: BaseHTTPRequestHandler) -> bytes:
    if "chunked" not in handler.headers.get("Transfer-Encoding", ""):
        return handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
    body = b""
    while size := int(handler.rfile.readline(), 16):
        body += handler.rfile.read(size)
        handler.rfile.readline()
    handler.rfile.readline()
    return body


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    scripted = ScriptedServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            scripted.answer(self)

        do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815  # as the base class has them

        def log_message(self, *_args: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    scripted.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield scripted
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as scripted:
        yield scripted


def run_of(state: str = "finished", **more: object) -> dict[str, object]:
    """A run as the API tells it."""
    outcome = {"type": "exited", "code": 0} if state == "finished" else None
    return {
        "id": "01R",
        "object": "run",
        "state": state,
        "skill": {"name": "hello", "version": "", "digest": "", "source": "server"},
        "session_id": None,
        "request": {"skill": "hello"},
        "outcome": outcome,
        "limits_hit": [],
        "result": {"stdout": "hi\n", "stderr": ""} if outcome else None,
        "created_at": "2026-11-28T09:00:00.000Z",
        "started_at": None,
        "finished_at": None,
        "attempt": 1,
        **more,
    }


def events(*given: dict[str, object], first: int = 1) -> bytes:
    """Events as a stream has them."""
    rows = [{"seq": number, "run_id": "01R", **one} for number, one in enumerate(given, first)]
    return b": hello\n\n" + b"".join(
        f"id: {row['seq']}\nevent: {row['type']}\ndata: {json.dumps(row)}\n\n".encode() for row in rows
    )

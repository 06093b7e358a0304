"""What every request goes through, in one piece: its id, its count, how long it may be, how a fault is told.

One that is plain is answered from here by its plan; the framework, with all its layers, is behind it for the others.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from sandbox_skills.daemon.api.plans import Asked, NotPlainError
from sandbox_skills.daemon.api.problems import answer_of, answer_of_fault, answer_of_framework
from sandbox_skills.daemon.api.request_ids import HEADER, chosen_id, request_id_of
from sandbox_skills.errors import SandboxSkillsError

if TYPE_CHECKING:
    from fastapi import FastAPI, Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from sandbox_skills.daemon.api.body_limits import BodyLimits
    from sandbox_skills.daemon.api.laid_out import Found, PlannedRoutes
    from sandbox_skills.daemon.working.metrics import Metrics

logger = logging.getLogger(__name__)

_STARTS = frozenset({"http.response.start", "websocket.accept", "websocket.http.response.start"})


class Front:
    """An ASGI application around the framework's, `behind`."""

    def __init__(
        self, app: FastAPI, behind: ASGIApp, routes: PlannedRoutes, limits: BodyLimits, metrics: Metrics
    ) -> None:
        self._app = app
        self._behind = behind
        self._routes = routes
        self._limits = limits
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._behind(scope, receive, send)
            return
        request_id = chosen_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        head = _Head(scope, send, request_id, self._metrics)
        try:
            await self._answer(scope, receive, head.send)
        except Exception as error:
            logger.exception("request %s failed", request_id)
            if head.is_sent or scope["type"] != "http":
                raise
            await answer_of_fault(error, request_id=request_id)(scope, receive, head.send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._behind(scope, receive, send)
            return
        headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        bounded = self._limits.bounded(scope, headers, receive)
        found = self._routes.find(scope["method"], scope["path"]) if not scope.get("root_path") else None
        if found is None:
            await self._behind(scope, bounded, send)
        else:
            await self._planned(found, headers, scope, bounded, send)

    async def _planned(
        self, found: Found, headers: dict[bytes, bytes], scope: Scope, receive: Receive, send: Send
    ) -> None:
        scope["app"], scope["route"] = self._app, found.route
        heard = _Heard(receive)
        try:
            body = None if found.plan.sent is None else await heard.whole()
            response = await found.plan.answer(Asked(scope, receive, headers, found.path, body))
        except NotPlainError:
            await self._behind(scope, heard.again, send)
            return
        except (SandboxSkillsError, HTTPException) as error:
            response = _refusal(error, scope)
        await response(scope, receive, send)


def _refusal(error: SandboxSkillsError | HTTPException, scope: Scope) -> Response:
    request_id = request_id_of(scope)
    if isinstance(error, SandboxSkillsError):
        return answer_of(error, request_id=request_id)
    return answer_of_framework(error, request_id=request_id)


class _Head:
    """The head of an answer on its way: it tells the request's id, and is counted."""

    __slots__ = ("_began", "_metrics", "_scope", "_send", "_told", "is_sent")

    def __init__(self, scope: Scope, send: Send, request_id: str, metrics: Metrics) -> None:
        self._scope = scope
        self._send = send
        self._told = (HEADER, request_id.encode())
        self._metrics = metrics
        self._began = time.perf_counter()
        self.is_sent = False

    async def send(self, message: Message) -> None:
        """Sends a message of the answer."""
        if message["type"] in _STARTS:
            self.is_sent = True
            message = {**message, "headers": [*message.get("headers", ()), self._told]}
            if self._scope["type"] == "http":
                self._count(message["status"])
        await self._send(message)

    def _count(self, status: int) -> None:
        """Counts the answer by the route's own path: what clients put into theirs would make a series each."""
        route = getattr(self._scope.get("route"), "path", "")
        seconds = time.perf_counter() - self._began
        self._metrics.answered(self._scope["method"], route, status, seconds)


class _Heard:
    """What was read of a request, to be read once more by somebody else."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._messages: list[Message] = []

    async def whole(self) -> bytes | None:
        """Returns the body; None where the client has gone before its end. Raises what receiving does."""
        more = True
        while more:
            message = await self._receive()
            self._messages.append(message)
            if message["type"] != "http.request":
                return None
            more = message.get("more_body", False)
        return b"".join([message.get("body", b"") for message in self._messages])

    async def again(self) -> Message:
        """Returns the same messages, then what comes behind them."""
        return self._messages.pop(0) if self._messages else await self._receive()

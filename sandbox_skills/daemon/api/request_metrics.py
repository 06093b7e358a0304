"""Counts every request, by the route's own path: what clients put into it would make a series each."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from sandbox_skills.daemon.working.metrics import Metrics


class CountedRequests:
    """Tells the metrics of each answer, once its head is sent."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "")
                seconds = time.perf_counter() - began
                self._metrics.answered(scope["method"], route, message["status"], seconds)
            await send(message)

        await self._app(scope, receive, counting)

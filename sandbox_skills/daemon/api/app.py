"""The application: every router, one form of error, ids and limits for every request."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.routing import Route

from sandbox_skills.daemon.api import (
    admin,
    agents,
    artifacts,
    examples,
    mcp,
    run_events,
    run_io,
    runs,
    server,
    sessions,
    skills,
    tools,
)
from sandbox_skills.daemon.api.body_limits import BodyLimits
from sandbox_skills.daemon.api.event_values import EventTold
from sandbox_skills.daemon.api.front import Front
from sandbox_skills.daemon.api.laid_out import PlannedRoutes
from sandbox_skills.daemon.api.problems import PROBLEM_RESPONSES, Problem, install_problems
from sandbox_skills.telemetry import is_recorded

if TYPE_CHECKING:
    from pydantic import BaseModel
    from starlette.types import ASGIApp, Receive, Scope, Send

    from sandbox_skills.daemon.working.daemon import Daemon

ROUTERS = (
    skills.router,
    runs.router,
    run_events.router,
    run_io.router,
    sessions.router,
    artifacts.router,
    tools.router,
    agents.router,
    admin.router,
    server.router,
)

DESCRIPTION = """Runs Agent Skills that nobody has to trust, in sandboxes without a network.

Every request but those to `/healthz` and `/readyz` needs a key. What another tenant has is not there. An error is a
problem (RFC 9457) with a stable `code`; lists come in pages, newest first.
"""


class Application(FastAPI):
    """The framework's application, behind what every request goes through."""

    front: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.front(scope, receive, send)

    async def behind(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request as the framework does."""
        await super().__call__(scope, receive, send)


def create_app(daemon: Daemon) -> Application:
    """Returns the application over a daemon that is open; it is served while that lasts."""
    app = Application(
        title="sandbox-skills",
        version=version("sandbox-skills"),
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        # A redirect would lead to whatever host the request names.
        redirect_slashes=False,
        responses=PROBLEM_RESPONSES,
    )
    app.state.daemon = daemon
    for router in ROUTERS:
        app.include_router(router)
    app.router.routes.append(Route(mcp.PATH, mcp.McpEndpoint(daemon), include_in_schema=False))
    install_problems(app)
    chosen = daemon.settings.daemon
    limits = BodyLimits(plain=chosen.body_bytes, upload=chosen.upload_bytes, file=chosen.file_bytes)
    # Whoever has set up an SDK gets the framework's spans, which are of its own way.
    planned = PlannedRoutes(() if is_recorded() else (one for router in ROUTERS for one in router.routes))
    app.front = Front(app, app.behind, planned, limits, daemon.metrics)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


def _document(app: FastAPI) -> dict[str, Any]:
    """Returns the OpenAPI document, with the models that no route returns as a value."""
    if app.openapi_schema is None:
        document = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        schemas = document["components"]["schemas"]
        for model in (Problem, EventTold):
            _add(schemas, model)
        examples.complete(schemas)
        app.openapi_schema = document
    return app.openapi_schema


def _add(schemas: dict[str, Any], model: type[BaseModel]) -> None:
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
    schemas |= schema.pop("$defs", {})
    schemas[model.__name__] = schema

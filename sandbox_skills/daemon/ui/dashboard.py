"""The application under /ui: routes, who may open them, and what a fault looks like."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route, Router

from sandbox_skills.daemon.api.problems import status_of
from sandbox_skills.daemon.ui.door import Door
from sandbox_skills.daemon.ui.headers import PAGE_HEADERS
from sandbox_skills.daemon.ui.pages.routes import ACTIONS, PAGES
from sandbox_skills.daemon.ui.rendering import STATIC_TYPES, static_file
from sandbox_skills.daemon.ui.sign_ins import SignIns
from sandbox_skills.daemon.ui.visits import base_of, demand, form_of, visit_of, way_in
from sandbox_skills.errors import SandboxSkillsError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.types import ASGIApp

    from sandbox_skills.daemon.access.scopes import Scope
    from sandbox_skills.daemon.ui.visits import Answer, Visit
    from sandbox_skills.daemon.working.daemon import Daemon


Endpoint = Callable[[Request], Awaitable[Response]]

PATH = "/ui"

STATIC_SECONDS = 31_536_000
"""Addresses of static files change with their content, so a browser may keep them for a year."""


def dashboard(daemon: Daemon) -> ASGIApp:
    """Returns the application, to be mounted beside the API over the same daemon.

    What nobody foresaw it leaves to the application above, which has one answer for that.
    """
    sign_ins = SignIns()
    door, guard = Door(daemon, sign_ins), _Guard(daemon, sign_ins)
    pages = [Route(path, guard.page(answer, scope), methods=["GET"]) for path, answer, scope in PAGES]
    actions = [Route(path, guard.action(answer, scope), methods=["POST"]) for path, answer, scope in ACTIONS]
    router = Router(
        [
            Route("/static/{name}", _static, methods=["GET"]),
            Route("/sign-in", door.ask, methods=["GET"]),
            Route("/sign-in", door.enter, methods=["POST"]),
            Route("/sign-out", door.leave, methods=["POST"]),
            *pages,
            *actions,
            Route("/{rest:path}", guard.page(_nothing_here, None), methods=["GET"]),
        ]
    )
    return ExceptionMiddleware(router, handlers={HTTPException: _refused})


def add_dashboard(app: Starlette, daemon: Daemon) -> None:
    """Mounts the dashboard at /ui of the application, and leads there whoever asks for nothing in particular."""
    app.mount(PATH, dashboard(daemon))
    for path in ("/", PATH):
        app.router.routes.append(Route(path, _to_dashboard, methods=["GET"]))


async def _to_dashboard(request: Request) -> Response:
    """Leads to the first page, on the host that was asked, whatever the request calls it."""
    return RedirectResponse(f"{base_of(request)}{PATH}/", status_code=303, headers=dict(PAGE_HEADERS))


class _Guard:
    """Lets in whoever is signed in with a key that may, and shows every fault as a page."""

    def __init__(self, daemon: Daemon, sign_ins: SignIns) -> None:
        self._daemon = daemon
        self._sign_ins = sign_ins

    def action(self, answer: Answer, scope: Scope | None) -> Endpoint:
        """Returns the endpoint of something that is done with a form of ours."""

        async def checked(visit: Visit) -> Response:
            async with form_of(visit.request, visit.csrf, max_files=1) as form:
                return await answer(replace(visit, form=form))

        return self.page(checked, scope)

    def page(self, answer: Answer, scope: Scope | None) -> Endpoint:
        """Returns the endpoint of a page; `scope` is what the key needs."""

        async def endpoint(request: Request) -> Response:
            visit = await visit_of(request, self._daemon, self._sign_ins)
            if visit is None:
                return way_in(request)
            try:
                if scope is not None:
                    demand(visit, scope)
                return await answer(visit)
            except SandboxSkillsError as error:
                return _fault(visit, status_of(error), error.message, error.hint)
            except HTTPException as error:
                return _fault(visit, error.status_code, error.detail)

        return endpoint


def _fault(visit: Visit, status: int, message: str, hint: str = "") -> Response:
    title = HTTPStatus(status).phrase
    return visit.page("fault.html", here="", title=title, status=status, message=message, hint=hint)


async def _nothing_here(visit: Visit) -> Response:
    raise HTTPException(HTTPStatus.NOT_FOUND, f"There is no page {visit.request.url.path}.")


async def _refused(request: Request, error: Exception) -> Response:  # noqa: ARG001  # what a handler is given
    """Answers somebody who is not signed in, or with a method that a page does not have."""
    status = error.status_code if isinstance(error, HTTPException) else HTTPStatus.BAD_REQUEST
    detail = error.detail if isinstance(error, HTTPException) else ""
    return PlainTextResponse(detail, status_code=status, headers=dict(PAGE_HEADERS))


async def _static(request: Request) -> Response:
    name = str(request.path_params["name"])
    if name not in STATIC_TYPES:
        raise HTTPException(HTTPStatus.NOT_FOUND, "There is no such file.")
    headers = {**PAGE_HEADERS, "Cache-Control": f"public, max-age={STATIC_SECONDS}, immutable"}
    return Response(static_file(name), media_type=STATIC_TYPES[name], headers=headers)

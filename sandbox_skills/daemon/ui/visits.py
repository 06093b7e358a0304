"""One request of a browser: who it is of, what it may do, and the page that answers it."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from sandbox_skills.daemon.access.keys import Identity
from sandbox_skills.daemon.access.limits import tenant_limits
from sandbox_skills.daemon.access.scopes import Scope
from sandbox_skills.daemon.errors import ScopeError
from sandbox_skills.daemon.truth.keys import Keys
from sandbox_skills.daemon.ui.headers import PAGE_HEADERS
from sandbox_skills.daemon.ui.rendering import Visitor, page
from sandbox_skills.daemon.ui.sign_ins import SignIns, same

if TYPE_CHECKING:
    from starlette.requests import Request

    from sandbox_skills.daemon.ui.sign_ins import SignIn
    from sandbox_skills.daemon.working.daemon import Daemon

COOKIE = "sandbox_skills_dashboard"

MAX_FIELDS = 20
MAX_FIELD_BYTES = 1024 * 1024
"""Of a form: the longest thing that anybody writes is a question to a model."""


@dataclass(frozen=True, slots=True)
class Form:
    """What a form of ours holds: its texts, and the file that was chosen, open as long as the form is."""

    fields: Mapping[str, str]
    file: UploadFile | None = None


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of somebody who is signed in. `base` is where the dashboard is mounted, `form` what was sent."""

    request: Request
    daemon: Daemon
    who: Identity
    csrf: str
    base: str
    now: float = field(default_factory=time.time)
    form: Form = field(default_factory=lambda: Form({}))

    @property
    def tenant(self) -> str:
        return self.who.tenant.id

    @property
    def is_admin(self) -> bool:
        return self.may(Scope.ADMIN)

    def admit(self) -> None:
        """Lets the tenant ask for one more run; raises DrainingError, PolicyError, RateLimitedError."""
        self.daemon.admit(self.tenant, tenant_limits(self.who.tenant.limits))

    @property
    def fields(self) -> Mapping[str, str]:
        """The texts of the form."""
        return self.form.fields

    def may(self, scope: Scope) -> bool:
        """Whether the key that signed in has this scope."""
        return scope in self.who.scopes

    def text(self, name: str) -> str:
        """Returns a parameter of the address, empty where it is not there."""
        return self.request.query_params.get(name, "")

    def part(self, name: str) -> str:
        """Returns a part of the path."""
        return str(self.request.path_params[name])

    def page(self, template: str, *, here: str, title: str, status: int = 200, **values: object) -> Response:
        """Returns a page as an answer."""
        visitor = Visitor(self.who.tenant.name, self.csrf, is_admin=self.is_admin)
        text = page(template, visitor, base=self.base, here=here, title=title, **values)
        return HTMLResponse(text, status_code=status, headers=dict(PAGE_HEADERS))

    def to(self, path: str) -> Response:
        """Returns the way to another page, which the browser asks for with GET."""
        return RedirectResponse(self.base + path, status_code=303, headers=dict(PAGE_HEADERS))


Answer = Callable[[Visit], Awaitable[Response]]
"""What answers a visit: a page, which changes nothing, or an action, whose form was found to be our own."""


def base_of(request: Request) -> str:
    """Returns where the dashboard is mounted, a prefix of a proxy included."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def way_in(request: Request) -> Response:
    """Returns the way to the sign-in page, which leads back here where that is a page to look at."""
    base = base_of(request)
    path = request.url.path.removeprefix(base) + (f"?{request.url.query}" if request.url.query else "")
    back = f"?next={quote(path, safe='/')}" if request.method == "GET" and path != "/" else ""
    return RedirectResponse(f"{base}/sign-in{back}", status_code=303, headers=dict(PAGE_HEADERS))


async def visit_of(request: Request, daemon: Daemon, sign_ins: SignIns) -> Visit | None:
    """Returns the visit of somebody who is signed in with a key that still counts, else None."""
    token = request.cookies.get(COOKIE, "")
    signed_in = sign_ins.find(token, time.monotonic()) if token else None
    who = await _identity(daemon, signed_in) if signed_in is not None else None
    if signed_in is None or who is None:
        return None
    return Visit(request, daemon, who, signed_in.csrf, base_of(request))


async def _identity(daemon: Daemon, signed_in: SignIn) -> Identity | None:
    """Returns whose key it was, as it is now: a key that was revoked since, or has expired, opens nothing."""
    kept = await Keys(daemon.database).kept(signed_in.prefix)
    if kept is None or kept.key.id != signed_in.key_id:
        return None
    if kept.tenant.disabled_at is not None or not kept.key.counts(daemon.database.clock()):
        return None
    return Identity(kept.tenant, kept.key.id, frozenset(Scope(name) for name in kept.key.scopes))


@asynccontextmanager
async def form_of(request: Request, expected: str, *, max_files: int = 0) -> AsyncGenerator[Form]:
    """Gives a form that carries the expected token; raises HTTPException."""
    if request.headers.get("sec-fetch-site", "same-origin") not in {"same-origin", "none"}:
        raise HTTPException(403, "The form came from another site.")
    reading = request.form(max_files=max_files, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES)
    async with reading as form:
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        if not same(fields.get("csrf", ""), expected):
            raise HTTPException(403, "The form is too old, or came from elsewhere. Load the page again.")
        files = [value for value in form.values() if isinstance(value, UploadFile) and value.filename]
        yield Form(fields, files[0] if files else None)


def demand(visit: Visit, scope: Scope) -> None:
    """Raises ScopeError where the key that signed in may not do this."""
    if not visit.may(scope):
        raise ScopeError(f"this key lacks the scope {scope}", hint="sign in with one that has it")

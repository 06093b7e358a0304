"""Signing in with a key and out again. Nobody is signed in yet, so the form's token fits a cookie of its own."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse, RedirectResponse, Response

from sandbox_skills.daemon.access.scopes import Scope
from sandbox_skills.daemon.access.tokens import prefix_of
from sandbox_skills.daemon.errors import KeyInvalidError
from sandbox_skills.daemon.ui.headers import PAGE_HEADERS
from sandbox_skills.daemon.ui.redirects import inside
from sandbox_skills.daemon.ui.rendering import sign_in_page
from sandbox_skills.daemon.ui.sign_ins import LIFETIME_SECONDS, TOKEN_BYTES
from sandbox_skills.daemon.ui.visits import COOKIE, base_of, form_of, visit_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from sandbox_skills.daemon.ui.sign_ins import SignIns
    from sandbox_skills.daemon.working.daemon import Daemon

NONCE_COOKIE = "sandbox_skills_door"

WRONG_KEY = "This key does not count. It may be mistyped, revoked or expired."
WRONG_SCOPE = "This key may not run anything, so there is nothing to show."

DASHBOARD_SCOPES = frozenset({Scope.RUN, Scope.ADMIN})


class Door:
    """The pages that are open to everybody."""

    def __init__(self, daemon: Daemon, sign_ins: SignIns) -> None:
        self._daemon = daemon
        self._sign_ins = sign_ins

    async def ask(self, request: Request) -> Response:
        """Answers with the form; whoever is signed in already is led on."""
        target = inside(request.query_params.get("next", "/"))
        if await visit_of(request, self._daemon, self._sign_ins) is not None:
            return _to(request, target)
        return self._form(request, target)

    async def enter(self, request: Request) -> Response:
        """Signs in with the key of the form, with a new token whatever the browser had."""
        nonce = request.cookies.get(NONCE_COOKIE, "")
        async with form_of(request, self._sign_ins.form_token(nonce)) as form:
            target, key = inside(form.fields.get("next", "/")), form.fields.get("key", "").strip()
        try:
            who = await self._daemon.keys.identify(key)
        except KeyInvalidError:
            return self._form(request, target, WRONG_KEY)
        if not who.scopes & DASHBOARD_SCOPES:
            return self._form(request, target, WRONG_SCOPE)
        self._sign_ins.remove(request.cookies.get(COOKIE, ""))
        token = self._sign_ins.add(key_id=who.key_id, prefix=prefix_of(key) or "", now=time.monotonic())
        answer = _to(request, target)
        _set_cookie(answer, request, COOKIE, token)
        answer.delete_cookie(NONCE_COOKIE, path=base_of(request) or "/")
        return answer

    async def leave(self, request: Request) -> Response:
        """Signs out."""
        token = request.cookies.get(COOKIE, "")
        signed_in = self._sign_ins.find(token, time.monotonic())
        if signed_in is not None:
            async with form_of(request, signed_in.csrf):
                self._sign_ins.remove(token)
        answer = _to(request, "/sign-in")
        answer.delete_cookie(COOKIE, path=base_of(request) or "/")
        return answer

    def _form(self, request: Request, target: str, fault: str = "") -> Response:
        nonce = secrets.token_urlsafe(TOKEN_BYTES)
        text = sign_in_page(
            base=base_of(request), form_token=self._sign_ins.form_token(nonce), target=target, fault=fault
        )
        answer = HTMLResponse(text, status_code=401 if fault else 200, headers=dict(PAGE_HEADERS))
        _set_cookie(answer, request, NONCE_COOKIE, nonce)
        return answer


def _to(request: Request, path: str) -> Response:
    return RedirectResponse(base_of(request) + path, status_code=303, headers=dict(PAGE_HEADERS))


def _set_cookie(answer: Response, request: Request, name: str, value: str) -> None:
    answer.set_cookie(
        name,
        value,
        max_age=int(LIFETIME_SECONDS),
        path=base_of(request) or "/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )

"""Templates: every value is escaped, and a name that is not there is a fault, never a blank."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Mapping

PACKAGE = "sandbox_skills.daemon.ui"

STATIC_TYPES = {"dashboard.css": "text/css", "dashboard.js": "text/javascript", "icon.svg": "image/svg+xml"}
"""The files that are sent as they are, and nothing else is."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A page in the menu; `path` is from the dashboard's root."""

    path: str
    words: str


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who looks at a page. `csrf` is what every form of theirs carries."""

    tenant: str
    csrf: str
    is_admin: bool = False


MENU = (
    Entry("/", "Overview"),
    Entry("/runs", "Runs"),
    Entry("/skills", "Skills"),
    Entry("/sessions", "Sessions"),
    Entry("/artifacts", "Artifacts"),
    Entry("/playground", "Playground"),
)
ADMIN_MENU = (Entry("/tenants", "Tenants"), Entry("/audit", "Audit"))


def menu_of(visitor: Visitor) -> tuple[Entry, ...]:
    """Returns the pages that a visitor may open."""
    return MENU + (ADMIN_MENU if visitor.is_admin else ())


def page(template: str, visitor: Visitor, *, base: str, here: str, title: str, **values: object) -> str:
    """Returns a page. `here` is the menu's entry that it belongs to."""
    csrf = Markup('<input type="hidden" name="csrf" value="{}">').format(visitor.csrf)
    return _render(
        template,
        {
            **values,
            "base": base,
            "here": here,
            "title": title,
            "visitor": visitor,
            "menu": menu_of(visitor),
            "csrf_field": lambda: csrf,
        },
    )


def sign_in_page(*, base: str, form_token: str, target: str, fault: str = "") -> str:
    """Returns the page that asks for a key, with what was wrong with the last one."""
    return _render("sign_in.html", {"base": base, "form_token": form_token, "next": target, "fault": fault})


@cache
def static_file(name: str) -> bytes:
    """Returns a file of STATIC_TYPES."""
    return (files(PACKAGE) / "static" / name).read_bytes()


@cache
def _version() -> str:
    """Returns what changes with the static files, so that no browser keeps old ones."""
    return hashlib.sha256(b"".join(map(static_file, STATIC_TYPES))).hexdigest()[:12]


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader(PACKAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _render(template: str, values: Mapping[str, object]) -> str:
    return _environment().get_template(template).render(values, version=_version())

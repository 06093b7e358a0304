"""The headers of every answer of the dashboard, and of files that strangers made. Pure.

Source of the directives: Content Security Policy Level 3.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import quote

from sandbox_skills.daemon.ui.views.preview import INLINE_TYPES

if TYPE_CHECKING:
    from collections.abc import Mapping

_PAGE_POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "frame-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types dashboard",
)

_FILE_POLICY = (
    "sandbox",
    "default-src 'none'",
    "style-src 'unsafe-inline'",
    "img-src data:",
    "font-src data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'self'",
)
"""A drawing needs its styles and the pictures inside it. It may neither run, nor send, nor load."""

_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}

PAGE_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        **_ALWAYS,
        "Content-Security-Policy": "; ".join(_PAGE_POLICY),
        "X-Frame-Options": "DENY",
        "Cache-Control": "no-store",
    }
)
"""Of pages: what one of them shows belongs to a tenant, and stays in no cache."""


def file_headers(name: str, mime_type: str, *, download: bool) -> dict[str, str]:
    """Returns what a stranger's file is sent with: never a type that runs outside of its sandbox."""
    inline = not download and mime_type in INLINE_TYPES
    return {
        **_ALWAYS,
        "Content-Security-Policy": "; ".join(_FILE_POLICY),
        "X-Frame-Options": "SAMEORIGIN",
        "Cache-Control": "private, no-store",
        "Content-Type": mime_type if inline else "application/octet-stream",
        "Content-Disposition": disposition(name, inline=inline),
    }


def disposition(name: str, *, inline: bool) -> str:
    """Returns a Content-Disposition that no name can break out of (RFC 6266, RFC 8187)."""
    last = name.rpartition("/")[2] or "file"
    plain = "".join(sign if sign.isascii() and (sign.isalnum() or sign in "-_. ") else "_" for sign in last)
    kind = "inline" if inline else "attachment"
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{quote(last.encode(errors='replace'), safe='')}"

"""Which addresses a key may be sent to, and what keeps it from going anywhere else. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from sandbox_skills.errors import SettingsError

if TYPE_CHECKING:
    from sandbox_skills.errors import SandboxSkillsError

    E = TypeVar("E", bound=SandboxSkillsError)

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""Hosts whose connections never leave this machine."""

_PORTS = {"http": 80, "https": 443}


def check_address(url: str, *, key: str, setting: str, whose: str) -> None:
    """Raises SettingsError for what is no http(s) address, or one that a key may not be sent to.

    `setting` is where the address is written, `whose` says what the key is of, for the message.
    """
    try:
        scheme, host, _ = _origin(url)
    except ValueError:
        scheme, host = "", ""
    if scheme not in _PORTS or not host:
        raise SettingsError(f"{setting} is no http(s) address: {url}")
    if scheme == "http" and key and host not in LOOPBACK:
        section = setting.partition(".")[0]
        raise SettingsError(
            f"the key of the {whose} would be sent over a connection that is not encrypted",
            hint=f"use https in {setting}, or no {section}.api_key",
        )


def same_origin(one: str, other: str) -> bool:
    """Tells whether two addresses name one scheme, host and port: a key that was given for the one fits the other."""
    try:
        return _origin(one) == _origin(other)
    except ValueError:
        return False


def _origin(url: str) -> tuple[str, str, int | None]:
    address = urlsplit(url)
    return address.scheme, address.hostname or "", address.port or _PORTS.get(address.scheme)


def without_key(text: str, key: str) -> str:
    """Returns a server's words without the key in them, should it say that back."""
    return text.replace(key, "[redacted]") if key else text

"""API keys as text: `ssk_`, eight bytes that name the key, 32 that prove it. Pure but for randomness.

A key has 256 random bits, so one SHA-256 is as good as a slow hash: there is nothing to guess from.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field

_FORM = re.compile(r"(ssk_[0-9a-f]{16})_[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class NewToken:
    """A key that was just made; `text` is shown once and kept nowhere."""

    text: str = field(repr=False)
    prefix: str
    hash: str


def new_token() -> NewToken:
    """Returns a new random key."""
    prefix = f"ssk_{secrets.token_hex(8)}"
    text = f"{prefix}_{secrets.token_hex(32)}"
    return NewToken(text, prefix, token_hash(text))


def prefix_of(text: str) -> str | None:
    """Returns what names a key, None for a text that is none."""
    found = _FORM.fullmatch(text)
    return found[1] if found else None


def token_hash(text: str) -> str:
    """Returns what is kept of a key."""
    return hashlib.sha256(text.encode()).hexdigest()


def matches(text: str, kept: str) -> bool:
    """Tells whether a text is the key of which `kept` is the hash, in the same time for each wrong one."""
    return hmac.compare_digest(token_hash(text), kept)

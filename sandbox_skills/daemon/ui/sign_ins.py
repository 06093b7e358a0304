"""Who is signed in: opaque tokens in cookies, and here what they stand for. In memory, so a restart signs all out."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, replace

TOKEN_BYTES = 32

LIFETIME_SECONDS = 12 * 3600.0
"""A working day: after it the key is asked for again."""

IDLE_SECONDS = 2 * 3600.0

MAX_SIGN_INS = 1000
"""Beyond it the one that was idle longest is signed out: memory stays bounded whatever knocks."""


@dataclass(frozen=True, slots=True)
class SignIn:
    """One browser that has signed in with a key, which `prefix` finds again. Times are seconds of a steady clock."""

    key_id: str
    prefix: str
    csrf: str
    since: float
    seen: float


class SignIns:
    """The browsers that are signed in. Tokens are kept as digests: what memory shows opens nothing."""

    def __init__(self) -> None:
        self._by_digest: dict[bytes, SignIn] = {}
        self._secret = secrets.token_bytes(TOKEN_BYTES)

    def add(self, *, key_id: str, prefix: str, now: float) -> str:
        """Returns a new token for a browser whose key was just checked."""
        token = secrets.token_urlsafe(TOKEN_BYTES)
        csrf = secrets.token_urlsafe(TOKEN_BYTES)
        while len(self._by_digest) >= MAX_SIGN_INS:
            del self._by_digest[min(self._by_digest, key=lambda one: self._by_digest[one].seen)]
        self._by_digest[_digest(token)] = SignIn(key_id, prefix, csrf, now, now)
        return token

    def find(self, token: str, now: float) -> SignIn | None:
        """Returns who the token stands for, None where it is unknown or its time is over."""
        digest = _digest(token)
        found = self._by_digest.get(digest)
        if found is None:
            return None
        if now - found.since > LIFETIME_SECONDS or now - found.seen > IDLE_SECONDS:
            del self._by_digest[digest]
            return None
        self._by_digest[digest] = seen = replace(found, seen=now)
        return seen

    def remove(self, token: str) -> None:
        """Forgets the token; an unknown one is no fault."""
        self._by_digest.pop(_digest(token), None)

    def form_token(self, nonce: str) -> str:
        """Returns what the sign-in form carries beside a cookie with `nonce`: nobody is signed in yet."""
        return hmac.new(self._secret, nonce.encode(), hashlib.sha256).hexdigest()


def same(left: str, right: str) -> bool:
    """Compares two tokens in a time that tells nothing of them."""
    return hmac.compare_digest(left.encode(), right.encode())


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()

"""How often a request is made again, and after which waits. Only values: settings are made of them."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

FACTOR = 1.5
"""Of OpenRouter's own SDKs, as are the first wait and the longest."""

JITTER = 0.25
"""Part of a wait by which it may be longer, so that clients that failed together do not come back together."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The budget of one request, in attempts and in seconds from its beginning, and its waits in seconds.

    A wait that a server asks for is kept, however long, or the request is given up where it would end too late.
    """

    attempts: int = 4
    seconds: float = 120.0
    first_wait: float = 0.5
    longest_wait: float = 60.0

    def wait(self, attempt: int, asked: float | None = None) -> float:
        """Returns the seconds before what comes after attempt number `attempt`; `asked` is the server's own wish."""
        own = min(self.longest_wait, self.first_wait * FACTOR ** (attempt - 1))
        jitter = own * JITTER * secrets.randbelow(1000) / 1000
        return (own if asked is None else asked) + jitter

"""How a daemon is reached, and how often it is asked again. Only values: settings are made of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from sandbox_skills.outgoing.retry_policy import RetryPolicy

DEFAULT_URL = "http://127.0.0.1:8765"
"""Where `sandbox-skills serve` listens unless it is told otherwise."""

RETRY = RetryPolicy(attempts=10, seconds=60.0, first_wait=0.2, longest_wait=5.0)
"""Long enough for a daemon that is started again: it looks after what it left first."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a daemon is reached. Times in seconds: to connect, and between two pieces of an answer.

    `proxy` is an address; the environment's does not count.
    """

    url: str = DEFAULT_URL
    api_key: str = field(default="", repr=False)
    connect_seconds: float = 10.0
    idle_seconds: float = 90.0
    retry: RetryPolicy = RETRY
    proxy: str | None = None

"""When a request to a model is made again: errors that say so, within a budget of attempts and of time."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, stop_before_delay

from sandbox_skills.errors import ModelError

if TYPE_CHECKING:
    from tenacity import RetryCallState

FACTOR = 1.5
"""Of OpenRouter's own SDKs, as are the first wait and the longest."""

JITTER = 0.25
"""Part of a wait by which it may be longer, so that clients that failed together do not come back together."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The budget of one request, in attempts and in seconds from its beginning, and its waits in seconds.

    A wait that a provider asks for is kept, however long, or the request is given up where it would end too late.
    """

    attempts: int = 4
    seconds: float = 120.0
    first_wait: float = 0.5
    longest_wait: float = 60.0

    def retrying(self) -> AsyncRetrying:
        """Returns what makes attempts until one succeeds; the last error is raised as it is."""
        return AsyncRetrying(
            sleep=anyio.sleep,
            stop=stop_after_attempt(self.attempts) | stop_before_delay(self.seconds),
            wait=self._wait,
            retry=retry_if_exception(_is_retryable),
            reraise=True,
        )

    def _wait(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        own = min(self.longest_wait, self.first_wait * FACTOR ** (state.attempt_number - 1))
        asked = error.retry_after if isinstance(error, ModelError) else None
        jitter = secrets.randbelow(1000) / 1000 * JITTER
        return own * (1 + jitter) if asked is None else max(asked + own * jitter, 0.0)


def _is_retryable(error: BaseException) -> bool:
    return isinstance(error, ModelError) and error.retryable

"""When a request to a model is made again: errors that say so, within a budget of attempts and of time."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import anyio
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, stop_before_delay

from sandbox_skills.errors import ModelError

if TYPE_CHECKING:
    from tenacity import RetryCallState

    from sandbox_skills.controller.client_options import RetryPolicy

FACTOR = 1.5
"""Of OpenRouter's own SDKs, as are the first wait and the longest."""

JITTER = 0.25
"""Part of a wait by which it may be longer, so that clients that failed together do not come back together."""


def retrying(policy: RetryPolicy) -> AsyncRetrying:
    """Returns what makes attempts until one succeeds; the last error is raised as it is."""

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        own = min(policy.longest_wait, policy.first_wait * FACTOR ** (state.attempt_number - 1))
        asked = error.retry_after if isinstance(error, ModelError) else None
        jitter = own * JITTER * secrets.randbelow(1000) / 1000
        return (own if asked is None else asked) + jitter

    return AsyncRetrying(
        sleep=anyio.sleep,
        stop=stop_after_attempt(policy.attempts) | stop_before_delay(policy.seconds),
        wait=wait,
        retry=retry_if_exception(_is_retryable),
        reraise=True,
    )


def _is_retryable(error: BaseException) -> bool:
    return isinstance(error, ModelError) and error.retryable

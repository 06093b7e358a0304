"""When a request is made again: errors that may pass, within a budget of attempts and of time."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import anyio
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, stop_before_delay

if TYPE_CHECKING:
    from collections.abc import Callable

    from tenacity import RetryCallState

    from sandbox_skills.outgoing.retry_policy import RetryPolicy


def retrying(
    policy: RetryPolicy,
    *,
    retryable: Callable[[BaseException], bool],
    asked: Callable[[BaseException | None], float | None],
) -> AsyncRetrying:
    """Returns what makes attempts until one succeeds; the last error is raised as it is.

    `retryable` says which errors may pass, `asked` how many seconds a server wants one to wait after one.
    """

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        return policy.wait(state.attempt_number, asked(error))

    return AsyncRetrying(
        sleep=anyio.sleep,
        stop=stop_after_attempt(policy.attempts) | stop_before_delay(policy.seconds),
        wait=wait,
        retry=retry_if_exception(retryable),
        reraise=True,
    )


def retry_after_seconds(text: str) -> float | None:
    """Reads a Retry-After, which is seconds or a date (RFC 9110, 10.2.3); None for neither."""
    try:
        seconds = float(text)
    except ValueError:
        return _until(text)
    return max(0.0, seconds) if abs(seconds) < float("inf") else None  # false for NaN, too


def _until(date: str) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None

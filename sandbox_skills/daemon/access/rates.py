"""How often a tenant may ask: a bucket that fills evenly, and each request takes one from it. Pure.

Times are seconds of one clock that never goes back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sandbox_skills.daemon.errors import RateLimitedError

MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Bucket:
    """`level` requests were left at `at`; it fills to `capacity` in `seconds`."""

    capacity: int
    seconds: float
    level: float
    at: float


@dataclass(frozen=True, slots=True)
class Allowance:
    """What the RateLimit headers tell: of `limit` requests `remaining` are left, and all again in `reset` seconds.

    `retry_after` is 0 where the request is allowed, else the seconds until the next one is.
    """

    limit: int
    remaining: int
    reset: float
    retry_after: float = 0.0

    @property
    def is_allowed(self) -> bool:
        """Whether the request may go on."""
        return self.retry_after == 0.0


def full_bucket(capacity: int, *, seconds: float, now: float) -> Bucket:
    """Returns a bucket of which nothing was taken."""
    return Bucket(capacity, seconds, float(capacity), now)


def take(bucket: Bucket, *, now: float) -> tuple[Bucket, Allowance]:
    """Returns the bucket after one more request, and what to tell of it; a refused request takes nothing."""
    level = _level(bucket, now)
    allowed = level >= 1.0
    left = level - 1.0 if allowed else level
    after = Bucket(bucket.capacity, bucket.seconds, left, max(now, bucket.at))
    each = bucket.seconds / bucket.capacity
    reset = (bucket.capacity - left) * each
    return after, Allowance(
        limit=bucket.capacity,
        remaining=math.floor(left),
        reset=reset,
        retry_after=0.0 if allowed else max((1.0 - level) * each, _SHORTEST),
    )


_SHORTEST = 1e-9
"""Nobody is told to wait for no time at all."""


def _level(bucket: Bucket, now: float) -> float:
    passed = max(0.0, now - bucket.at)
    # Rounding may leave the last hundredth of a millionth of a request missing.
    return min(float(bucket.capacity), bucket.level + passed * bucket.capacity / bucket.seconds + 1e-9)


class RateLimiter:
    """The buckets of all tenants, in memory: a restart fills them, which costs a minute's worth at most."""

    def __init__(self) -> None:
        self._buckets: dict[str, Bucket] = {}

    def check(self, tenant_id: str, *, per_minute: int, now: float) -> Allowance:
        """Takes one request of the tenant's; raises RateLimitedError with the values of the headers."""
        bucket = self._buckets.get(tenant_id)
        if bucket is None or bucket.capacity != per_minute:
            bucket = full_bucket(per_minute, seconds=MINUTE, now=now)
        self._buckets[tenant_id], allowance = take(bucket, now=now)
        if not allowance.is_allowed:
            raise RateLimitedError(
                f"more than {per_minute} runs a minute",
                hint=f"try again in {math.ceil(allowance.retry_after)} s, or ask an admin for more runs_per_minute",
                name="runs_per_minute",
                limit=allowance.limit,
                remaining=allowance.remaining,
                reset=allowance.reset,
                retry_after=allowance.retry_after,
            )
        return allowance

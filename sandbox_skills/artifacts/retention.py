"""Which versions a retention policy takes, and whether a quota has room. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.errors import QuotaError

if TYPE_CHECKING:
    from collections.abc import Collection

    from sandbox_skills.artifacts.choices import ArtifactQuota, RetentionPolicy
    from sandbox_skills.artifacts.store import Artifact, Usage


QUOTA_HINT = "remove artifacts, or raise artifacts.max_count and artifacts.max_bytes"


def victims(artifacts: Collection[Artifact], policy: RetentionPolicy, *, now: float) -> list[Artifact]:
    """Returns the versions to remove, oldest first; `now` in seconds since the epoch."""
    latest = {one.name: one.version for one in sorted(artifacts, key=lambda one: one.version)}
    count, size = len(artifacts), sum(one.size for one in artifacts)
    taken: list[Artifact] = []
    for one in sorted(artifacts, key=lambda one: (one.created, one.name, one.version)):
        too_old = policy.max_age is not None and now - one.created > policy.max_age
        too_much = _over(count, policy.max_count) or _over(size, policy.max_bytes)
        if too_old or (too_much and one.version != latest[one.name]):
            taken.append(one)
            count, size = count - 1, size - one.size
    return taken


def _over(value: int, limit: int | None) -> bool:
    return limit is not None and value > limit


def check_quota(usage: Usage, quota: ArtifactQuota, *, size: int) -> None:
    """Raises QuotaError where one more artifact of `size` bytes would be too much."""
    if usage.count >= quota.count:
        raise QuotaError(f"the {quota.count} artifacts allowed are there already", hint=QUOTA_HINT)
    if usage.bytes + size > quota.bytes:
        left = max(0, quota.bytes - usage.bytes)
        raise QuotaError(
            f"{size} bytes do not fit: {left} of the {quota.bytes} allowed for artifacts are left",
            hint=QUOTA_HINT,
        )

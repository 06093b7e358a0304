"""What an operator chooses of artifacts. Values only: reading settings imports nothing that works on them."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox_skills.spec import MIB

DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class ArtifactQuota:
    """The most that one tenant may keep: versions, and bytes counted once for each version.

    Equal contents count each time: what fits does not depend on what others hold, and removing a version frees
    exactly its size.
    """

    count: int = 10_000  # a hundred full collections
    bytes: int = 2048 * MIB  # thirty-two full collections


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """What `retain` leaves. None is no limit; `max_age` in seconds.

    Versions older than `max_age` go, the latest of a name too. For `max_count` and `max_bytes` the oldest go first,
    but never the latest of a name: where only those are left, they stay.
    """

    max_age: float | None = None
    max_count: int | None = None
    max_bytes: int | None = None

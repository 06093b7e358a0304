"""What is taken of a source, at most. Why each number is that number stands beside it."""

from __future__ import annotations

from dataclasses import dataclass, field

from sandbox_skills.spec import MIB
from sandbox_skills.workspace.skill_tree import StageLimits


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Ceilings of one fetch. Sizes are bytes, times seconds."""

    download_bytes: int = 64 * MIB
    """Four times the largest public skill before it is packed."""

    repository_bytes: int = 256 * MIB
    """One commit of a repository holds many skills, and what else its owner keeps there."""

    seconds: float = 120.0
    """The largest download in that time needs 0.5 MiB a second."""

    redirects: int = 5
    """Release pages need two."""

    ratio: int = 200
    """Unpacked over packed: text reaches 10, an empty bitmap 1,000. Only counts above `ratio_free_bytes`."""

    ratio_free_bytes: int = 16 * MIB
    """Whatever its ratio, what fills no more than this harms nobody."""

    unpacked: StageLimits = field(default_factory=StageLimits)
    """What can be staged; one archive may hold no more than one skill may."""

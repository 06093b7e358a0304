"""What an operator chooses of workspaces. Values only: reading settings imports nothing that works on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sandbox_skills.spec import KIB, MIB

MAX_INPUT_FILES = 10_000
"""Files of all inputs together: below the inodes of a default workspace."""


@dataclass(frozen=True, slots=True)
class InputLimits:
    """Ceilings of what a run is given: files in all, bytes of one input, bytes in all."""

    files: int = MAX_INPUT_FILES
    input_bytes: int = 256 * MIB  # one input may fill the workspace, no more
    total_bytes: int = 256 * MIB


@dataclass(frozen=True, slots=True)
class SnapshotLimits:
    """Ceilings of a snapshot, taken or restored: as much as a usual workspace holds. Folders and links are files."""

    files: int = 16 * KIB
    bytes: int = 256 * MIB


@dataclass(frozen=True, slots=True)
class SessionPolicy:
    """How long sessions last, in seconds, and what one takes at a time.

    `serialise` lets a second run wait for its turn, `refuse` answers SessionBusyError. `parallel` runs as many at once
    as `concurrent_runs`, which the engine must allow, and lets others wait. Nothing waits for the end of an interactive
    program.
    """

    idle_seconds: float = 900.0  # a conversation that pauses longer has usually ended
    max_age_seconds: float = 3600.0  # a working hour; what is to last longer goes on from a snapshot
    concurrency: Literal["serialise", "refuse", "parallel"] = "serialise"
    concurrent_runs: int = 1  # programs at once share the limits of their box
    max_per_tenant: int = 16  # each holds a box: 8 GiB of memory at the usual limit
    snapshot: SnapshotLimits = field(default_factory=SnapshotLimits)
    kept_bytes: int = (
        1024 * MIB
    )  # what a tenant's expired sessions leave on the host's disk: four full workspaces

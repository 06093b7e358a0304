"""How much a box, a run and a collection may use, and what an engine enforces. Sizes are bytes, times are seconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

KIB = 1024
MIB = 1024 * KIB


class Guarantee(StrEnum):
    """What an engine enforces. A spec demands; an engine that cannot enforce refuses."""

    NO_NETWORK = "no_network"
    READONLY_ROOT = "readonly_root"
    READONLY_SKILLS = "readonly_skills"
    NO_CAPABILITIES = "no_capabilities"
    NO_NEW_PRIVILEGES = "no_new_privileges"
    OWN_UID = "own_uid"
    PROTECTED_RUNNER = "protected_runner"
    SECCOMP = "seccomp"
    APPARMOR = "apparmor"
    MEMORY = "memory"
    CPU = "cpu"
    PIDS = "pids"
    DISK = "disk"
    INODES = "inodes"
    OPEN_FILES = "open_files"
    FILE_SIZE = "file_size"
    KERNEL_BOUNDARY = "kernel_boundary"


BASE_GUARANTEES = frozenset(Guarantee) - {Guarantee.APPARMOR, Guarantee.KERNEL_BOUNDARY}
"""What a sandbox means here. AppArmor depends on the host, a kernel boundary on the runtime."""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Ceilings of one box for its whole life; an engine sets them before the box starts."""

    memory: int = 512 * MIB
    cpus: float = 1.0
    pids: int = 128
    workspace_bytes: int = 256 * MIB
    workspace_inodes: int = 16 * KIB
    tmp_bytes: int = 64 * MIB
    shm_bytes: int = 16 * MIB
    open_files: int = 1024
    file_bytes: int = 256 * MIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Ceilings of one run. `cpu_seconds` None means that only the wall clock counts."""

    wall_seconds: float = 300.0
    cpu_seconds: float | None = None
    stdout_bytes: int = MIB
    stderr_bytes: int = MIB
    output_bytes: int = 64 * MIB


@dataclass(frozen=True, slots=True)
class CollectLimits:
    """Ceilings of one collection.

    A file over `file_bytes` is cut there and said to be truncated; one that what is left of `total_bytes` does not
    hold is left out.
    """

    files: int = 100
    file_bytes: int = 4 * MIB
    total_bytes: int = 64 * MIB

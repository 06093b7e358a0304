"""What every box has, whichever engine makes it: its first process, its writable places, and limits that it can have.

Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.errors import SettingsError
from sandbox_skills.spec import KIB, MIB, WORKSPACE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.spec import SandboxLimits, SandboxSpec

RUNNER_ARGV = ("/usr/bin/python3", "-I", "-S", "-B", "/opt/sandbox-skills/runner.pyc")
"""Pid 1 of every box. No shell, init or entry point of the image stands before the runner."""

ENVIRONMENT = {
    "HOME": str(WORKSPACE / "home"),
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
}
"""The runner's own environment; a command gets exactly what its RUN message says."""

MEMORY_RESERVE = 32 * MIB
"""Memory that no tmpfs may take, for the runner and the kernel's records: a full tmpfs must not kill the runner."""

TMP, SHM = "/tmp", "/dev/shm"  # noqa: S108  # directories of the box, each of its own tmpfs

INODE_BYTES = 3 * KIB // 2
"""What one file costs of the box's memory beside its bytes: 1.4 KiB where its name is as long as may be (measured)."""

TMP_INODES = 8 * KIB
"""Unpacking or building something takes some thousands."""

CORE_LIMIT = 1
"""Bytes of a core, so few that no file is written. At 1 the kernel also starts no program that core_pattern pipes cores
to, which would run outside as root, and which it does start at 0 (core(5))."""

SHM_INODES = KIB
"""One for each semaphore or shared array of a process pool."""

IPC_SYSCTLS = {
    "kernel.shm_rmid_forced": "1",  # a segment goes with its last user
    "kernel.msgmni": "8",  # queues; one of empty messages takes 1 MiB
    "kernel.sem": "250 1000 100 64",  # in a set, in all, in an operation, sets; 64 bytes for each semaphore
}
"""System V objects outlive the program that made them and count against the box's memory: with the kernel's own
limits one run could leave so many that the next one dies of it (seen)."""

LEAST: Mapping[str, float] = {
    "memory": 64 * MIB,  # the reserve and room for an interpreter
    "cpus": 0.01,  # what Docker takes
    "pids": 8,  # the runner, a shell and a small pipeline
    "workspace_bytes": MIB,  # the runner's own directories and a file
    "workspace_inodes": 64,  # likewise
    "tmp_bytes": 64 * KIB,  # a tmpfs of 0 bytes would be unlimited
    "shm_bytes": 64 * KIB,  # likewise
    "open_files": 32,  # the runner's own descriptors and an interpreter's
    "file_bytes": KIB,  # a file at all
}
"""Below these a box would not come up, or would do so without the limit."""

MOST = 2**53
"""Above this a JSON number is no longer exact; it also refuses NaN and infinity."""

ARCHITECTURES = frozenset({"x86_64", "amd64", "aarch64", "arm64"})
"""What the seccomp profile covers; elsewhere a clone flag is another argument and names are missing."""


def check_spec(spec: SandboxSpec, uid: int) -> None:
    """Raises SettingsError for a uid, limits or a time to live that no box can have."""
    _check_limits(spec.limits)
    if uid <= 0:
        raise SettingsError(f"a sandbox cannot have uid {uid}")
    if not 0 < spec.ttl_seconds <= MOST:
        raise SettingsError(f"a sandbox cannot live for {spec.ttl_seconds} seconds")


def _check_limits(limits: SandboxLimits) -> None:
    for name, least in LEAST.items():
        value = getattr(limits, name)
        if not least <= value <= MOST:
            raise SettingsError(f"sandbox.{name} is {value!r}, and a sandbox needs {least} or more")
    inodes = limits.workspace_inodes + TMP_INODES + SHM_INODES
    writable = limits.workspace_bytes + limits.tmp_bytes + limits.shm_bytes + inodes * INODE_BYTES
    if writable > limits.memory - MEMORY_RESERVE:
        raise SettingsError(
            f"workspace, /tmp and /dev/shm of {writable} bytes with their inodes together must stay "
            f"{MEMORY_RESERVE} below the memory limit of {limits.memory}, as they live in it",
            hint=f"set sandbox.memory to {writable + MEMORY_RESERVE} or more, or sandbox.workspace_bytes to less",
        )

"""What bubblewrap is told: from the parts of a box to its argument list. Pure.

The list says everything that decides isolation but what bubblewrap cannot do, which the launcher does before it
(`launcher/`): the box's own uid, its cgroups and limits, and its file systems with a size and a number of inodes. It
mounts all of them in their places, and bubblewrap the whole: one by one it would look through the mount table each time
(2 of 7 ms, measured).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.engines.box import RUNNER_ARGV, SHM
from sandbox_skills.engines.bubblewrap.launcher.rights import FILTER

if TYPE_CHECKING:
    from collections.abc import Collection

STAGE = "/tmp"  # noqa: S108  # covered in the box's own namespace: a directory that every host has
"""Below this the launcher lays out the parts of a box. The host's own `/tmp` is not touched."""

TREE, ROOT, STORE, SHARED, QUEUES = (
    f"{STAGE}/{name}" for name in ("tree", "root", "skills", "shm", "mqueue")
)
"""The parts: the root file system as it lies on the host's disk and as this box alone has it, with all else in its
place; the skills; and what bubblewrap puts into a /dev that it makes itself."""

MASKED_DIRECTORIES = ("/proc/acpi", "/proc/scsi")
MASKED_FILES = (
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/sys/kernel/ns_last_pid",
    "/proc/timer_list",
    "/proc/timer_stats",
)
"""What Docker hides of /proc, as it tells of the host, and the one setting that everyone may open for writing."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What differs between boxes and hosts.

    `masked` are the paths of MASKED_DIRECTORIES and MASKED_FILES that this kernel has; `own_devices` is whether the
    launcher makes the box's devices, `lock_namespaces` whether bubblewrap knows how to forbid user namespaces in the
    box, which the filter does anyway.
    """

    uid: int
    masked: Collection[str] = frozenset()
    own_devices: bool = True
    lock_namespaces: bool = True


def bwrap_arguments(parts: Parts) -> tuple[str, ...]:
    """Returns the argument list that makes the box, the program's own name first."""
    return (
        "bwrap",
        *_namespaces(parts),
        *("--as-pid-1", "--die-with-parent", "--new-session"),
        *("--cap-drop", "ALL", "--seccomp", str(FILTER)),
        *("--dev-bind", ROOT, "/"),  # with what is mounted below, each as read-only as the launcher made it
        *_proc(parts.masked),
        *(() if parts.own_devices else _dev()),
        *("--chdir", "/", "--"),
        *RUNNER_ARGV,
    )


def _namespaces(parts: Parts) -> tuple[str, ...]:
    # No --unshare-ipc: the launcher has made that namespace, to set its limits.
    own = ("--unshare-user", "--uid", str(parts.uid), "--gid", str(parts.uid))
    others = ("--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup", "--hostname", "sandbox")
    return (*own, *(("--disable-userns",) if parts.lock_namespaces else ()), *others)


def _proc(masked: Collection[str]) -> tuple[str, ...]:
    words = ["--proc", "/proc"]
    for path in (path for path in MASKED_DIRECTORIES if path in masked):
        words += ["--tmpfs", path, "--remount-ro", path]
    for path in (path for path in MASKED_FILES if path in masked):
        words += ["--ro-bind", "/dev/null", path]
    return tuple(words)


def _dev() -> tuple[str, ...]:
    """Bubblewrap's own /dev, where the launcher may make none.

    Its nodes are the host's: a lock on one tells something to every other box.
    """
    shared = ("--bind", SHARED, SHM, "--bind", QUEUES, "/dev/mqueue")
    return ("--dev", "/dev", *shared, "--remount-ro", "/dev")

"""What the launcher is told about one box: from a spec to an order, and what a host can guarantee. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sandbox_skills.engines.box import (
    ARCHITECTURES,
    CORE_LIMIT,
    ENVIRONMENT,
    IPC_SYSCTLS,
    SHM,
    SHM_INODES,
    TMP,
    TMP_INODES,
    check_spec,
)
from sandbox_skills.engines.bubblewrap.arguments import (
    QUEUES,
    ROOT,
    SHARED,
    STAGE,
    STORE,
    TREE,
    Parts,
    bwrap_arguments,
)
from sandbox_skills.engines.bubblewrap.cgroup import CONTROLLERS, Hierarchy, files
from sandbox_skills.errors import SettingsError
from sandbox_skills.spec import BASE_GUARANTEES, SKILLS, WORKSPACE, Guarantee

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.spec import SandboxId, SandboxLimits, SandboxSpec

GROUP_PREFIX = "sandbox-skills-"
"""Begins the name of every cgroup of ours; the instance stands behind it, then the sandbox."""

TERMINALS = 64
"""Pseudo-terminals of one box. All boxes share some 3,000 of the kernel's, and a box could have taken every one."""

OOM_SCORE_ADJ = 500
"""As in a container: the kernel takes a box before it takes a program of the host."""

NO_CGROUP = "this process may not make a cgroup with the {} controller"

SHARED_UID = "boxes of a user who is not root have that user's uid outside, all of them the same"


@dataclass(frozen=True, slots=True)
class Host:
    """What boxes are made with here. `version` is bubblewrap's, `masked` what of /proc is there to be hidden."""

    program: Path
    version: tuple[int, ...]
    machine: str
    uid: int
    gid: int
    cpus: int
    hierarchies: tuple[Hierarchy, ...] = ()
    masked: frozenset[str] = field(default_factory=frozenset[str])

    @property
    def is_root(self) -> bool:
        """Whether a box can have a uid that nobody else has."""
        return self.uid == 0


NOSUID, NODEV, NOEXEC = 2, 4, 8
"""Flags of mount(2)."""

Mount = tuple[str, str, int, str]
"""Where, which kind of file system, flags, options."""

DEVICES, SYSTEM = f"{ROOT}/dev", f"{ROOT}/sys"
"""Where the launcher lays out a /dev, if it may make one, and a /sys that has the box's own groups and nothing else."""

NODES = {"null": [1, 3], "zero": [1, 5], "full": [1, 7], "random": [1, 8], "urandom": [1, 9], "tty": [5, 0]}
"""The devices of a container, by major and minor number."""

LINKS = {
    "core": "/proc/kcore",
    "fd": "/proc/self/fd",
    "ptmx": "pts/ptmx",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}

LOCKS_NAMESPACES = (0, 8)
"""The first bubblewrap with --disable-userns."""


def lost_guarantees(host: Host) -> dict[Guarantee, str]:
    """Returns what this host cannot enforce, each with the reason."""
    limited = {name for hierarchy in host.hierarchies for name in hierarchy.controllers}
    lost = {
        guarantee: NO_CGROUP.format(name) for name, guarantee in CONTROLLERS.items() if name not in limited
    }
    if not host.is_root:
        lost[Guarantee.OWN_UID] = SHARED_UID
    if host.machine not in ARCHITECTURES:
        lost[Guarantee.SECCOMP] = f"the filter does not cover {host.machine}"
    return lost


def guarantees(host: Host) -> frozenset[Guarantee]:
    """Returns what this host enforces; a profile of AppArmor and a kernel of its own are not among it."""
    return BASE_GUARANTEES - lost_guarantees(host).keys()


def stage(host: Host, root: Path, store: Path | None) -> dict[str, Any]:
    """Returns what the launcher prepares once: `root` is the root file system, `store` the staged skills."""
    return {
        "stage": STAGE,
        "parts": [path.rpartition("/")[2] for path in (TREE, ROOT, STORE)],
        "root": str(root),
        "tree": TREE,
        "store": None if store is None else str(store),
        "skills": STORE,
        "outer": None if host.is_root else [host.uid, host.gid],
    }


def order(spec: SandboxSpec, *, host: Host, uid: int, sandbox_id: SandboxId, instance: str) -> dict[str, Any]:
    """Returns the order for one box.

    Raises SettingsError for limits or a time to live that no box can have here.
    """
    check_spec(spec, uid)
    if spec.limits.cpus > host.cpus:
        raise SettingsError(
            f"sandbox.cpus is more than this host has: {host.cpus}",
            hint=f"set sandbox.cpus to {host.cpus} or less",
        )
    groups = [_group(hierarchy, spec.limits, instance, sandbox_id) for hierarchy in host.hierarchies]
    shown = [
        [group["path"], f"{SYSTEM}/fs/cgroup/{place}".rstrip("/")]
        for hierarchy, group in zip(host.hierarchies, groups, strict=True)
        for place in hierarchy.places
    ]
    parts = Parts(
        uid,
        host.masked,
        own_devices=host.is_root,
        lock_namespaces=host.version >= LOCKS_NAMESPACES,
    )
    return {
        "id": sandbox_id,
        "ttl": spec.ttl_seconds,
        "groups": groups,
        "sysctls": {f"/proc/sys/{name.replace('.', '/')}": value for name, value in IPC_SYSCTLS.items()},
        "tree": TREE,
        "root": ROOT,
        "empty": STORE,
        "mounts": _mounts(spec.limits, host, uid),
        "shown": [[STORE, f"{ROOT}{SKILLS}"], *shown],
        "sealed": [SYSTEM],
        "dev": {"path": DEVICES, "nodes": NODES, "links": LINKS} if host.is_root else None,
        "uid": uid if host.is_root else None,
        "rlimits": _rlimits(spec.limits, host),
        "oom_score_adj": OOM_SCORE_ADJ,
        "program": str(host.program),
        "argv": bwrap_arguments(parts),
        "env": ENVIRONMENT,
    }


def _group(
    hierarchy: Hierarchy, limits: SandboxLimits, instance: str, sandbox_id: SandboxId
) -> dict[str, Any]:
    return {
        "path": str(hierarchy.parent / f"{GROUP_PREFIX}{instance}-{sandbox_id}"),
        "files": [[file.name, file.value, file.optional] for file in files(hierarchy, limits)],
        "join": hierarchy.join_file,
        "oom": hierarchy.oom_file,
    }


def _mounts(limits: SandboxLimits, host: Host, uid: int) -> list[Mount]:
    """What is writable, each with a size and a number of inodes; queues; /sys; a /dev where root can fill it."""
    shared, queues = (f"{ROOT}{SHM}", f"{DEVICES}/mqueue") if host.is_root else (SHARED, QUEUES)
    own: list[Mount] = [
        (DEVICES, "tmpfs", NOSUID | NOEXEC, "size=64k,nr_inodes=32,mode=0755"),
        (f"{DEVICES}/pts", "devpts", NOSUID | NOEXEC, f"newinstance,ptmxmode=0666,mode=0620,max={TERMINALS}"),
    ]
    owner = f"uid={uid},gid={uid}" if host.is_root else f"uid={host.uid},gid={host.gid}"
    return [
        *(own if host.is_root else []),
        (SYSTEM, "tmpfs", NOSUID | NODEV | NOEXEC, "size=64k,nr_inodes=16,mode=0755"),
        (f"{ROOT}{WORKSPACE}", *_writable(limits.workspace_bytes, limits.workspace_inodes, owner)),
        (f"{ROOT}{TMP}", *_writable(limits.tmp_bytes, TMP_INODES, owner)),
        (shared, *_writable(limits.shm_bytes, SHM_INODES, owner)),
        (queues, "mqueue", NOSUID | NODEV | NOEXEC, ""),
    ]


def _writable(size: int, inodes: int, owner: str) -> tuple[str, int, str]:
    return "tmpfs", NOSUID | NODEV, f"size={size},nr_inodes={inodes},mode=0700,{owner}"


def _rlimits(limits: SandboxLimits, host: Host) -> dict[str, int]:
    """What a process may have. Where no cgroup limits the box, what rlimits can do for each process, or each uid."""
    limited = {name for hierarchy in host.hierarchies for name in hierarchy.controllers}
    own = {"nofile": limits.open_files, "fsize": limits.file_bytes, "core": CORE_LIMIT}
    if "memory" not in limited:
        own["data"] = limits.memory
    if (
        "pids" not in limited and host.is_root
    ):  # of another user's uid it would count what he runs outside, too
        own["nproc"] = limits.pids
    return own

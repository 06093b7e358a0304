"""What this box is, read in under 3 ms."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING

from .kernel import LIBC, PR_GET_DUMPABLE
from .lean import suppress

if TYPE_CHECKING:
    from collections.abc import Iterable


def read_text(*paths: str) -> str | None:
    """Returns the first of the files that can be read, or None."""
    for path in paths:
        with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    return None


def status_facts() -> dict[str, object]:
    """Returns capabilities, no_new_privs and the seccomp mode from /proc/self/status."""
    lines = (read_text("/proc/self/status") or "").splitlines()
    values = dict(line.split(":", 1) for line in lines if ":" in line)

    def number(name: str, base: int) -> int | None:
        return int(values[name], base) if name in values else None

    return {
        "caps": {name: number(f"Cap{name.capitalize()}", 16) for name in ("inh", "prm", "eff", "bnd", "amb")},
        "no_new_privs": number("NoNewPrivs", 10),
        "seccomp": number("Seccomp", 10),
    }


def mount_facts(paths: Iterable[str]) -> dict[str, object]:
    """Returns type, options and size of the file system that each path is on; None for a path that is not there.

    Options of the mount and of the file system stand together, without those that name the host's directories.
    """
    mounts: list[tuple[str, str, set[str]]] = []
    for line in (read_text("/proc/self/mountinfo") or "").splitlines():
        left, _, right = line.partition(" - ")
        point, options = left.split()[4:6]
        fstype, _, extra = right.split(" ", 2)
        first, *escapes = point.split("\\")  # each is three octal digits and what follows
        unescaped = first + "".join(chr(int(text[:3], 8)) + text[3:] for text in escapes)
        named = {*options.split(","), *extra.split(",")}
        mounts.append((unescaped, fstype, {option for option in named if "/" not in option}))
    return {path: _mount_of(path, mounts) for path in paths}


def _mount_of(path: str, mounts: Iterable[tuple[str, str, set[str]]]) -> dict[str, object] | None:
    above = [mount for mount in mounts if f"{path}/".startswith(f"{mount[0].rstrip('/')}/")]
    try:
        room = os.statvfs(path)
    except OSError:
        return None
    if not above:
        return None
    _, fstype, options = max(enumerate(above), key=lambda found: (len(found[1][0]), found[0]))[1]
    return {
        "fstype": fstype,
        "options": sorted(options),
        "size": room.f_blocks * room.f_frsize,
        "inodes": room.f_files,
    }


def cgroup_facts() -> dict[str, object]:
    """Returns the box's limits as its cgroup has them: bytes, tasks, microseconds; None is no limit."""
    root = "/sys/fs/cgroup"
    quota, _, period = (read_text(f"{root}/cpu.max") or "").partition(" ")
    texts = {
        "memory": read_text(f"{root}/memory.max", f"{root}/memory/memory.limit_in_bytes"),
        "pids": read_text(f"{root}/pids.max", f"{root}/pids/pids.max"),
        "cpu_quota": quota or read_text(f"{root}/cpu/cpu.cfs_quota_us"),
        "cpu_period": period or read_text(f"{root}/cpu/cpu.cfs_period_us"),
    }
    return {name: int(text) if text and text.isdigit() else None for name, text in texts.items()}


def interface_names() -> list[str] | None:
    """Returns the network interfaces, without the cost of the socket module; None where they cannot be read."""
    text = read_text("/proc/self/net/dev")
    return (
        None
        if text is None
        else sorted(line.split(":")[0].strip() for line in text.splitlines() if ":" in line)
    )


def facts(workspace: str, skills: str) -> dict[str, object]:
    """Returns what is particular to this box, for the host to compare with what it asked for."""
    limits = {"nofile": resource.RLIMIT_NOFILE, "fsize": resource.RLIMIT_FSIZE, "core": resource.RLIMIT_CORE}
    return {
        "uid": os.getuid(),
        "gid": os.getgid(),
        "groups": os.getgroups(),
        **status_facts(),
        "dumpable": LIBC.prctl(PR_GET_DUMPABLE, 0, 0, 0, 0),
        "interfaces": interface_names(),
        "mounts": mount_facts(("/", workspace, skills, "/tmp", "/dev/shm")),  # noqa: S108  looked at, not used
        "rlimits": {name: list(resource.getrlimit(number)) for name, number in limits.items()},
        "cgroup": cgroup_facts(),
        "kernel": read_text("/proc/version"),
    }

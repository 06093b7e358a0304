"""What a box sees of file systems, from the mounts that only it has."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from .kernel import MS_BIND, MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_RDONLY, MS_REMOUNT, call

if TYPE_CHECKING:
    from typing import Any


def bind(descriptor: int, target: str) -> None:
    """Mounts an open directory, without what is mounted below it."""
    call("mount", b"/proc/self/fd/%d" % descriptor, target.encode(), None, MS_BIND, None)


def mount_root(tree: str, target: str, empty: str) -> None:
    """Mounts the root file system as one that only this box has, where the kernel can.

    A bind mount would share its inodes with all boxes, and a lock on a file of it would tell them something. It would
    also have the host's path in the mount table. An overlay needs a second directory, and finds nothing in it.
    """
    options = f"lowerdir={tree}:{empty}"
    try:
        call(
            "mount",
            b"overlay",
            target.encode(),
            b"overlay",
            MS_RDONLY | MS_NOSUID | MS_NODEV,
            options.encode(),
        )
    except OSError:
        show(tree, target)


def show(source: str, target: str) -> None:
    """Mounts a directory where the box can read it and no more."""
    call("mount", source.encode(), target.encode(), None, MS_BIND, None)
    seal(target)


def seal(path: str) -> None:
    """Makes a mount read-only; what it does not allow already stays so, as in a user namespace it must."""
    kept = os.statvfs(path).f_flag & MS_NOEXEC
    flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | kept
    call("mount", None, path.encode(), None, flags, None)


def fill_dev(dev: dict[str, Any]) -> None:
    """Makes device nodes that only this box has, for the same reason, and lets nobody add to them."""
    os.umask(0)
    for name, (major, minor) in dev["nodes"].items():
        os.mknod(f"{dev['path']}/{name}", 0o666 | stat.S_IFCHR, os.makedev(major, minor))
    os.umask(0o022)
    for name, target in dev["links"].items():
        os.symlink(target, f"{dev['path']}/{name}")
    flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC
    call("mount", None, dev["path"].encode(), None, flags, None)

"""The stage: what all boxes share, in a mount namespace of the launcher's own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from .kernel import CLONE_NEWNS, CLONE_NEWUSER, MS_NODEV, MS_NOSUID, MS_PRIVATE, MS_REC, call, write
from .mounts import bind

if TYPE_CHECKING:
    from typing import Any


def prepare(plan: dict[str, Any]) -> None:
    """Sets up the stage; who is not root does it in a user namespace that allows it. Raises OSError."""
    outer = plan["outer"]
    call("unshare", CLONE_NEWNS | (CLONE_NEWUSER if outer else 0))
    if outer:
        write("/proc/self/setgroups", "deny")
        write("/proc/self/uid_map", f"{outer[0]} {outer[0]} 1")
        write("/proc/self/gid_map", f"{outer[1]} {outer[1]} 1")
    stage = plan["stage"]
    # Opened first: they may lie below the directory that is about to be covered.
    root = os.open(plan["root"], os.O_PATH | os.O_CLOEXEC)
    store = os.open(plan["store"], os.O_PATH | os.O_CLOEXEC) if plan["store"] else None
    call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    call("mount", b"tmpfs", stage.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, b"size=64k,mode=0755")
    for name in plan["parts"]:
        os.mkdir(f"{stage}/{name}")
    bind(root, plan["tree"])
    if store is not None:
        bind(store, plan["skills"])

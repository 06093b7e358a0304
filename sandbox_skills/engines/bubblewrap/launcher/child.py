"""The child: from a fork of the launcher to bubblewrap."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from .kernel import CLONE_NEWIPC, CLONE_NEWNS, call, write
from .mounts import fill_dev, mount_root, seal, show
from .rights import RLIMITS, drop_rights, lower_limit, take_descriptors

if TYPE_CHECKING:
    from typing import Any, Never


def become_box(order: dict[str, Any], channel: int, words: int, filter_: int) -> Never:
    """Turns this process into the box; raises OSError."""
    program = os.open(order["program"], os.O_RDONLY | os.O_CLOEXEC)
    for group in order["groups"]:
        write(f"{group['path']}/{group['join']}", "0")
    write("/proc/self/oom_score_adj", str(order["oom_score_adj"]))
    call("unshare", CLONE_NEWNS | CLONE_NEWIPC)
    limit_ipc(order)
    mount_root(order["tree"], order["root"], order["empty"])
    for path, kind, flags, options in order["mounts"]:
        os.makedirs(path, exist_ok=True)
        call("mount", kind.encode(), path.encode(), kind.encode(), flags, options.encode())
    if order["dev"]:
        fill_dev(order["dev"])
    for source, path in order["shown"]:
        os.makedirs(path, exist_ok=True)
        show(source, path)
    for path in order["sealed"]:
        seal(path)
    take_descriptors(channel, words, filter_)
    ignore_nothing()
    for name, value in order["rlimits"].items():
        lower_limit(RLIMITS[name], value)
    drop_rights(order)
    os.execve(program, order["argv"], order["env"])  # noqa: S606  # no shell is wanted


def ignore_nothing() -> None:
    """Gives every signal its meaning: what the launcher ignores, or whoever started it, each program would ignore."""
    for number in signal.valid_signals():
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def limit_ipc(order: dict[str, Any]) -> None:
    """Sets the limits of the box's own IPC namespace; in a user namespace most kernels do not let us."""
    for path, value in order["sysctls"].items():
        try:
            write(path, value)
        except OSError:
            if order["uid"] is not None:
                raise

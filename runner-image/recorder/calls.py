"""The calls that are recorded, by their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


# (directory, path): positions of the arguments; None is the current directory.
_AT = ((0, 1),)
_HERE = ((None, 0),)
_WRITES_X86 = {
    "mkdir": (83, _HERE),
    "rmdir": (84, _HERE),
    "creat": (85, _HERE),
    "unlink": (87, _HERE),
    "rename": (82, ((None, 0), (None, 1))),
    "link": (86, ((None, 1),)),
    "symlink": (88, ((None, 1),)),
    "mknod": (133, _HERE),
    "truncate": (76, _HERE),
    "mkdirat": (258, _AT),
    "unlinkat": (263, _AT),
    "mknodat": (259, _AT),
    "renameat": (264, ((0, 1), (2, 3))),
    "renameat2": (316, ((0, 1), (2, 3))),
    "linkat": (265, ((2, 3),)),
    "symlinkat": (266, ((1, 2),)),
}
_WRITES_ARM = {
    "truncate": (45, _HERE),
    "mkdirat": (34, _AT),
    "unlinkat": (35, _AT),
    "mknodat": (33, _AT),
    "renameat": (38, ((0, 1), (2, 3))),
    "renameat2": (276, ((0, 1), (2, 3))),
    "linkat": (37, ((2, 3),)),
    "symlinkat": (36, ((1, 2),)),
}


class Machine:
    """The numbers of one processor's system calls, from the kernel's tables."""

    def __init__(
        self, audit: int, *, numbers: Mapping[str, int], writes: Mapping[str, tuple[int, Places]]
    ) -> None:
        self.audit = audit
        self.numbers = numbers
        self.writes = dict(writes.values())

    def of(self, wanted: Iterable[str]) -> list[int]:
        """Returns the calls that `wanted` is about, the frequent ones first."""
        names = {
            "files": ("open", "openat", "openat2"),
            "network": ("connect", "sendto", "sendmsg", "sendmmsg"),
            "programs": ("execve", "execveat"),
        }
        chosen = [
            self.numbers[name]
            for word in names
            if word in wanted
            for name in names[word]
            if name in self.numbers
        ]
        return chosen + (list(self.writes) if "files" in wanted else [])


if TYPE_CHECKING:
    Places = tuple[tuple[int | None, int], ...]

MACHINES = {
    "x86_64": Machine(
        0xC000003E,
        numbers={
            "seccomp": 317,
            "open": 2,
            "openat": 257,
            "openat2": 437,
            "connect": 42,
            "sendto": 44,
            "sendmsg": 46,
            "sendmmsg": 307,
            "execve": 59,
            "execveat": 322,
        },
        writes=_WRITES_X86,
    ),
    "aarch64": Machine(
        0xC00000B7,
        numbers={
            "seccomp": 277,
            "openat": 56,
            "openat2": 437,
            "connect": 203,
            "sendto": 206,
            "sendmsg": 211,
            "sendmmsg": 269,
            "execve": 221,
            "execveat": 281,
        },
        writes=_WRITES_ARM,
    ),
}

"""Runs inside a box: makes raw system calls and prints what each of them answered, as one JSON object.

Numbers are given as (x86_64, aarch64); None where the architecture has no such call.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import platform
import socket

NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_settime": (227, 112),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "init_module": (175, 105),
    "io_setup": (206, 0),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapon": (167, 224),
    "sync": (162, 81),
    "syncfs": (306, 267),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
    # Those that depend on their arguments.
    "clone": (56, 220),
    "clone3": (435, 435),
    "ioctl": (16, 29),
    "personality": (135, 92),
    "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "setpriority": (141, 140),
    "setrlimit": (160, 164),
    "socket": (41, 198),
    "socketpair": (53, 199),
}
CONDITIONAL = set(list(NUMBERS)[list(NUMBERS).index("clone") :])

NAMESPACES = {
    "NEWNS": 0x20000,
    "NEWCGROUP": 0x2000000,
    "NEWUTS": 0x4000000,
    "NEWIPC": 0x8000000,
    "NEWUSER": 0x10000000,
    "NEWPID": 0x20000000,
    "NEWNET": 0x40000000,
}
SIGCHLD = 17
HIGH = 1 << 32

SOCKETS = {
    "unix": (1, 1, 0),
    "tcp": (2, 1, 0),
    "udp": (2, 2, 0),
    "tcp6": (10, 1, 6),
    "udp6": (10, 2, 17),
    "tcp nonblocking": (2, 1 | 0x80800, 6),
    "netlink route": (16, 3, 0),
    "netlink audit": (16, 3, 9),
    "netlink netfilter": (16, 3, 12),
    "raw": (2, 3, 1),
    "ping": (2, 2, 1),
    "sctp": (2, 1, 132),
    "seqpacket": (2, 5, 0),
    "mptcp": (2, 1, 262),
    "ax25": (3, 1, 0),
    "x25": (9, 5, 0),
    "packet": (17, 3, 0),
    "can": (29, 3, 1),
    "tipc": (30, 1, 0),
    "bluetooth": (31, 3, 0),
    "alg": (38, 5, 0),
    "vsock": (40, 1, 0),
    "xdp": (44, 3, 0),
    "vsock with a high bit": (HIGH | 40, 1, 0),
}
TTY_INJECTION = (0x5412, 0x541C, 0x5423)
RUNNER = 1
CORE, NOFILE = 4, 7

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long


def call(name: str, *arguments: int) -> str:
    """Returns "ok" or the name of the errno; "absent" where this architecture has no such call."""
    number = NUMBERS[name][platform.machine() == "aarch64"]
    if number is None:
        return "absent"
    words = [ctypes.c_ulong(value & 0xFFFFFFFFFFFFFFFF) for value in (*arguments, 0, 0, 0, 0, 0)[:5]]
    if LIBC.syscall(ctypes.c_long(number), *words) >= 0:
        return "ok"
    return errno.errorcode[ctypes.get_errno()]


def foreign(code: bytes) -> int:
    """Runs machine code in a child; returns its wait status: the signal that killed it, or 0."""
    child = os.fork()
    if not child:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(code)
        result = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
        os._exit(0 if result > 0 else 1)
    return os.waitpid(child, 0)[1]


def abis() -> dict[str, int]:
    """getpid by the native call, by int 0x80, and with the x32 bit."""
    if platform.machine() != "x86_64":
        return {}
    return {
        "native": foreign(b"\xb8\x27\x00\x00\x00\x0f\x05\xc3"),
        "x86": foreign(b"\x53\xb8\x14\x00\x00\x00\xcd\x80\x5b\xc3"),
        "x32": foreign(b"\xb8\x27\x00\x00\x40\x0f\x05\xc3"),
    }


def terminals() -> dict[str, list[str]]:
    """Requests that are refused though they may be made, and the other way round; every low request is tried."""
    low = {request for request in range(65536) if call("ioctl", -1, request) == "EPERM"}
    wide = [request | bit for request in TTY_INJECTION for bit in (HIGH, 1 << 63, 0xFFFFFFFF << 32)]
    other = [request | 1 << bit for request in TTY_INJECTION for bit in range(16, 32)]
    return {
        "wrongly allowed": [
            *map(hex, set(TTY_INJECTION) - low),
            *(hex(request) for request in wide if call("ioctl", -1, request) != "EPERM"),
        ],
        "wrongly refused": [
            *map(hex, low - set(TTY_INJECTION)),
            *(hex(request) for request in other if call("ioctl", -1, request) == "EPERM"),
        ],
    }


def tuning(pid: int) -> dict[str, str]:
    """What changing another process answers; nothing is changed where the call is let through."""
    return {
        "prlimit64": call("prlimit64", pid, socket.SOL_SOCKET, 0, 0),
        "sched_setaffinity": call("sched_setaffinity", pid, 0, 0),
        "sched_setattr": call("sched_setattr", pid, 0, 0),
        "sched_setparam": call("sched_setparam", pid, 0),
        "sched_setscheduler": call("sched_setscheduler", pid, 0, 0),
        "setpriority": call("setpriority", 0, pid, 0),
    }


def cores() -> dict[str, str]:
    """What lowering the limit of a core answers, and reading it."""
    least, room, fewer = ((ctypes.c_ulong * 2)(*pair) for pair in ((0, 0), (0, 0), (512, 1024)))
    new, old = ctypes.addressof(least), ctypes.addressof(room)
    return {
        "setrlimit": call("setrlimit", CORE, new),
        "setrlimit with a high bit": call("setrlimit", CORE | HIGH, new),
        "prlimit64": call("prlimit64", 0, CORE, new),
        "prlimit64 with a high bit": call("prlimit64", 0, CORE | HIGH, new),
        "prlimit64 of itself by number": call("prlimit64", os.getpid(), CORE, new),
        "reading": call("prlimit64", 0, CORE, 0, old),
        "reading by number": call("prlimit64", os.getpid(), CORE, 0, old),
        "another limit": call("setrlimit", NOFILE, ctypes.addressof(fewer)),
    }


def results() -> dict[str, object]:
    """Every attempt with its answer."""
    return {
        "plain": {name: call(name) for name in NUMBERS if name not in CONDITIONAL},
        "unshare": {name: call("unshare", flag) for name, flag in NAMESPACES.items()},
        "clone": {name: call("clone", flag | SIGCHLD) for name, flag in NAMESPACES.items()},
        "clone3": call("clone3"),
        "socket": {name: call("socket", *arguments) for name, arguments in SOCKETS.items()},
        "socketpair": {"tipc": call("socketpair", 30, 1, 0, 0), "unix": call("socketpair", 1, 1, 0, 0)},
        "personality": {
            name: call("personality", value)
            for name, value in {
                "query": 0xFFFFFFFF,
                "no aslr": 0x40000,
                "read implies exec": 0x400000,
            }.items()
        },
        "ioctl": terminals(),
        "tune the runner": tuning(RUNNER),
        "tune the runner with a high bit": tuning(RUNNER | HIGH),
        "tune itself": tuning(os.getpid()),
        "cores": cores(),
        "priority of a group": call("setpriority", 1, 0, 0),
        "priority of a user": call("setpriority", 2, 0, 0),
        "abis": abis(),
    }


if __name__ == "__main__":
    print(json.dumps(results()))

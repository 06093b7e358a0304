"""The seccomp table, each rule with its reason, and its compilation to Docker's JSON. Pure.

An allow-list: what is not named fails with EPERM, what the kernel learnt later than libseccomp with ENOSYS, and a
foreign ABI (x86, x32, 32-bit Arm) kills the caller. It stands beside no capabilities and no-new-privileges, so the
calls that need a capability are left out whole. `config/seccomp.json` is what this module prints:

    python3 -m sandbox_skills.engines.seccomp.compile > config/seccomp.json

Docker and libseccomp set three traps, all seen on Docker 20.10. A plain ALLOW silently beats a conditional ERRNO on
the same call, so that "all but these" is spelt as the allowed rest. NE compares 64 bits where the kernel reads 32, so
that a high bit walks past it; only EQ and MASKED_EQ are used. Conditions on one argument within one rule are joined by
OR, so that each rule has at most one for each argument.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sandbox_skills.engines.seccomp.calls import ALLOWED, X86_64_ONLY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

INT_BITS = 32
"""Width of the arguments compared here: the kernel cuts int, pid_t and an ioctl number to 32 bits."""

ALL_BITS = 2**64 - 1

CLONE_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. NEWTIME (0x80) lies in clone's exit-signal byte,
where it means nothing; only clone3 and unshare take it."""

EPERM, ENOSYS = 1, 38

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
NETLINK_ROUTE = 0
SOCK_STREAM, SOCK_DGRAM = 1, 2
SOCK_FLAGS = 0x80800
"""SOCK_CLOEXEC and SOCK_NONBLOCK, which ride on the type."""
IPPROTO_DEFAULT, IPPROTO_TCP, IPPROTO_UDP = 0, 6, 17

TTY_INJECTION = {0x5412, 0x541C, 0x5423}
"""TIOCSTI and TIOCLINUX put input into a terminal; TIOCSETD loads line disciplines, drivers that no skill needs."""

PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
"""Linux, 32-bit uname, old uname, both, and the query. No ADDR_NO_RANDOMIZE, READ_IMPLIES_EXEC, MMAP_PAGE_ZERO."""

RUNNER_PID = 1
PRIO_PROCESS = 0

RLIMIT_CPU, RLIMIT_CORE = 0, 4
RLIMIT_BITS = 4
"""The kernel has sixteen limits and refuses all other numbers, so that these bits are enough to name one."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Argument `index` must equal `value` in the bits of `mask`."""

    index: int
    value: int
    mask: int = ALL_BITS

    def docker(self) -> dict[str, Any]:
        """Returns this condition as Docker spells it."""
        if self.mask == ALL_BITS:
            return {"index": self.index, "op": "SCMP_CMP_EQ", "value": self.value}
        return {"index": self.index, "op": "SCMP_CMP_MASKED_EQ", "value": self.mask, "valueTwo": self.value}


@dataclass(frozen=True, slots=True)
class Rule:
    """Calls that are allowed, or answered with `errno`, where every condition holds."""

    names: tuple[str, ...]
    reason: str
    conditions: tuple[Condition, ...] = ()
    errno: int | None = None
    architecture: str = ""

    def docker(self) -> dict[str, Any]:
        """Returns this rule as Docker spells it."""
        rule: dict[str, Any] = {
            "names": sorted(self.names),
            "action": "SCMP_ACT_ALLOW" if self.errno is None else "SCMP_ACT_ERRNO",
            "args": [condition.docker() for condition in self.conditions],
            "comment": self.reason,
        }
        if self.errno is not None:
            rule["errnoRet"] = self.errno
        if self.architecture:
            rule["includes"] = {"arches": [self.architecture]}
        return rule


def blocks_without(forbidden: Collection[int], bits: int = INT_BITS) -> Iterator[tuple[int, int]]:
    """Yields (mask, value) blocks that cover every number of `bits` bits but the forbidden ones, each once.

    As with network prefixes: the space is halved until a half holds nothing forbidden.
    """
    yield from _blocks(frozenset(forbidden), 0, bits, 2**bits - 1)


def _blocks(forbidden: frozenset[int], start: int, free: int, whole: int) -> Iterator[tuple[int, int]]:
    inside = {number for number in forbidden if start <= number < start + 2**free}
    if not inside:
        yield whole ^ (2**free - 1), start
    elif free:
        half = 2 ** (free - 1)
        yield from _blocks(frozenset(inside), start, free - 1, whole)
        yield from _blocks(frozenset(inside), start + half, free - 1, whole)


def rules() -> tuple[Rule, ...]:
    """Returns the whole table."""
    return (
        *(Rule(tuple(names), reason) for reason, names in ALLOWED.items()),
        Rule(tuple(X86_64_ONLY), "calls that only x86_64 has", architecture="amd64"),
        *_processes(),
        *_sockets(),
        *_terminals(),
        *_runner_protection(),
        *_limits(),
    )


def _processes() -> Iterator[Rule]:
    yield Rule(("clone",), "no new namespace of any kind", (Condition(0, 0, CLONE_NAMESPACES),))
    yield Rule(("clone3",), "its flags are behind a pointer; ENOSYS makes libc use clone", errno=ENOSYS)
    for value in PERSONALITIES:
        yield Rule(
            ("personality",), "no execution domain that weakens memory protection", (Condition(0, value),)
        )


def _sockets() -> Iterator[Rule]:
    yield Rule(("socket",), "local sockets", (Condition(0, AF_UNIX),))
    yield Rule(("socketpair",), "other families load kernel modules", (Condition(0, AF_UNIX),))
    yield Rule(
        ("socket",),
        "listing interfaces and addresses; no other netlink family",
        (Condition(0, AF_NETLINK), Condition(2, NETLINK_ROUTE)),
    )
    for family in (AF_INET, AF_INET6):
        for kind, own_protocol in ((SOCK_STREAM, IPPROTO_TCP), (SOCK_DGRAM, IPPROTO_UDP)):
            for protocol in (IPPROTO_DEFAULT, own_protocol):
                yield Rule(
                    ("socket",),
                    "TCP and UDP on the loopback; no raw, SCTP, MPTCP or other protocol module",
                    (Condition(0, family), Condition(1, kind, ALL_BITS ^ SOCK_FLAGS), Condition(2, protocol)),
                )


def _terminals() -> Iterator[Rule]:
    for mask, value in blocks_without(TTY_INJECTION):
        yield Rule(
            ("ioctl",),
            "every request but TIOCSTI, TIOCLINUX and TIOCSETD",
            (Condition(1, value, mask),),
        )


def _runner_protection() -> Iterator[Rule]:
    """Pid 1 has the uid of the program: without this a program could starve the runner or take its descriptors."""
    for mask, value in blocks_without({RUNNER_PID}):
        yield Rule(
            ("sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"),
            "any process but the runner",
            (Condition(0, value, mask),),
        )
        yield Rule(
            ("setpriority",),
            "any single process but the runner; a group or a user could include it",
            (Condition(0, PRIO_PROCESS), Condition(1, value, mask)),
        )


def _limits() -> Iterator[Rule]:
    """Limits may be lowered, but for that of a core: it is 1, at which the kernel starts no program for it.

    At 0 it writes no file, and still pipes the core to the program that the host may have in its core_pattern, which
    runs outside as root (core(5)).
    """
    for mask, resource in blocks_without({RLIMIT_CORE}, RLIMIT_BITS):
        wide = mask | (2**INT_BITS - 2**RLIMIT_BITS)
        yield Rule(("setrlimit",), "every limit but that of a core", (Condition(0, resource, wide),))
        own = Condition(0, 0, 2**INT_BITS - 1)
        yield Rule(
            ("prlimit64",), "every limit of its own but that of a core", (own, Condition(1, resource, wide))
        )
    for mask, value in blocks_without({RUNNER_PID}):
        other = Condition(0, value, mask)
        yield Rule(("prlimit64",), "reading limits of any process but the runner", (other, Condition(2, 0)))
        time = Condition(1, RLIMIT_CPU, 2**INT_BITS - 1)
        yield Rule(("prlimit64",), "the processor time of any process but the runner", (other, time))


def docker_profile() -> dict[str, Any]:
    """Returns the profile as Docker reads it; the same table always gives the same profile."""
    return {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": EPERM,
        "archMap": [
            {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []},
            {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": []},
        ],
        "syscalls": [rule.docker() for rule in rules()],
    }


def render() -> str:
    """Returns the text of `config/seccomp.json`."""
    return json.dumps(docker_profile(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())

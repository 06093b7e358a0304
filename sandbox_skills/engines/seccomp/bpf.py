"""The seccomp table as a program for the kernel's own filter machine, for engines that load it themselves. Pure.

No library stands between: libseccomp is not on every host, and drops an ALLOW beside a conditional ERRNO without a
word. The program first kills a foreign ABI, then finds the call by halving the range of numbers, so that each costs
about ten steps, and checks its conditions where it has some. A call is allowed where one of its rules holds in full.
"""

from __future__ import annotations

import hashlib
import struct
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from sandbox_skills.engines.seccomp.compile import ENOSYS, EPERM, rules
from sandbox_skills.engines.seccomp.numbers import LAST_KNOWN, NUMBERS
from sandbox_skills.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_skills.engines.seccomp.compile import Condition, Rule

LD, AND, JA, JEQ, JGE, RET = 0x20, 0x54, 0x05, 0x15, 0x35, 0x06
"""BPF_LD|W|ABS, BPF_ALU|AND|K, BPF_JMP|JA, |JEQ|K, |JGE|K and BPF_RET|K of linux/bpf_common.h."""

ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
"""SECCOMP_RET_ALLOW, _ERRNO, which has the number in its low half, and _KILL_PROCESS."""

NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
"""Offsets in `struct seccomp_data`; an argument has eight bytes, its low half first on both architectures."""

X32 = 0x40000000
"""The bit of x86_64 that asks for the x32 ABI."""

WORD = 2**32 - 1

MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""What `uname -m` says → AUDIT_ARCH of linux/audit.h, and the column in `NUMBERS`."""


class Step(NamedTuple):
    """One instruction: `struct sock_filter`. `yes` and `no` are how many steps to skip."""

    code: int
    k: int
    yes: int = 0
    no: int = 0


class Segment(NamedTuple):
    """Numbers from `start` to the next segment, and what becomes of them."""

    start: int
    steps: tuple[Step, ...]


REFUSED = (Step(RET, ERRNO | EPERM),)
UNKNOWN = (Step(RET, ERRNO | ENOSYS),)
ALLOWED = (Step(RET, ALLOW),)
KILLED = (Step(RET, KILL),)


@cache
def program(machine: str) -> bytes:
    """Returns the filter for `uname -m`, as PR_SET_SECCOMP takes it; raises SettingsError for other machines."""
    return b"".join(struct.pack("=HBBI", step.code, step.yes, step.no, step.k) for step in steps(machine))


@cache
def digest(machine: str) -> str:
    """Returns the SHA-256 of the filter in hexadecimal, for records of runs; raises as `program` does."""
    return hashlib.sha256(program(machine)).hexdigest()


def steps(machine: str) -> tuple[Step, ...]:
    """Returns the same as instructions."""
    if machine not in MACHINES:
        raise SettingsError(f"the seccomp profile does not cover {machine}", hint="use x86_64 or aarch64")
    audit, column = MACHINES[machine]
    own = (Step(LD, ARCHITECTURE), Step(JEQ, audit, 1, 0), *KILLED, Step(LD, NUMBER))
    return (*own, *_search(_segments(column)))


def _segments(column: int) -> list[Segment]:
    """Returns what becomes of every number; neighbours of one fate are one segment."""
    of_call: dict[str, list[Rule]] = {}
    for rule in rules():
        for name in rule.names:
            of_call.setdefault(name, []).append(rule)
    known = {NUMBERS[name][column]: _verdict(found) for name, found in of_call.items()}
    fates = [(number, known.get(number, REFUSED)) for number in range(LAST_KNOWN + 1)]
    fates += [(LAST_KNOWN + 1, UNKNOWN), *([(X32, KILLED)] if column == 0 else [])]
    segments: list[Segment] = []
    for start, fate in fates:
        if not segments or segments[-1].steps != fate:
            segments.append(Segment(start, fate))
    return segments


def _search(segments: Sequence[Segment]) -> tuple[Step, ...]:
    """Returns steps that find the segment of the loaded number. Only the unconditional jump reaches any distance."""
    if len(segments) == 1:
        return segments[0].steps
    middle = len(segments) // 2
    below = _search(segments[:middle])
    return (
        Step(JGE, segments[middle].start, 0, 1),
        Step(JA, len(below)),
        *below,
        *_search(segments[middle:]),
    )


def _verdict(of_call: Sequence[Rule]) -> tuple[Step, ...]:
    """Returns what the rules of one call come to: the first that holds decides."""
    found: tuple[Step, ...] = ()
    for rule in of_call:
        answer = Step(RET, ALLOW if rule.errno is None else ERRNO | rule.errno)
        found += _guarded([part for condition in rule.conditions for part in _halves(condition)], answer)
        if not rule.conditions:
            return found
    return found + REFUSED


def _halves(condition: Condition) -> list[tuple[Step, ...]]:
    """Returns one comparison for each half of the argument that the condition looks at."""
    offset = ARGUMENTS + 8 * condition.index
    found: list[tuple[Step, ...]] = []
    for place, shift in ((offset, 0), (offset + 4, 32)):
        mask, value = (condition.mask >> shift) & WORD, (condition.value >> shift) & WORD
        if mask:
            masked = () if mask == WORD else (Step(AND, mask),)
            found.append((Step(LD, place), *masked, Step(JEQ, value, 0, 0)))
    return found


def _guarded(parts: Sequence[tuple[Step, ...]], answer: Step) -> tuple[Step, ...]:
    """Returns steps that give the answer where every comparison holds, and go on behind it elsewhere."""
    steps_: tuple[Step, ...] = (answer,)
    for *before, comparison in reversed(parts):
        steps_ = (*before, comparison._replace(no=len(steps_)), *steps_)
    return steps_

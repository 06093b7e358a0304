"""The kernel's filter machine, as far as our programs use it: what a filter answers to one call."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from sandbox_skills.engines.seccomp.bpf import AND, JA, JEQ, JGE, LD, RET

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_STEPS = 4096
"""BPF_MAXINSNS: the kernel takes no longer program."""


def verdict(filter_: bytes, audit: int, number: int, arguments: Sequence[int] = ()) -> int:
    """Returns what the program returns; fails on anything that the kernel's checker would refuse."""
    steps = list(struct.iter_unpack("=HBBI", filter_))
    assert 0 < len(steps) <= MOST_STEPS
    six = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, audit, 0, *(value & 2**64 - 1 for value in six))
    at, loaded = 0, 0
    while True:
        code, yes, no, k = steps[at]
        at += 1
        if code == LD:
            assert k % 4 == 0
            (loaded,) = struct.unpack_from("<I", data, k)
        elif code == AND:
            loaded &= k
        elif code == JA:
            at += k
        elif code == JEQ:
            at += yes if loaded == k else no
        elif code == JGE:
            at += yes if loaded >= k else no
        else:
            assert code == RET
            return int(k)

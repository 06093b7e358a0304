"""One uid for one box, across processes, whatever ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack

import pytest

from sandbox_skills.engines.uids import leased_uid
from sandbox_skills.errors import EngineError

FIRST = 4_000_000
"""Far from what the image names, so that boxes of other programs are not disturbed."""

HOLDER = """
import sys, time
from contextlib import ExitStack
from sandbox_skills.engines.uids import leased_uid
with ExitStack() as stack:
    first, count, wanted = map(int, sys.argv[1:])
    print(*(stack.enter_context(leased_uid(first, count)) for _ in range(wanted)), flush=True)
    sys.stdin.read()
"""


class Holder:
    """Another process that holds leases."""

    def __init__(self, first: int, count: int, wanted: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(first), str(count), str(wanted)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        self.uids = set(map(int, self.process.stdout.readline().split()))

    def end(self, number: signal.Signals | None) -> None:
        if number is not None:
            os.kill(self.process.pid, number)
        self.process.communicate()


@pytest.fixture
def first() -> int:
    """A range that no test shares with another that may run beside it."""
    return FIRST + os.getpid() * 100


def test_no_two_leases_are_alike_and_the_last_is_told(first: int) -> None:
    with ExitStack() as stack:
        uids = {stack.enter_context(leased_uid(first, 20)) for _ in range(20)}
        assert uids == set(range(first, first + 20))
        with pytest.raises(EngineError, match="all 20 uids"):
            stack.enter_context(leased_uid(first, 20))


def test_leaving_gives_the_uid_back(first: int) -> None:
    with leased_uid(first, 1) as uid:
        assert uid == first
    with leased_uid(first, 1) as uid:
        assert uid == first


def test_an_error_inside_gives_the_uid_back(first: int) -> None:
    with pytest.raises(ValueError, match="inside"), leased_uid(first, 1):
        raise ValueError("inside")
    with leased_uid(first, 1):
        pass


def test_processes_never_hold_the_same(first: int) -> None:
    with ExitStack() as stack:
        holders = [Holder(first, 30, 8) for _ in range(3)]
        mine = {stack.enter_context(leased_uid(first, 30)) for _ in range(6)}
        sets = [mine, *(holder.uids for holder in holders)]
        assert len(set().union(*sets)) == 30
        with pytest.raises(EngineError):
            stack.enter_context(leased_uid(first, 30))
        for holder in holders:
            holder.end(None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, None])
def test_the_end_of_a_process_frees_its_uids(first: int, number: signal.Signals | None) -> None:
    Holder(first, 5, 5).end(number)
    with ExitStack() as stack:
        assert len({stack.enter_context(leased_uid(first, 5)) for _ in range(5)}) == 5

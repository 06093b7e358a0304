"""However a run ends and whatever it did to stay alive, nothing of it lives afterwards and the next run works."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.errors import SandboxLostError
from sandbox_skills.spec import Exited, Limits, Outcome, Signalled, Stopped

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.security.conftest import Box, OpenBox

pytestmark = [pytest.mark.anyio]

GRACE_SECONDS = 10.0
"""A box has a second to end by itself, and what kills it a moment; the rest is for a machine with other work."""


def new_session() -> None:
    import os
    import time

    if not os.fork():
        os.setsid()
        time.sleep(60)


def double_fork() -> None:
    import os
    import time

    if not os.fork():
        os.setsid()
        if not os.fork():
            os.closerange(0, 3)
            time.sleep(60)
        os._exit(0)
    os.wait()


def stopped() -> None:
    import os
    import signal

    child = os.fork()
    if not child:
        os.kill(os.getpid(), signal.SIGSTOP)
    os.waitpid(child, os.WUNTRACED)


def deaf() -> None:
    import os
    import signal
    import time
    from contextlib import suppress

    if not os.fork():
        for number in range(1, signal.NSIG):
            with suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_IGN)
        time.sleep(60)
    time.sleep(0.1)


def grandchild_with_the_pipe() -> None:
    import os
    import time

    if not os.fork():
        if not os.fork():
            while True:
                os.write(1, b"still here\n")
                time.sleep(0.01)
        os._exit(0)
    os.wait()


def waiting_on_a_fifo_in_vfork() -> None:
    import os
    import subprocess
    import threading
    import time

    os.mkfifo("/tmp/fifo")
    # A shell that opens a FIFO before it executes anything keeps its vfork parent waiting.
    thread = threading.Thread(
        target=subprocess.run, args=(["sh", "-c", "exec cat < /tmp/fifo"],), daemon=True
    )
    thread.start()
    time.sleep(0.1)
    os._exit(0)


def last_moment() -> None:
    import os
    import time

    parent = os.getpid()
    for _ in range(20):
        if not os.fork():
            while os.getppid() == parent:
                pass
            # The root has just ended: the killing has begun.
            for _ in range(3):
                os.fork()
            os.setsid()
            time.sleep(60)


def racing_bomb() -> None:
    import os
    import time
    from contextlib import suppress

    if not os.fork():
        while True:
            with suppress(OSError):
                if os.fork() and os.fork():
                    os.setsid()
    time.sleep(0.2)


def ever_new_pids() -> None:
    import os
    import time

    if not os.fork():
        # Each lives for a moment only: a search that reads and then kills comes too late.
        while True:
            if os.fork():
                os._exit(0)
            os.setsid()
    time.sleep(0.1)


def misleading_name() -> None:
    import ctypes
    import os
    import time

    if not os.fork():
        pr_set_name = 15
        ctypes.CDLL(None).prctl(pr_set_name, b") Z 1 1 (x", 0, 0, 0)
        os.setsid()
        time.sleep(60)


def thread_leader_gone() -> None:
    import ctypes
    import os
    import threading
    import time

    if not os.fork():
        threading.Thread(target=time.sleep, args=(60,)).start()
        ctypes.CDLL(None).pthread_exit(None)  # the first thread alone: the process looks like a zombie
    time.sleep(0.1)


def handed_over_socket() -> None:
    import os
    import socket
    import time

    left, right = socket.socketpair()
    if not os.fork():
        socket.send_fds(left, [b"x"], [1, 2])
        left.close()
        time.sleep(60)
    right.recv(1)


MISBEHAVIOURS = (
    *(new_session, double_fork, stopped, deaf, grandchild_with_the_pipe, waiting_on_a_fifo_in_vfork),
    *(last_moment, racing_bomb, ever_new_pids, misleading_name, thread_leader_gone, handed_over_socket),
)


def everything_at_once() -> None:
    import os
    import signal
    import time

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for _ in range(3):
        if not os.fork():
            os.setsid()
            if os.fork():
                os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(60)
    print("ready", flush=True)
    time.sleep(60)


def waiting_for_children() -> list[int]:
    import subprocess

    children = [subprocess.Popen(["sh", "-c", f"exit {code}"], start_new_session=True) for code in range(5)]
    return [child.wait() for child in children]


@pytest.fixture(scope="module")
def alone(box: Box) -> Callable[[], int]:
    return box.outside.processes


@pytest.mark.parametrize("misbehaviour", MISBEHAVIOURS, ids=lambda one: one.__name__)
async def test_nothing_lives_after_a_run_that_ended_by_itself(
    box: Box, alone: Callable[[], int], misbehaviour: Callable[[], None]
) -> None:
    await box.run(box.program(misbehaviour), limits=Limits(wall_seconds=10))
    assert alone() == 1
    assert (await box.shell("rm -f /tmp/fifo; echo next")).stdout == b"next\n"


async def test_nothing_lives_after_a_run_that_was_stopped(box: Box, alone: Callable[[], int]) -> None:
    # Time enough for an interpreter to start on a busy machine.
    outcome = await box.run(box.program(everything_at_once), limits=Limits(wall_seconds=3))
    assert (outcome.ending, outcome.stdout) == (Stopped("wall_time"), b"ready\n")
    assert alone() == 1
    assert (await box.shell("echo next")).stdout == b"next\n"


async def test_nothing_lives_after_a_run_that_was_cancelled(box: Box, alone: Callable[[], int]) -> None:
    ready = asyncio.Event()
    run = asyncio.ensure_future(box.run(box.program(everything_at_once), on_output=lambda *_: ready.set()))
    async with asyncio.timeout(10):
        await ready.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert alone() == 1
    assert (await box.shell("echo next")).stdout == b"next\n"


async def test_nothing_lives_after_a_run_that_wrote_too_much(box: Box, alone: Callable[[], int]) -> None:
    outcome = await box.shell("(setsid yes &) ; yes", limits=Limits(output_bytes=1 << 20))
    assert outcome.ending == Stopped("output")
    assert alone() == 1


async def test_nothing_lives_after_a_run_that_killed_itself(box: Box, alone: Callable[[], int]) -> None:
    outcome = await box.shell("(setsid sleep 60 &); kill -9 $$")
    assert outcome.ending == Signalled(9)
    assert alone() == 1


async def test_a_bomb_that_is_stopped_leaves_nothing(open_box: OpenBox) -> None:
    async with open_box() as box:
        outcome = await box.shell(":(){ :|:& };:; sleep 60", limits=Limits(wall_seconds=1))
        assert outcome.ending in {Stopped("wall_time"), Exited(254)}
        assert box.outside.processes() == 1
        assert (await box.shell("echo next")).stdout == b"next\n"


@pytest.mark.parametrize("misbehaviour", [everything_at_once, racing_bomb], ids=lambda one: one.__name__)
async def test_a_box_that_is_left_in_the_middle_goes_with_all_that_clings_to_it(
    open_box: OpenBox, misbehaviour: Callable[[], None]
) -> None:
    async with open_box() as box:
        run = asyncio.ensure_future(box.run(box.program(misbehaviour)))
        await asyncio.sleep(0.3)
        start = time.monotonic()
    assert time.monotonic() - start < GRACE_SECONDS
    assert box.outside.gone()
    (end,) = await asyncio.gather(run, return_exceptions=True)
    assert isinstance(end, Outcome | SandboxLostError), end


async def test_children_that_are_waited_for_end_as_they_like(box: Box) -> None:
    assert await box.call(waiting_for_children) == [0, 1, 2, 3, 4]

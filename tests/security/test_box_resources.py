"""A box has so much memory, CPU, so many processes and open files; who takes more hurts itself alone."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.errors import SandboxLostError
from sandbox_skills.spec import MIB, Command, Exited, Limits, SandboxLimits, SandboxSpec, Signalled, Stopped
from tests.security.engines import only

if TYPE_CHECKING:
    from tests.security.conftest import Box, OpenBox

pytestmark = [pytest.mark.anyio]

LITTLE = SandboxSpec(
    limits=SandboxLimits(memory=128 * MIB, workspace_bytes=32 * MIB, tmp_bytes=4 * MIB, shm_bytes=4 * MIB)
)
"""Quickly used up."""

HOG = "x = bytearray(1024 << 20)"
NICE_HOG = f"open('/proc/self/oom_score_adj', 'w').write('500'); {HOG}"


def python(text: str) -> Command:
    return Command(("python3", "-c", text), env={"PATH": "/usr/bin:/bin"})


def forking_without_end() -> None:
    import os
    from contextlib import suppress

    while True:
        with suppress(OSError):
            os.fork()


def hoarding_memory_in_many_children() -> None:
    import os
    import time
    from contextlib import suppress
    from pathlib import Path

    for score in ("500", "0"):  # as low as this host lets it be
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(score, encoding="ascii")
    while True:
        with suppress(OSError):
            if not os.fork():
                kept = bytearray(12 << 20)
                time.sleep(5)
                os._exit(len(kept) & 0)


def starting_threads_without_end() -> int:
    import threading
    import time

    started = 0
    try:
        while True:
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
            started += 1
    except RuntimeError:
        return started


def using_many_processes_and_threads() -> int:
    import subprocess
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(40) as pool:
        return sum(pool.map(lambda _: subprocess.run(["true"], check=False).returncode, range(80)))


def opening_files_without_end() -> tuple[str, int]:
    import os
    import resource

    from tests.security.inside import errno_of

    opened = []

    def opening() -> None:
        while True:
            opened.append(os.open("/dev/null", os.O_RDONLY))

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft == hard
    return errno_of(opening), len(opened)


def raising_limits() -> dict[str, str]:
    import resource

    found = {}
    for name in ("NOFILE", "FSIZE"):
        kind = getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(kind)
        try:
            resource.setrlimit(kind, (hard, hard + 1))
            found[name] = "raised"
        except (OSError, ValueError):
            found[name] = "refused"
        resource.setrlimit(kind, (hard // 2, hard // 2))  # the honest twin: less is always possible
    return found


def dying_with_a_core() -> list[str]:
    import subprocess
    from pathlib import Path

    place = Path("/workspace/work/core-place")
    place.mkdir()
    child = subprocess.run(["python3", "-c", "import os; os.abort()"], cwd=place, check=False)
    assert child.returncode == -6
    return [path.name for path in place.iterdir()]


def taking_terminals() -> None:
    import os
    import time
    from contextlib import suppress

    for _ in range(8):
        if not os.fork():
            with suppress(OSError):
                while True:
                    os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
            time.sleep(60)
    time.sleep(60)


def opening_a_terminal() -> str:
    import os

    from tests.security.inside import errno_of

    return errno_of(os.openpty)


def locking_without_end() -> None:
    import fcntl
    import os
    import struct

    files = [os.open(f"/workspace/work/lock-{number}", os.O_RDWR | os.O_CREAT) for number in range(900)]
    start = 0
    while True:
        start += 2
        for file in files:
            fcntl.fcntl(file, fcntl.F_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, start, 1, 0))


def taking_watches() -> None:
    import time
    from contextlib import suppress

    from tests.security.inside import libc

    with suppress(OSError):
        while True:
            libc("inotify_init1", 0)
    time.sleep(60)


def watching() -> str:
    from tests.security.inside import errno_of, libc

    return errno_of(lambda: libc("inotify_init1", 0))


def filling_sockets_that_nobody_reads() -> None:
    import os
    import socket
    import time
    from contextlib import suppress

    for _ in range(20):
        if not os.fork():
            kept = []
            with suppress(OSError):
                while True:
                    unread, sender = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
                    unread.bind(("127.0.0.1", 0))
                    kept.append(unread)
                    with sender, suppress(BlockingIOError):
                        for _ in range(8):
                            sender.sendto(bytes(60_000), socket.MSG_DONTWAIT, unread.getsockname())
            time.sleep(60)
    time.sleep(60)


def leaving_answers_of_the_kernel_unread() -> None:
    import os
    import socket
    import struct
    import time
    from contextlib import suppress

    get_link = struct.pack("IHHIIBxHiII", 32, 18, 1, 1, 0, 0, 0, 1, 0, 0)
    for _ in range(4):
        if not os.fork():
            kept = []
            with suppress(OSError):
                while True:
                    unread = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
                    kept.append(unread)
                    unread.setblocking(False)
                    with suppress(OSError):
                        for _ in range(400):
                            unread.sendto(get_link, (0, 0))
            time.sleep(60)
    time.sleep(60)


def talking_over_both_kinds_of_sockets() -> list[int]:
    import socket
    import threading

    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as one,
    ):
        other, _ = server.accept()
        threading.Thread(target=one.sendall, args=(bytes(4 << 20),)).start()
        received = 0
        while received < 4 << 20:
            received += len(other.recv(1 << 20))
        other.close()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.sendto(bytes(60_000), udp.getsockname())
        return [received, len(udp.recv(1 << 16))]


def limit_of_a_core() -> list[int]:
    import resource
    from contextlib import suppress

    with suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return list(resource.getrlimit(resource.RLIMIT_CORE))


def lowering_the_score() -> dict[str, str]:
    from functools import partial
    from pathlib import Path

    from tests.security.inside import errno_of

    file = Path("/proc/self/oom_score_adj")
    found = {"start": file.read_text(encoding="ascii").strip()}
    for score in ("-1000", "-1", "0", "500", "1000"):
        found[score] = errno_of(partial(file.write_text, score, encoding="ascii"))
    return found


def socket_memory() -> int:
    """What the buffers of all sockets of the host hold, those of its boxes among them, in bytes."""
    text = Path("/proc/net/sockstat").read_text(encoding="ascii")
    return sum(int(count) for count in re.findall(r" mem (\d+)", text)) * os.sysconf("SC_PAGE_SIZE")


def kernel_memory() -> int:
    """What the host's kernel holds and cannot give back, in bytes."""
    text = Path("/proc/meminfo").read_text(encoding="ascii")
    return int(text.partition("SUnreclaim:")[2].split()[0]) * 1024


@pytest.mark.parametrize("text", [HOG, NICE_HOG], ids=["as it starts", "with its score lowered"])
async def test_a_program_that_takes_all_memory_dies_alone(open_box: OpenBox, text: str) -> None:
    async with open_box(LITTLE) as box:
        outcome = await box.run(python(text))
        assert (outcome.ending, outcome.sandbox_lives) == (Stopped("memory"), True)
        assert outcome.limits_hit == {"memory"}
        assert (await box.run(python("print(len(bytearray(32 << 20)))"))).stdout == b"33554432\n"


async def test_a_child_that_takes_all_memory_is_told_beside_the_ending(open_box: OpenBox) -> None:
    async with open_box(LITTLE) as box:
        outcome = await box.shell(f"python3 -c '{HOG}'; echo survived")
        assert (outcome.ending, outcome.stdout) == (Exited(0), b"survived\n")
        assert outcome.limits_hit == {"memory"}


async def test_no_program_passes_for_one_that_was_killed_for_memory(open_box: OpenBox) -> None:
    async with open_box(LITTLE) as box:
        # The kernel is to take the child, never the shell.
        first = "echo 1000 > /proc/self/oom_score_adj"
        outcome = await box.shell(f"({first}; exec python3 -c '{HOG}'); echo done; exit 137")
        assert (outcome.ending, outcome.stdout) == (Exited(137), b"done\n")
        assert outcome.limits_hit == {"memory"}


async def test_memory_spread_over_children_is_one_account(open_box: OpenBox) -> None:
    async with open_box(LITTLE) as box:
        hog = "python3 -c 'import time; x = bytearray(50 << 20); time.sleep(2)' &"
        outcome = await box.shell(f"{hog} {hog} {hog} {hog} wait")
        assert "memory" in outcome.limits_hit
        assert (await box.shell("true")).ok


async def test_children_that_hoard_memory_with_a_low_score_do_not_take_the_runner(open_box: OpenBox) -> None:
    async with open_box(LITTLE) as box, open_box() as neighbour:
        outcome = await box.run(box.program(hoarding_memory_in_many_children), limits=Limits(wall_seconds=2))
        assert "memory" in outcome.limits_hit
        # Equals in score: the kernel takes the larger, which the runner never is. Should it, the outcome says so.
        assert outcome.sandbox_lives == box.sandbox.alive
        if outcome.sandbox_lives:
            assert (await box.shell("true")).ok
        else:
            assert outcome.ending == Stopped("memory")
            with pytest.raises(SandboxLostError):
                await box.shell("true")
        assert (await neighbour.shell("true")).ok


async def test_two_spinning_programs_get_one_cpu_together(box: Box) -> None:
    outcome = await box.shell("yes > /dev/null & yes > /dev/null", limits=Limits(wall_seconds=2))
    assert outcome.ending == Stopped("wall_time")
    assert outcome.cpu_seconds / outcome.wall_seconds < 1.15


async def test_half_a_cpu_is_half_a_cpu(open_box: OpenBox) -> None:
    async with open_box(SandboxSpec(limits=SandboxLimits(cpus=0.5))) as box:
        outcome = await box.shell("yes > /dev/null", limits=Limits(wall_seconds=2))
        assert outcome.cpu_seconds / outcome.wall_seconds < 0.6


async def test_cpu_time_ends_a_program_that_spins(box: Box) -> None:
    outcome = await box.run(python("while True: pass"), limits=Limits(wall_seconds=15, cpu_seconds=0.5))
    assert outcome.ending == Stopped("cpu_time")
    assert 0.4 < outcome.cpu_seconds < 2


async def test_a_fork_bomb_ends_with_its_run_and_neighbours_work(open_box: OpenBox, neighbour: Box) -> None:
    async with open_box() as box:
        bomb = asyncio.ensure_future(box.run(box.program(forking_without_end), limits=Limits(wall_seconds=2)))
        await asyncio.sleep(0.5)
        for _ in range(5):
            assert (await neighbour.shell("true")).ok
        outcome = await bomb
        assert outcome.ending == Stopped("wall_time")
        assert "pids" in outcome.limits_hit
        assert "pids" not in outcome.limits_guessed
        assert (await box.shell("ls -d /proc/[0-9]*")).stdout.count(b"\n") == 2  # the runner and ls


async def test_threads_count_as_processes(open_box: OpenBox) -> None:
    async with open_box() as box:
        assert 100 < await box.call(starting_threads_without_end) < 128
        assert (await box.shell("true")).ok


async def test_as_many_processes_as_a_skill_needs_can_be_made(box: Box) -> None:
    assert await box.call(using_many_processes_and_threads) == 0


async def test_open_files_end_at_the_limit(box: Box) -> None:
    answer, opened = await box.call(opening_files_without_end)
    assert (answer, opened) == ("EMFILE", 1024 - 3)


async def test_limits_can_be_lowered_and_not_raised(box: Box) -> None:
    assert set((await box.call(raising_limits)).values()) == {"refused"}


async def test_a_file_over_the_limit_ends_its_writer(open_box: OpenBox) -> None:
    async with open_box(SandboxSpec(limits=SandboxLimits(file_bytes=MIB))) as box:
        outcome = await box.run(
            Command(("dd", "if=/dev/zero", "of=work/large", "bs=1M", "count=2"), env={"PATH": "/bin"})
        )
        assert outcome.ending == Signalled(signal.SIGXFSZ)
        assert outcome.limits_hit == {"file_size"}
        assert (await box.shell("stat -c %s work/large")).stdout == b"1048576\n"
        assert (await box.shell("head -c 1M /dev/zero > work/fits")).ok


async def test_nobody_leaves_a_core_nor_has_the_host_take_one(box: Box) -> None:
    assert await box.call(dying_with_a_core) == []
    assert await box.call(limit_of_a_core) == [1, 1]


@only("bubblewrap")
async def test_terminals_that_one_box_takes_are_not_all(open_box: OpenBox, neighbour: Box) -> None:
    async with open_box() as box:
        taken = asyncio.ensure_future(box.run(box.program(taking_terminals), limits=Limits(wall_seconds=3)))
        await asyncio.sleep(1)
        assert await neighbour.call(opening_a_terminal) == "ok"
        await taken
        assert await box.call(opening_a_terminal) == "ok"


async def test_terminals_that_one_box_takes_leave_the_host_its_own_and_are_free_afterwards(
    open_box: OpenBox, neighbour: Box
) -> None:
    async with open_box() as box:
        taken = asyncio.ensure_future(box.run(box.program(taking_terminals), limits=Limits(wall_seconds=3)))
        await asyncio.sleep(1.5)
        os.close(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
        await taken
        assert await neighbour.call(opening_a_terminal) == "ok"


async def test_file_locks_end_with_their_run(open_box: OpenBox) -> None:
    async with open_box() as box:
        before = kernel_memory()
        outcome = await box.run(box.program(locking_without_end), limits=Limits(wall_seconds=2))
        assert outcome.ending == Stopped("wall_time")
        async with asyncio.timeout(10):
            while kernel_memory() - before > 8 * MIB:  # noqa: ASYNC110  # the kernel tells nobody
                await asyncio.sleep(0.1)
        assert (await box.shell("true")).ok


async def test_buffers_of_sockets_are_of_the_boxs_memory(open_box: OpenBox, neighbour: Box) -> None:
    async with open_box(LITTLE) as box:
        before = socket_memory()
        taken = asyncio.ensure_future(
            box.run(box.program(filling_sockets_that_nobody_reads), limits=Limits(wall_seconds=5))
        )
        await asyncio.sleep(4)
        assert socket_memory() - before < LITTLE.limits.memory + 16 * MIB
        assert await neighbour.call(talking_over_both_kinds_of_sockets) == [4 * MIB, 60_000]
        await taken
        assert await box.call(talking_over_both_kinds_of_sockets) == [4 * MIB, 60_000]


async def test_who_leaves_the_kernels_answers_unread_is_stopped_for_memory(open_box: OpenBox) -> None:
    async with open_box() as box:
        outcome = await box.run(
            box.program(leaving_answers_of_the_kernel_unread), limits=Limits(wall_seconds=14)
        )
        assert outcome.ending == Stopped("memory")
        assert outcome.limits_hit == {"memory"}
        assert (await box.shell("cat /proc/net/netlink | wc -l; sleep 1.2")).ok


async def test_inotify_that_one_box_takes_is_its_own(open_box: OpenBox, neighbour: Box) -> None:
    async with open_box() as box:
        taken = asyncio.ensure_future(box.run(box.program(taking_watches), limits=Limits(wall_seconds=3)))
        await asyncio.sleep(1)
        assert await neighbour.call(watching) == "ok"
        await taken


async def test_a_program_is_killed_for_memory_before_the_runner(box: Box) -> None:
    found = await box.call(lowering_the_score)
    runner = int((await box.shell("sleep 0.1; cat /proc/1/oom_score_adj")).stdout)
    # A daemon that may set any score sets the lowest one too, and then 500 is it.
    lowest = 0 if found.pop("0") == "ok" else 500
    assert (found.pop("start"), runner) == ("1000", lowest)
    assert found == {"-1000": "EACCES", "-1": "EACCES", "500": "ok", "1000": "ok"}

"""The runner has the uid of the programs it runs, and still none of them can reach it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.wire import Kind, encode
from sandbox_skills.spec import Command, Exited

if TYPE_CHECKING:
    from tests.security.conftest import Box, OpenBox

pytestmark = [pytest.mark.anyio]

SECRETS = ("auxv", "environ", "io", "maps", "pagemap", "smaps", "stack", "syscall")
"""What only a process's own uid may read, and nobody where it is undumpable."""

LINKS = ("cwd", "exe", "root", "fd/0", "fd/1", "fd/2", "ns/net")
DIRECTORIES = ("fd", "fdinfo", "map_files", "task/1/fd")


def looking_at(pid: str, secrets: list[str], links: list[str], directories: list[str]) -> dict[str, str]:
    import os
    from pathlib import Path

    from tests.security.inside import errno_of, opened

    top = Path(f"/proc/{pid}")
    found = {name: errno_of((top / name).read_bytes) for name in secrets}
    found |= {name: errno_of((top / name).readlink) for name in links}
    found |= {name: opened(str(top / name), os.O_RDONLY) for name in (*directories, "mem")}
    return found


def written_files_of(pid: str) -> list[str]:
    import os
    from contextlib import suppress
    from pathlib import Path

    top = Path(f"/proc/{pid}")
    files = [Path(where, name) for where, _, names in os.walk(top) for name in names if name not in "012"]
    written = []
    for file in files:
        # Opening alone proves nothing: some are open to all and refuse the write.
        with suppress(OSError), file.open("wb", buffering=0) as opened:
            opened.write(b"0")
            written.append(str(file.relative_to(top)))
    return written


def writing_into_the_channel() -> dict[str, str]:
    from tests.security.inside import opened

    return {name: opened(f"/proc/1/fd/{name}") for name in "0123456789"}


def writing_nonsense_into_the_channel() -> None:
    import os
    from contextlib import suppress

    for number in range(10):
        with suppress(OSError):
            descriptor = os.open(f"/proc/1/fd/{number}", os.O_WRONLY | os.O_NONBLOCK)
            os.write(descriptor, b"0" * 64)


def own_descriptors() -> list[str]:
    from pathlib import Path

    return sorted(entry.name for entry in Path("/proc/self/fd").iterdir())


def own_memory() -> str:
    import ctypes
    import os

    kept = ctypes.create_string_buffer(b"mine")
    descriptor = os.open("/proc/self/mem", os.O_RDONLY)
    return os.pread(descriptor, 4, ctypes.addressof(kept)).decode()


def seizing_the_runner() -> dict[str, str]:
    import os

    from tests.security.inside import errno_of, libc

    ptrace_seize = 0x4206
    handle = os.pidfd_open(1)
    return {
        "ptrace": errno_of(lambda: libc("ptrace", ptrace_seize, 1, 0, 0)),
        "process_vm_readv": errno_of(lambda: libc("process_vm_readv", 1, 0, 0, 0, 0, 0)),
        "process_vm_writev": errno_of(lambda: libc("process_vm_writev", 1, 0, 0, 0, 0, 0)),
        "pidfd_getfd": errno_of(lambda: libc("pidfd_getfd", handle, 1, 0)),
    }


def signalling_the_runner() -> None:
    import os
    import signal
    import subprocess

    bystander = subprocess.Popen(["sleep", "60"])
    handle = os.pidfd_open(1)
    for number in range(1, signal.NSIG):
        os.kill(1, number)
        signal.pidfd_send_signal(handle, number)
    os.kill(-1, signal.SIGKILL)  # everything but the runner and this program
    assert bystander.wait() == -signal.SIGKILL


def signalling_a_child() -> int:
    import subprocess

    child = subprocess.Popen(["sleep", "60"])
    child.terminate()
    return child.wait()


def burying_the_runner_in_orphans() -> int:
    import os

    count = 1000
    for _ in range(count):
        child = os.fork()
        if not child:
            if not os.fork():
                os._exit(0)
            os._exit(0)
        os.waitpid(child, 0)
    return count


async def test_memory_and_descriptors_of_the_runner_are_out_of_reach(box: Box) -> None:
    found = await box.call(looking_at, "1", [*SECRETS], [*LINKS], [*DIRECTORIES])
    assert set(found.values()) == {"EACCES"}, found


async def test_a_program_sees_its_own_memory_and_descriptors(box: Box) -> None:
    assert await box.call(own_memory) == "mine"
    found = await box.call(looking_at, "self", ["environ", "maps"], [*LINKS], ["fd", "fdinfo"])
    assert set(found.values()) == {"ok"}, found


async def test_a_program_gets_three_descriptors_and_none_of_the_runner(box: Box) -> None:
    # The fourth is the listing's own.
    assert await box.call(own_descriptors) == ["0", "1", "2", "3"]


async def test_nothing_of_the_runner_can_be_written(box: Box) -> None:
    assert await box.call(written_files_of, "1") == []


async def test_a_program_may_write_what_is_its_own(box: Box) -> None:
    assert {"comm", "coredump_filter", "timerslack_ns"} <= set(await box.call(written_files_of, "self"))


async def test_frames_cannot_be_written_into_the_channel(box: Box) -> None:
    assert set((await box.call(writing_into_the_channel)).values()) == {"EACCES"}


async def test_frames_printed_by_a_program_are_its_output(box: Box) -> None:
    forged = encode(Kind.ENDED, 1, {"exit": 0, "signal": None, "stopped": None}) * 3
    outcome = await box.run(Command(("sh", "-c", "cat; exit 7"), env={"PATH": "/usr/bin"}, stdin=forged))
    assert (outcome.ending, outcome.stdout) == (Exited(7), forged)


async def test_the_runner_cannot_be_traced_read_or_robbed(box: Box) -> None:
    assert set((await box.call(seizing_the_runner)).values()) == {"EPERM"}


async def test_the_runner_survives_every_signal(box: Box) -> None:
    await box.call(signalling_the_runner)
    assert box.sandbox.alive
    assert (await box.shell("true")).ok


async def test_a_program_may_signal_its_child(box: Box) -> None:
    assert await box.call(signalling_a_child) == -15


async def test_the_runner_buries_a_flood_of_orphans(open_box: OpenBox) -> None:
    async with open_box() as box:
        assert await box.call(burying_the_runner_in_orphans) == 1000
        assert (await box.shell("ls -d /proc/[0-9]*")).stdout.count(b"\n") == 2  # the runner and ls
        assert await box.sandbox.ping() < 1

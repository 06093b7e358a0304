"""What programs share memory and messages by belongs to one box, and is limited there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox_skills.spec import MIB

if TYPE_CHECKING:
    from tests.security.conftest import Box, OpenBox

pytestmark = [pytest.mark.anyio]

KEY = 0x5EC2E7


def sharing(key: int, flags: int) -> dict[str, str]:
    import ctypes
    import os

    from tests.security.inside import errno_of, libc

    name = ctypes.create_string_buffer(b"/canary")
    create = os.O_RDWR | (os.O_CREAT if flags else 0)
    return {
        "segment": errno_of(lambda: libc("shmget", key, 4096, flags)),
        "queue": errno_of(lambda: libc("msgget", key, flags)),
        "semaphores": errno_of(lambda: libc("semget", key, 1, flags)),
        "posix queue": errno_of(lambda: libc("mq_open", ctypes.addressof(name), create, 0o600, 0)),
        "posix memory": errno_of(lambda: os.close(os.open("/dev/shm/canary", create))),
    }


def speaking_to_a_child() -> list[int]:
    import multiprocessing
    from multiprocessing import shared_memory

    memory = shared_memory.SharedMemory(create=True, size=16)
    shared = memory.buf
    assert shared is not None
    queue: multiprocessing.SimpleQueue[int] = multiprocessing.get_context("fork").SimpleQueue()

    def child() -> None:
        shared[0] = 42
        queue.put(7)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    heard = [shared[0], queue.get()]
    memory.unlink()
    return heard


def hoarding() -> dict[str, int]:
    import ctypes
    from contextlib import suppress

    from tests.security.inside import libc

    dont_wait = 0o4000
    message = ctypes.create_string_buffer(b"\1", 8)  # its type, and not one byte
    made = {"queues": 0, "messages": 0, "sets": 0, "segments": 0}

    def fill(queue: int) -> None:
        with suppress(BlockingIOError):
            while True:
                libc("msgsnd", queue, ctypes.addressof(message), 0, dont_wait)
                made["messages"] += 1

    with suppress(OSError):
        while True:
            queue = libc("msgget", 0, 0o600)
            made["queues"] += 1
            fill(queue)
    with suppress(OSError):
        while True:
            libc("semget", 0, 250, 0o600)
            made["sets"] += 1
    while made["segments"] < 100:
        libc("shmget", 0, 1 << 20, 0o600)
        made["segments"] += 1
    return made


NOTHING = {"shm": 0, "msg": 0, "sem": 0, "posix": 0}


def left_of_ipc() -> dict[str, int]:
    from pathlib import Path

    files = {kind: Path("/proc/sysvipc", kind).read_text(encoding="utf-8") for kind in ("shm", "msg", "sem")}
    system_v = {kind: len(text.splitlines()) - 1 for kind, text in files.items()}
    return {**system_v, "posix": len(list(Path("/dev/mqueue").iterdir()))}


def hiding() -> dict[str, str]:
    import ctypes
    import os

    from tests.security.inside import errno_of, libc

    name = ctypes.create_string_buffer(b"/hidden")
    return {
        "queue": errno_of(lambda: libc("msgget", 7, 0o1000)),
        "semaphores": errno_of(lambda: libc("semget", 7, 1, 0o1000)),
        "posix queue": errno_of(lambda: libc("mq_open", ctypes.addressof(name), os.O_CREAT, 0, 0)),
    }


def memory_in_use() -> int:
    from contextlib import suppress
    from pathlib import Path

    for name in ("memory.current", "memory/memory.usage_in_bytes"):
        with suppress(OSError):
            return int(Path("/sys/fs/cgroup", name).read_text(encoding="ascii"))
    raise AssertionError("the cgroup says nothing of memory")


async def test_a_neighbour_shares_nothing_of_the_same_name(box: Box, neighbour: Box) -> None:
    made = await box.call(sharing, KEY, 0o1600)
    assert set(made.values()) == {"ok"}
    assert set((await neighbour.call(sharing, KEY, 0)).values()) == {"ENOENT"}


async def test_processes_of_a_box_share_memory_and_queues(box: Box) -> None:
    assert await box.call(speaking_to_a_child) == [42, 7]


async def test_system_v_objects_are_few_and_do_not_outlive_a_run(open_box: OpenBox) -> None:
    async with open_box() as box:
        before = await box.call(memory_in_use)
        made = await box.call(hoarding)
        assert (made["queues"], made["sets"]) == (8, 4)
        assert await box.call(left_of_ipc) == NOTHING
        assert await box.call(memory_in_use) - before < 2 * MIB
        assert await box.call(hoarding) == made


async def test_what_nobody_may_read_does_not_outlive_a_run(open_box: OpenBox) -> None:
    async with open_box() as box:
        assert set((await box.call(hiding)).values()) == {"ok"}
        assert await box.call(left_of_ipc) == NOTHING

"""What programs share things by is limited, ends with its run, and reaches no other box."""

from __future__ import annotations

import asyncio
import inspect
import json
import textwrap
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.engines.box import SHM_INODES
from sandbox_skills.spec import MIB, Command, Exited, Limits, SandboxSpec
from tests.contract.engines import ENFORCING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from sandbox_skills.engines.base import Engine, Sandbox
    from sandbox_skills.workspace.staging import SkillStore

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("engine", ENFORCING, indirect=True)]

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}

LIMITS = Limits(wall_seconds=15)

KEY = 0x5EC2E7


def program(function: Callable[..., object], *arguments: object) -> Command:
    """Returns a command that calls a function which needs nothing of this file, and prints its result as JSON."""
    source = textwrap.dedent(inspect.getsource(function))
    call = f"print(json.dumps({function.__name__}(*json.loads(sys.argv[1]))), flush=True)"
    text = f"from __future__ import annotations\nimport json, sys\n{source}\n{call}\n"
    return Command(("python3", "-c", text, json.dumps(arguments)), env=ENV)


async def called(sandbox: Sandbox, function: Callable[..., object], *arguments: object) -> Any:  # noqa: ANN401  # JSON
    outcome = await sandbox.run(program(function, *arguments), limits=LIMITS)
    assert outcome.ending == Exited(0), outcome
    return json.loads(outcome.stdout.splitlines()[-1])


@pytest.fixture
async def boxes(engine: Engine) -> AsyncIterator[tuple[Sandbox, Sandbox]]:
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(engine.open(SandboxSpec()))
        yield one, await stack.enter_async_context(engine.open(SandboxSpec()))


def filling_shared_memory_with_names() -> tuple[int, str]:
    import errno
    from pathlib import Path

    made = 0
    try:
        while True:
            Path(f"/dev/shm/{made}").touch()
            made += 1
    except OSError as error:
        return made, errno.errorcode[error.errno or 0]


async def test_shared_memory_has_so_many_names(boxes: tuple[Sandbox, Sandbox]) -> None:
    box, neighbour = boxes
    made, answer = await called(box, filling_shared_memory_with_names)
    assert (SHM_INODES - 10 < made < SHM_INODES, answer) == (True, "ENOSPC")
    assert await called(neighbour, filling_shared_memory_with_names) == [made, answer]


def making_segments(key: int, count: int, daemons: bool) -> list[int]:  # noqa: FBT001  # as JSON
    """Makes System V segments of a MiB, writes to each and, if asked to, leaves a process behind that uses them."""
    import ctypes
    import os
    import time

    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    made = []
    for number in range(count):
        segment = libc.shmget(key + number, 1 << 20, 0o1666)
        assert segment >= 0, os.strerror(ctypes.get_errno())
        place = libc.shmat(segment, None, 0)
        ctypes.memset(place, 1, 1 << 20)
        made.append(segment)
    if daemons and not os.fork():
        os.setsid()
        os.close(1)
        os.close(2)
        time.sleep(60)
    return made


def segments() -> int:
    from pathlib import Path

    return len(Path("/proc/sysvipc/shm").read_text(encoding="ascii").splitlines()) - 1


def memory_in_use() -> int:
    from pathlib import Path

    (file,) = [
        path
        for path in (
            Path("/sys/fs/cgroup/memory.current"),
            Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
        )
        if path.exists()
    ]
    return int(file.read_text(encoding="ascii"))


@pytest.mark.parametrize("daemons", [False, True], ids=["let go", "held by a process that was left"])
async def test_system_v_memory_does_not_outlive_its_run(
    boxes: tuple[Sandbox, Sandbox], *, daemons: bool
) -> None:
    box, neighbour = boxes
    before = await called(box, memory_in_use)
    for _ in range(3):
        outcome = await box.run(program(making_segments, KEY, 40, daemons), limits=LIMITS)
        assert outcome.ending == Exited(0), outcome
        assert await called(box, segments) == 0
    assert await called(box, memory_in_use) - before < 8 * MIB
    assert await called(neighbour, segments) == 0


def looking_for_a_segment(key: int) -> bool:
    import ctypes

    return bool(ctypes.CDLL(None).shmget(key, 4096, 0) >= 0)


def making_one_that_stays(key: int) -> bool:
    import ctypes
    import time

    found = bool(ctypes.CDLL(None).shmget(key, 4096, 0o1666) >= 0)
    print("made", flush=True)
    time.sleep(60)
    return found


async def test_system_v_memory_of_a_neighbour_is_not_there(boxes: tuple[Sandbox, Sandbox]) -> None:
    box, neighbour = boxes
    made = asyncio.Event()
    command = program(making_one_that_stays, KEY)
    async with box.start(command, limits=LIMITS, on_output=lambda *_: made.set()) as process:
        await made.wait()
        assert await called(neighbour, looking_for_a_segment, KEY) is False
        process.kill()


def locking(more: list[str]) -> list[str]:
    """Takes locks on all that a box can see, and tells which another has; keeps them until its input ends."""
    import fcntl
    import os
    import struct
    import sys
    from contextlib import suppress
    from pathlib import Path

    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    found = {line.split()[4] for line in text.splitlines()}
    found.update(("/proc/version", "/proc/sys/kernel/ostype", "/proc/sys/kernel/random/uuid", *more))
    for top in ("/dev", "/etc", "/opt", "/sys", "/usr/bin", "/usr/lib/python3"):
        for folder, _, names in os.walk(top):
            found.update((folder, *(f"{folder}/{name}" for name in names)))
    whole = struct.pack("hhqqi", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
    seen: set[tuple[int, int]] = set()
    busy: list[str] = []
    for place in sorted(found):
        with suppress(OSError):
            descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
            status = os.fstat(descriptor)
            if (status.st_dev, status.st_ino) in seen or len(seen) > 900:
                os.close(descriptor)
                continue
            seen.add((status.st_dev, status.st_ino))
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, whole)
            except BlockingIOError:
                busy.append(place)
    print(json.dumps([len(seen), busy]), flush=True)
    sys.stdin.read()
    return busy


async def test_a_lock_tells_another_box_nothing(
    engine: Engine, boxes: tuple[Sandbox, Sandbox], store: SkillStore, tmp_path: Path
) -> None:
    box, neighbour = boxes
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "SKILL.md").write_text("the same text", encoding="utf-8")
    mine = str((await store.stage(tmp_path / "one", tenant="one")).box_path)
    theirs = str((await store.stage(tmp_path / "other", tenant="other")).box_path)
    held: asyncio.Queue[bytes] = asyncio.Queue()
    holder = program(locking, [mine, f"{mine}/SKILL.md"])
    async with box.start(holder, limits=LIMITS, on_output=lambda _, data: held.put_nowait(data)) as process:
        taken, busy = json.loads(await held.get())
        assert (taken > 300, busy) == (True, [])
        assert await called(neighbour, locking, [theirs, f"{theirs}/SKILL.md"]) == []
        # What locks can tell is told by this very program: of one tenant's copy, as the store's own text says.
        assert await called(neighbour, locking, [mine, f"{mine}/SKILL.md"]) == [mine, f"{mine}/SKILL.md"]
        process.close_stdin()
        assert (await process.wait()).ending == Exited(0)

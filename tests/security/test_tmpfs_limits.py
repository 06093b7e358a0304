"""Where a box may write: so many bytes and inodes, none of them on the host's disk."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.box import INODE_BYTES, MEMORY_RESERVE, SHM_INODES, TMP_INODES
from sandbox_skills.errors import WorkspaceFullError
from sandbox_skills.spec import MIB, Exited, SandboxLimits, SandboxSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.security.conftest import Box, OpenBox

pytestmark = [pytest.mark.anyio]

SMALL = SandboxLimits(
    memory=128 * MIB, workspace_bytes=8 * MIB, workspace_inodes=500, tmp_bytes=4 * MIB, shm_bytes=2 * MIB
)
"""Quickly filled. Each number differs, so that a mix-up shows."""

TIGHTEST_BYTES = 40 * MIB
TIGHTEST_INODES = 4096 + TMP_INODES + SHM_INODES
TIGHTEST = SandboxLimits(
    memory=TIGHTEST_BYTES + TIGHTEST_INODES * INODE_BYTES + MEMORY_RESERVE,
    workspace_bytes=24 * MIB,
    workspace_inodes=4096,
    tmp_bytes=12 * MIB,
    shm_bytes=4 * MIB,
)
"""As large as the memory limit lets them be, bytes and inodes together."""

PLACES = {
    "/workspace": (SMALL.workspace_bytes, SMALL.workspace_inodes),
    "/tmp": (SMALL.tmp_bytes, TMP_INODES),
    "/dev/shm": (SMALL.shm_bytes, SHM_INODES),
}


def filling_with_bytes(place: str) -> tuple[str, int]:
    from pathlib import Path

    from tests.security.inside import errno_of

    path = Path(place, "filler")

    def fill() -> None:
        with path.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(64 * 1024))

    answer = errno_of(fill)
    size = path.stat().st_size
    path.unlink()
    return answer, size


def filling_with_files(place: str) -> tuple[str, int]:
    import shutil
    from pathlib import Path

    from tests.security.inside import errno_of

    top = Path(place, "fillers")
    top.mkdir()
    made = 0

    def fill() -> None:
        nonlocal made
        while True:
            (top / str(made)).touch()
            made += 1

    answer = errno_of(fill)
    shutil.rmtree(top)
    return answer, made


def asking_for_more_at_once(place: str) -> dict[str, str]:
    import os
    from pathlib import Path

    from tests.security.inside import errno_of

    path = Path(place, "large")
    with path.open("wb") as file:
        found = {"fallocate": errno_of(lambda: os.posix_fallocate(file.fileno(), 0, 200 << 20))}
        found["beyond the file limit"] = errno_of(lambda: os.truncate(file.fileno(), 300 << 20))
        found["sparse"] = errno_of(lambda: os.truncate(file.fileno(), 200 << 20))
        found["blocks"] = str(os.fstat(file.fileno()).st_blocks)
    path.unlink()
    return found


def mount_flags(place: str) -> dict[str, bool]:
    import os

    flags = os.statvfs(place).f_flag
    return {
        "nosuid": bool(flags & os.ST_NOSUID),
        "nodev": bool(flags & os.ST_NODEV),
        "noexec": bool(flags & os.ST_NOEXEC),
    }


def running_a_script_in(place: str) -> str:
    import subprocess
    from pathlib import Path

    script = Path(place, "script")
    script.write_text("#!/bin/sh\necho ran\n", encoding="utf-8")
    script.chmod(0o755)
    return subprocess.run([script], capture_output=True, text=True, check=True).stdout


def filling_everything() -> dict[str, list[int]]:
    import os
    from contextlib import suppress
    from pathlib import Path

    left = {}
    for place in ("/workspace", "/tmp", "/dev/shm"):
        count = 0
        with suppress(OSError):
            while True:
                Path(place, "n" * 240 + str(count)).touch()  # the longest names take the most memory
                count += 1
        with suppress(OSError), Path(place, "n" * 240 + "0").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(64 * 1024))
        room = os.statvfs(place)
        left[place] = [room.f_bavail, room.f_ffree]
    return left


async def some_bytes() -> AsyncIterator[bytes]:
    yield bytes(1024)


@pytest.fixture(scope="module")
async def small_box(open_box: OpenBox) -> AsyncIterator[Box]:
    async with open_box(SandboxSpec(limits=SMALL)) as box:
        yield box


@pytest.mark.parametrize("place", PLACES)
async def test_bytes_end_at_the_limit(small_box: Box, place: str) -> None:
    answer, size = await small_box.call(filling_with_bytes, place)
    limit, _ = PLACES[place]
    assert answer == "ENOSPC"
    assert limit - MIB < size <= limit


@pytest.mark.parametrize("place", PLACES)
async def test_inodes_end_at_the_limit(small_box: Box, place: str) -> None:
    answer, made = await small_box.call(filling_with_files, place)
    _, limit = PLACES[place]
    assert answer == "ENOSPC"
    assert limit - 50 < made < limit


@pytest.mark.parametrize("place", PLACES)
async def test_nothing_is_promised_beyond_the_limit(small_box: Box, place: str) -> None:
    found = await small_box.call(asking_for_more_at_once, place)
    # A sparse file has a size but no bytes.
    assert found == {"fallocate": "ENOSPC", "beyond the file limit": "EFBIG", "sparse": "ok", "blocks": "0"}


@pytest.mark.parametrize("place", PLACES)
async def test_set_id_bits_and_devices_mean_nothing_there(small_box: Box, place: str) -> None:
    assert await small_box.call(mount_flags, place) == {"nosuid": True, "nodev": True, "noexec": False}


@pytest.mark.parametrize("place", PLACES)
async def test_a_script_runs_from_there(small_box: Box, place: str) -> None:
    assert await small_box.call(running_a_script_in, place) == "ran\n"


async def test_a_full_workspace_is_told_and_can_be_emptied(small_box: Box) -> None:
    outcome = await small_box.shell("cat /dev/zero > /workspace/work/filler")
    assert outcome.ending == Exited(1)
    assert "disk" in outcome.limits_hit
    with pytest.raises(WorkspaceFullError):
        await small_box.sandbox.put(PurePosixPath("work/more"), some_bytes())
    after = await small_box.shell("rm /workspace/work/filler")
    assert (after.ok, after.limits_hit) == (True, frozenset())
    assert await small_box.sandbox.put(PurePosixPath("work/more"), some_bytes()) == 1024


async def test_a_workspace_without_inodes_is_told_and_can_be_emptied(small_box: Box) -> None:
    outcome = await small_box.shell("mkdir work/many && cd work/many && touch {1..600}")
    assert outcome.ending == Exited(1)
    assert "inodes" in outcome.limits_hit
    assert "disk" not in outcome.limits_hit
    with pytest.raises(WorkspaceFullError):
        await small_box.sandbox.put(PurePosixPath("work/other"), some_bytes())
    after = await small_box.shell("rm -r work/many")
    assert (after.ok, after.limits_hit) == (True, frozenset())


async def test_a_box_answers_with_everything_full(open_box: OpenBox) -> None:
    async with open_box(SandboxSpec(limits=TIGHTEST)) as box:
        before = box.outside.root_state()
        left = await box.call(filling_everything)
        assert set(map(tuple, left.values())) == {(0, 0)}
        assert await box.sandbox.ping() < 1
        assert (await box.shell("python3 -c 'print(6 * 7)'")).stdout == b"42\n"
        with pytest.raises(WorkspaceFullError):
            await box.sandbox.put(PurePosixPath("work/more"), some_bytes())
        assert box.outside.root_state() == before, "what fills a box is in its memory, and nothing on a disk"
        assert (await box.shell("rm /workspace/nn* || find /workspace /tmp /dev/shm -name 'nn*' -delete")).ok
        assert await box.sandbox.put(PurePosixPath("work/more"), some_bytes()) == 1024

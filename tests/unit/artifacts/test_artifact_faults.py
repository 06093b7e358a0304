"""The local store: what is left of what went wrong."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.artifacts import (
    LocalArtifactStore,
    RetentionPolicy,
)
from sandbox_skills.artifacts.database import writing
from sandbox_skills.errors import (
    ArtifactStoreError,
    SettingsError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from sandbox_skills.artifacts import ArtifactStore
    from tests.unit.artifacts.conftest import Disk

pytestmark = pytest.mark.anyio

NOBODY = 65534


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def until(holds: Callable[[], bool]) -> None:
    """Waits for it: a thread that outlives its task ends with what it has in hand."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110  # nobody is told
            await asyncio.sleep(0.02)


async def read(store: ArtifactStore, name: str, version: int | None = None) -> bytes:
    return (await store.get(name, version, max_bytes=1 << 30, tenant="t"))[1]


async def test_a_stream_that_fails_leaves_nothing_and_its_error_is_told(
    artifacts: ArtifactStore, disk: Disk
) -> None:
    async def broken() -> AsyncGenerator[bytes]:
        yield bytes(2_000_000)
        raise ConnectionResetError(errno.ECONNRESET, "theirs")

    with pytest.raises(ConnectionResetError, match="theirs"):
        await artifacts.save("x", broken(), tenant="t")
    assert not disk.unfinished()
    assert not disk.contents()
    assert (await artifacts.save("x", b"", tenant="t")).version == 0


async def test_a_cancel_at_any_moment_leaves_a_whole_version_or_nothing(
    artifacts: ArtifactStore, disk: Disk
) -> None:
    descriptors = open_descriptors()
    for number in range(40):
        task = asyncio.ensure_future(artifacts.save("x", bytes([number]) * 3_000_000, tenant="t"))
        await asyncio.sleep(number * 0.0005)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    await until(lambda: not disk.unfinished() and open_descriptors() <= descriptors)
    for one in (await artifacts.list(all_versions=True, tenant="t")).artifacts:
        assert len(await read(artifacts, "x", one.version)) == 3_000_000
    await artifacts.retain(RetentionPolicy(), tenant="t")
    assert len(disk.contents()) == (await artifacts.usage(tenant="t")).count


async def test_a_cancelled_read_holds_no_descriptor(artifacts: ArtifactStore) -> None:
    await artifacts.save("x", bytes(3_000_000), tenant="t")
    descriptors = open_descriptors()

    async def reading() -> None:
        async with artifacts.open("x", tenant="t") as reader:
            async for _ in reader.chunks():
                pass

    for number in range(30):
        task = asyncio.ensure_future(reading())
        await asyncio.sleep(number * 0.0002)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    await until(lambda: open_descriptors() <= descriptors)


async def test_everything_is_the_owners_alone(artifacts: ArtifactStore, disk: Disk) -> None:
    old = os.umask(0)
    try:
        await artifacts.save("x", b"1", tenant="t")
    finally:
        os.umask(old)
    for path in disk.everything():
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o400 if path.parent.name == "blobs" else 0o600), path


async def test_retain_removes_leftovers_but_not_what_is_being_written(
    artifacts: ArtifactStore, disk: Disk
) -> None:
    await artifacts.save("x", b"1", tenant="t")
    (disk.tenant() / "temporary" / "dead").write_bytes(b"half")
    (disk.tenant() / "blobs" / ("0" * 64)).write_bytes(b"orphan")
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncGenerator[bytes]:
        yield bytes(2_000_000)
        begun.set()
        await goes_on.wait()
        yield b"end"

    task = asyncio.ensure_future(artifacts.save("y", slow(), tenant="t"))
    await begun.wait()
    assert (await artifacts.retain(RetentionPolicy(), tenant="t")).leftovers == 2
    assert len(disk.unfinished()) == 1
    goes_on.set()
    assert (await task).size == 2_000_003
    assert len(disk.contents()) == 2


async def test_a_database_that_is_damaged_is_told_and_other_tenants_go_on(
    artifacts: ArtifactStore, disk: Disk
) -> None:
    await artifacts.save("x", b"1", tenant="t")
    path = disk.database()
    await artifacts.save("x", b"1", tenant="u")
    whole = path.read_bytes()
    for damaged in (b"no database at all" * 300, whole[:5000], whole[:4096] + b"\xff" * (len(whole) - 4096)):
        path.write_bytes(damaged)
        with pytest.raises(ArtifactStoreError) as caught:
            await artifacts.list(tenant="t")
        assert str(path) in caught.value.message
        with pytest.raises(ArtifactStoreError):
            await artifacts.save("x", b"2", tenant="t")
        assert "backup" in caught.value.hint
        assert not disk.unfinished()
    path.write_bytes(whole)
    assert await read(artifacts, "x") == b"1"
    assert (await artifacts.list(tenant="u")).artifacts


async def test_a_database_of_a_later_version_is_left_alone(artifacts: ArtifactStore, disk: Disk) -> None:
    await artifacts.save("x", b"1", tenant="t")
    with writing(disk.database()) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(ArtifactStoreError, match="later version") as caught:
        await artifacts.list(tenant="t")
    assert "update" in caught.value.hint


@pytest.mark.parametrize("damage", [b"", b"1", b"two"])
async def test_a_damaged_content_is_never_given_as_whole_and_saving_it_again_repairs_it(
    artifacts: ArtifactStore, disk: Disk, damage: bytes
) -> None:
    await artifacts.save("x", b"one", tenant="t")
    blob = disk.content()
    blob.chmod(0o600)
    blob.write_bytes(damage)
    with pytest.raises(ArtifactStoreError, match="damaged"):
        await read(artifacts, "x")
    await artifacts.save("y", b"one", tenant="t")
    assert await read(artifacts, "x") == b"one"


async def test_a_missing_content_is_told(artifacts: ArtifactStore, disk: Disk) -> None:
    await artifacts.save("x", b"one", tenant="t")
    blob = disk.content()
    blob.unlink()
    with pytest.raises(ArtifactStoreError, match="missing"):
        await read(artifacts, "x")


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that others can reach, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="artifacts-test-") as path:
        Path(path).chmod(0o755)
        yield Path(path)


@pytest.fixture
def as_nobody(open_directory: Path) -> Iterator[None]:
    """Runs a test without the rights of root, which no mode keeps out."""
    os.chown(open_directory, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    yield
    os.seteuid(0)


def make_read_only(directory: Path) -> None:
    for path in [directory, *directory.rglob("*")]:
        path.chmod(0o500 if path.is_dir() else 0o400)


@pytest.mark.root
@pytest.mark.usefixtures("as_nobody")
async def test_a_read_only_store_can_be_read_and_says_why_it_cannot_be_written(open_directory: Path) -> None:
    root = open_directory / "store"
    store = LocalArtifactStore(root)
    await store.save("x", b"1", tenant="t")
    make_read_only(open_directory)
    assert await read(store, "x") == b"1"
    for change in (store.save("x", b"2", tenant="t"), store.delete("x", tenant="t")):
        with pytest.raises(ArtifactStoreError) as caught:
            await change
        assert str(root) in caught.value.message
    with pytest.raises(ArtifactStoreError, match="cannot be made"):
        await LocalArtifactStore(open_directory / "other").save("x", b"", tenant="t")


@pytest.mark.root
@pytest.mark.usefixtures("as_nobody")
async def test_a_store_of_another_user_is_refused() -> None:
    with pytest.raises(SettingsError, match="another user"):
        LocalArtifactStore(Path("/var"))


async def test_a_root_that_cannot_be_a_directory_is_told() -> None:
    with pytest.raises(SettingsError, match="/dev/null/data"):
        LocalArtifactStore(Path("/dev/null/data"))

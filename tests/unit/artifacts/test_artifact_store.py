"""The local store: what it keeps, finds, bounds and refuses."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.artifacts import (
    MAX_PAGE,
    Artifact,
    ArtifactMetadata,
    ArtifactQuota,
    LocalArtifactStore,
    RetentionPolicy,
    Usage,
    parse_ref,
    records,
)
from sandbox_skills.artifacts.database import writing
from sandbox_skills.errors import (
    ArtifactNameError,
    ArtifactNotFoundError,
    InputError,
    PathEscapeError,
    QuotaError,
    RequestError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sandbox_skills.artifacts import ArtifactStore
    from tests.unit.artifacts.conftest import Clock, Disk

pytestmark = pytest.mark.anyio


async def stream(*chunks: bytes) -> AsyncGenerator[bytes]:
    for chunk in chunks:
        await asyncio.sleep(0)
        yield chunk


async def read(store: ArtifactStore, name: str, version: int | None = None) -> bytes:
    return (await store.get(name, version, max_bytes=1 << 30, tenant="t"))[1]


async def test_an_artifact_has_what_was_said_and_what_it_is(artifacts: ArtifactStore, clock: Clock) -> None:
    said = ArtifactMetadata("text/csv", skill="csv", skill_digest="d1", run_id="r1")
    saved = await artifacts.save("out/x.csv", b"1,2", said, tenant="t")
    digest = hashlib.sha256(b"1,2").hexdigest()
    assert saved == Artifact("out/x.csv", 0, "text/csv", 3, digest, "csv", "d1", "r1", clock.now)
    assert await artifacts.stat("out/x.csv", tenant="t") == saved
    assert saved.ref == "artifact://out/x.csv@0"
    assert await artifacts.stat(*parse_ref(saved.ref), tenant="t") == saved
    assert saved.as_dict()["ref"] == saved.ref


async def test_bytes_streams_and_host_files_are_kept_alike(artifacts: ArtifactStore, tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    (tmp_path / "file").write_bytes(data)
    small = stream(*(data[start : start + 1000] for start in range(0, len(data), 1000)))
    for content in (data, stream(data), small, tmp_path / "file"):
        await artifacts.save("x", content, tenant="t")
    assert [await read(artifacts, "x", version) == data for version in range(4)] == [True] * 4


async def test_an_empty_artifact_is_one(artifacts: ArtifactStore) -> None:
    for empty in (b"", stream(), stream(b"", b"")):
        assert (await artifacts.save("x", empty, tenant="t")).size == 0
        assert await read(artifacts, "x") == b""


async def test_versions_count_from_0_for_each_name(artifacts: ArtifactStore) -> None:
    saved = [await artifacts.save(name, b"", tenant="t") for name in ("a", "b", "a", "a")]
    assert [(one.name, one.version) for one in saved] == [("a", 0), ("b", 0), ("a", 1), ("a", 2)]


async def test_no_version_is_given_twice_whatever_is_deleted(artifacts: ArtifactStore) -> None:
    for content in (b"0", b"1"):
        await artifacts.save("a", content, tenant="t")
    await artifacts.delete("a", 1, tenant="t")
    assert (await artifacts.stat("a", tenant="t")).version == 0
    assert (await artifacts.save("a", b"2", tenant="t")).version == 2
    await artifacts.delete("a", tenant="t")
    assert (await artifacts.save("a", b"3", tenant="t")).version == 3


async def test_names_that_were_emptied_are_forgotten_oldest_first(
    artifacts: ArtifactStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "REMEMBERED_NAMES", 2)
    for name in ("kept", "a", "b", "c"):
        await artifacts.save(name, b"", tenant="t")
    for name in ("a", "b", "c"):
        clock.now += 1
        await artifacts.delete(name, tenant="t")
    versions = [(await artifacts.save(name, b"", tenant="t")).version for name in ("kept", "a", "b", "c")]
    assert versions == [1, 0, 1, 1]


async def test_equal_contents_lie_there_once_and_go_with_the_last_version(
    artifacts: ArtifactStore, disk: Disk
) -> None:
    for name in ("a", "b"):
        await artifacts.save(name, b"same", tenant="t")
    assert await artifacts.usage(tenant="t") == Usage(names=2, count=2, bytes=8, stored_bytes=4)
    assert len(disk.contents()) == 1
    await artifacts.delete("a", tenant="t")
    assert await read(artifacts, "b") == b"same"
    await artifacts.delete("b", tenant="t")
    assert not disk.contents()
    assert await artifacts.usage(tenant="t") == Usage()


async def test_tenants_share_nothing(artifacts: ArtifactStore, disk: Disk) -> None:
    await artifacts.save("x", b"same", tenant="t")
    for other in ("u", "T", "t/", "../t", "\0", "\ud800"):
        with pytest.raises(ArtifactNotFoundError):
            await artifacts.stat("x", tenant=other)
        assert (await artifacts.list(tenant=other)).artifacts == ()
        assert await artifacts.usage(tenant=other) == Usage()
        assert not (await artifacts.retain(RetentionPolicy(max_count=0), tenant=other)).artifacts
    assert len(disk.tenants()) == 1, "looking makes no directory"
    await artifacts.save("x", b"same", tenant="u")
    await artifacts.delete("x", tenant="u")
    assert await read(artifacts, "x") == b"same"
    with pytest.raises(RequestError):
        await artifacts.usage(tenant="")


async def test_what_is_not_there_is_not_found(artifacts: ArtifactStore) -> None:
    await artifacts.save("x", b"", tenant="t")
    for name, version in (("y", None), ("x", 1), ("x", -1), ("x", 1 << 70)):
        with pytest.raises(ArtifactNotFoundError):
            await artifacts.stat(name, version, tenant="t")
        with pytest.raises(ArtifactNotFoundError):
            await artifacts.get(name, version, max_bytes=1, tenant="t")
        with pytest.raises(ArtifactNotFoundError):
            await artifacts.delete(name, version, tenant="t")


async def test_every_method_checks_the_name(artifacts: ArtifactStore, disk: Disk) -> None:
    with pytest.raises(PathEscapeError):
        await artifacts.save("../x", b"", tenant="t")
    for name in ("", "a\nb"):
        with pytest.raises(ArtifactNameError):
            await artifacts.save(name, b"", tenant="t")
        with pytest.raises(ArtifactNameError):
            await artifacts.get(name, max_bytes=1, tenant="t")
        with pytest.raises(ArtifactNameError):
            await artifacts.delete(name, tenant="t")
    with pytest.raises(RequestError, match="mime_type"):
        await artifacts.save("x", b"", ArtifactMetadata(mime_type="text/plain\r\nX: y"), tenant="t")
    with pytest.raises(ArtifactNameError):
        await artifacts.list("\0", tenant="t")
    assert not disk.tenants()


@pytest.mark.parametrize(
    ("offset", "length", "expected"),
    [(0, None, b"0123456789"), (3, 4, b"3456"), (8, 5, b"89"), (10, None, b""), (99, 1, b""), (2, 0, b"")],
)
async def test_a_range_is_what_there_is_of_it(
    artifacts: ArtifactStore, offset: int, length: int | None, expected: bytes
) -> None:
    await artifacts.save("x", b"0123456789", tenant="t")
    async with artifacts.open("x", tenant="t") as reader:
        assert b"".join([chunk async for chunk in reader.chunks(offset, length)]) == expected


async def test_a_range_cannot_be_negative(artifacts: ArtifactStore) -> None:
    await artifacts.save("x", b"0", tenant="t")
    async with artifacts.open("x", tenant="t") as reader:
        for offset, length in ((-1, None), (0, -1)):
            with pytest.raises(RequestError):
                await anext(reader.chunks(offset, length))


async def test_an_open_artifact_can_be_read_after_it_was_deleted(artifacts: ArtifactStore) -> None:
    await artifacts.save("x", b"still", tenant="t")
    async with artifacts.open("x", tenant="t") as reader:
        await artifacts.delete("x", tenant="t")
        assert [chunk async for chunk in reader.chunks()] == [b"still"]


async def test_a_listing_is_the_latest_by_name_or_every_version(artifacts: ArtifactStore) -> None:
    for name in ("b/2", "a", "b/1", "b/2", "user:x"):
        await artifacts.save(name, b"", tenant="t")
    latest = await artifacts.list(tenant="t")
    assert [one.ref for one in latest.artifacts] == [
        f"artifact://{ref}" for ref in ("a@0", "b/1@0", "b/2@1", "user:x@0")
    ]
    every = await artifacts.list("b/", all_versions=True, tenant="t")
    assert [one.ref for one in every.artifacts] == [
        f"artifact://{ref}" for ref in ("b/1@0", "b/2@0", "b/2@1")
    ]
    assert every.next is None


@pytest.mark.parametrize("prefix", ["%", "_", "b_", "B", "'", "a\U0010ffff", "é"])
async def test_a_prefix_is_plain_text(artifacts: ArtifactStore, prefix: str) -> None:
    for name in ("b/1", "ab", "%x", "_x", "'x", "a\U0010ffffb", "éa"):
        await artifacts.save(name, b"", tenant="t")
    names = [one.name for one in (await artifacts.list(prefix, tenant="t")).artifacts]
    every = [one.name for one in (await artifacts.list(tenant="t")).artifacts]
    assert names == [name for name in every if name.startswith(prefix)]


@pytest.mark.parametrize("all_versions", [False, True])
async def test_pages_together_are_the_listing(artifacts: ArtifactStore, *, all_versions: bool) -> None:
    for name in "aabbbc":
        await artifacts.save(name, b"", tenant="t")
    whole = await artifacts.list(all_versions=all_versions, tenant="t")
    found: list[Artifact] = []
    after = None
    while True:
        page = await artifacts.list(all_versions=all_versions, after=after, limit=2, tenant="t")
        assert len(page.artifacts) <= 2
        found += page.artifacts
        if (after := page.next) is None:
            break
    assert tuple(found) == whole.artifacts
    assert len(found) == (6 if all_versions else 3)


async def test_a_page_of_latest_names_no_name_again_that_was_saved_meanwhile(
    artifacts: ArtifactStore,
) -> None:
    for name in "ab":
        await artifacts.save(name, b"", tenant="t")
    page = await artifacts.list(limit=1, tenant="t")
    await artifacts.save("a", b"", tenant="t")
    rest = await artifacts.list(after=page.next, tenant="t")
    assert [one.name for one in rest.artifacts] == ["b"]


async def test_a_thousand_artifacts_are_listed_at_once(artifacts: ArtifactStore, disk: Disk) -> None:
    one = await artifacts.save("n", b"", tenant="t")
    with writing(disk.database()) as connection:
        for number in range(1000):
            for version in range(3):
                records.insert(connection, replace(one, name=f"n{number:04}", version=version))
    started = time.process_time()
    page = await artifacts.list("n0", limit=MAX_PAGE, tenant="t")
    assert time.process_time() - started < 0.5
    assert len(page.artifacts) == 1000
    assert {found.version for found in page.artifacts} == {2}
    assert (await artifacts.list(limit=10**9, all_versions=True, tenant="t")).next is not None


async def test_a_quota_refuses_before_anything_is_written(root: Path, disk: Disk, tmp_path: Path) -> None:
    store = LocalArtifactStore(root, quota=ArtifactQuota(count=2, bytes=10))
    (tmp_path / "file").write_bytes(b"x" * 11)
    for too_much in (b"x" * 11, tmp_path / "file"):
        with pytest.raises(QuotaError):
            await store.save("x", too_much, tenant="t")
    assert not disk.tenants()
    await store.save("x", b"x" * 10, tenant="t")
    with pytest.raises(QuotaError, match="0 of the 10"):
        await store.save("x", b"y", tenant="t")
    await store.save("x", b"", tenant="t")
    with pytest.raises(QuotaError, match="2 artifacts"):
        await store.save("x", b"", tenant="t")
    await store.save("x", b"other", tenant="u")
    await store.delete("x", 0, tenant="t")
    assert (await store.save("x", b"x" * 10, tenant="t")).version == 2


async def test_a_stream_over_the_quota_ends_there_and_leaves_nothing(root: Path, disk: Disk) -> None:
    store = LocalArtifactStore(root, quota=ArtifactQuota(bytes=5_000_000))
    given = 0

    async def endless() -> AsyncGenerator[bytes]:
        nonlocal given
        while True:
            given += 1_000_000
            yield bytes(1_000_000)

    with pytest.raises(QuotaError):
        await store.save("x", endless(), tenant="t")
    assert given <= 8_000_000
    assert not disk.unfinished()
    assert not disk.contents()
    assert await store.usage(tenant="t") == Usage()


async def test_saves_at_once_do_not_pass_the_quota_together(root: Path, disk: Disk) -> None:
    store = LocalArtifactStore(root, quota=ArtifactQuota(bytes=10))
    saves = (store.save(f"x{number}", bytes([number]) * 6, tenant="t") for number in range(8))
    done = await asyncio.gather(*saves, return_exceptions=True)
    assert sum(isinstance(one, Artifact) for one in done) == 1
    assert sum(isinstance(one, QuotaError) for one in done) == 7
    assert not disk.unfinished()
    assert len(disk.contents()) == 1


async def test_host_files_that_are_none_are_refused(artifacts: ArtifactStore, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "fifo")
    for name in ("missing", "link", "fifo", "", "file/x"):
        with pytest.raises(InputError):
            await artifacts.save("x", tmp_path / name, tenant="t")
    with pytest.raises(InputError):
        await artifacts.save("x", Path("/dev/zero"), tenant="t")


async def test_retain_takes_by_policy_and_tells(artifacts: ArtifactStore, disk: Disk, clock: Clock) -> None:
    for content in (b"0", b"11", b"222"):
        await artifacts.save("x", content, tenant="t")
        clock.now += 10
    removed = await artifacts.retain(RetentionPolicy(max_count=2), tenant="t")
    assert ([one.version for one in removed.artifacts], removed.bytes, removed.leftovers) == ([0], 1, 0)
    removed = await artifacts.retain(RetentionPolicy(max_bytes=0), tenant="t")
    assert [one.version for one in removed.artifacts] == [1]
    clock.now += 100
    removed = await artifacts.retain(RetentionPolicy(max_age=50), tenant="t")
    assert [one.version for one in removed.artifacts] == [2]
    assert not disk.contents()
    assert (await artifacts.save("x", b"", tenant="t")).version == 3

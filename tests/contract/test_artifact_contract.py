"""What `ArtifactStore` promises, of every implementation: the fourth of the interfaces that the daemon stands on."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from dataclasses import asdict
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.artifacts import Artifact, ArtifactMetadata, RetentionPolicy, parse_ref
from sandbox_skills.errors import ArtifactNameError, ArtifactNotFoundError, PathEscapeError, QuotaError
from tests.contract.artifact_stores import OPENERS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import Path

    from sandbox_skills.artifacts import ArtifactStore
    from tests.contract.artifact_stores import Keeping

pytestmark = pytest.mark.anyio

FEW = 8
"""Versions that the usual tenant may keep."""


@pytest.fixture(params=sorted(OPENERS))
async def keeping(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Keeping]:
    async with OPENERS[request.param](tmp_path) as opened:
        yield opened


@pytest.fixture
def store(keeping: Keeping) -> ArtifactStore:
    return keeping.store


@pytest.fixture
async def tenant(keeping: Keeping) -> str:
    return await keeping.new_tenant("acme", FEW)


async def stream(*chunks: bytes) -> AsyncGenerator[bytes]:
    for chunk in chunks:
        await asyncio.sleep(0)
        yield chunk


async def content(store: ArtifactStore, name: str, version: int | None = None, *, tenant: str) -> bytes:
    return (await store.get(name, version, max_bytes=1 << 20, tenant=tenant))[1]


async def test_an_artifact_has_what_was_said_and_what_it_is(store: ArtifactStore, tenant: str) -> None:
    said = ArtifactMetadata("text/csv", skill="csv", skill_digest="d1", run_id="r1")
    saved = await store.save("out/x.csv", b"1,2", said, tenant=tenant)
    assert saved == Artifact(
        "out/x.csv", 0, "text/csv", 3, sha256(b"1,2").hexdigest(), "csv", "d1", "r1", saved.created
    )
    assert await store.stat(*parse_ref(saved.ref), tenant=tenant) == saved


async def test_every_value_can_be_sent_to_another_machine(store: ArtifactStore, tenant: str) -> None:
    saved = await store.save("a", b"1", tenant=tenant)
    values = (saved, await store.list(tenant=tenant), await store.usage(tenant=tenant))
    for value in (*values, await store.delete("a", tenant=tenant)):
        assert json.loads(json.dumps(asdict(value)))
    assert Artifact(**json.loads(json.dumps(asdict(saved)))) == saved


async def test_what_comes_in_pieces_and_what_lies_in_a_file_is_kept_alike(
    store: ArtifactStore, tenant: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"hello")
    for given in (b"hello", stream(b"he", b"", b"llo"), tmp_path / "file"):
        await store.save("a", given, tenant=tenant)
    for version in range(3):
        assert await content(store, "a", version, tenant=tenant) == b"hello"


async def test_versions_count_from_0_and_no_number_is_given_twice(store: ArtifactStore, tenant: str) -> None:
    assert [(await store.save("a", b"", tenant=tenant)).version for _ in range(2)] == [0, 1]
    assert (await store.save("b", b"", tenant=tenant)).version == 0
    await store.delete("a", 1, tenant=tenant)
    assert (await store.stat("a", tenant=tenant)).version == 0
    assert (await store.save("a", b"", tenant=tenant)).version == 2
    await store.delete("a", tenant=tenant)
    assert (await store.save("a", b"", tenant=tenant)).version == 3


async def test_those_who_save_at_the_same_time_get_a_version_each(store: ArtifactStore, tenant: str) -> None:
    saves = (store.save("a", stream(str(number).encode()), tenant=tenant) for number in range(FEW))
    saved = await asyncio.gather(*saves)
    assert sorted(one.version for one in saved) == list(range(FEW))
    for number, one in enumerate(saved):
        assert await content(store, "a", one.version, tenant=tenant) == str(number).encode()


async def test_a_part_of_it_is_read_from_anywhere(store: ArtifactStore, tenant: str) -> None:
    await store.save("a", b"0123456789", tenant=tenant)
    async with store.open("a", tenant=tenant) as reader:
        for offset, length, expected in (
            (0, None, b"0123456789"),
            (3, 4, b"3456"),
            (9, 9, b"9"),
            (99, 1, b""),
        ):
            async with aclosing(reader.chunks(offset, length)) as chunks:
                assert b"".join([chunk async for chunk in chunks]) == expected


async def test_what_is_open_is_read_to_its_end_whoever_deletes_it(store: ArtifactStore, tenant: str) -> None:
    await store.save("a", b"kept", tenant=tenant)
    async with store.open("a", tenant=tenant) as reader:
        await store.delete("a", tenant=tenant)
        async with aclosing(reader.chunks()) as chunks:
            assert b"".join([chunk async for chunk in chunks]) == b"kept"
    with pytest.raises(ArtifactNotFoundError):
        await store.stat("a", tenant=tenant)


async def test_pages_have_everything_once_by_name_and_version(store: ArtifactStore, tenant: str) -> None:
    for name in ("b", "a/2", "a/1", "b"):
        await store.save(name, b"", tenant=tenant)

    async def listed(prefix: str, *, every: bool) -> list[tuple[str, int]]:
        rows: list[tuple[str, int]] = []
        after = None
        while True:
            page = await store.list(prefix, all_versions=every, after=after, limit=1, tenant=tenant)
            rows += [(one.name, one.version) for one in page.artifacts]
            if (after := page.next) is None:
                return rows

    assert await listed("", every=True) == [("a/1", 0), ("a/2", 0), ("b", 0), ("b", 1)]
    assert await listed("", every=False) == [("a/1", 0), ("a/2", 0), ("b", 1)]
    assert await listed("a/", every=False) == [("a/1", 0), ("a/2", 0)]


async def test_tenants_share_nothing(store: ArtifactStore, keeping: Keeping, tenant: str) -> None:
    other = await keeping.new_tenant("other", FEW)
    await store.save("a", b"mine", tenant=tenant)
    for work in (store.stat("a", tenant=other), store.delete("a", tenant=other)):
        with pytest.raises(ArtifactNotFoundError):
            await work
    assert (await store.list(tenant=other)).artifacts == ()
    assert (await store.save("a", b"theirs", tenant=other)).version == 0
    assert await content(store, "a", tenant=tenant) == b"mine"
    assert (await store.usage(tenant=tenant)).bytes == 4


async def test_a_tenant_keeps_no_more_than_it_may(store: ArtifactStore, keeping: Keeping) -> None:
    poor = await keeping.new_tenant("poor", 1)
    await store.save("a", b"1", tenant=poor)
    with pytest.raises(QuotaError):
        await store.save("a", stream(b"2"), tenant=poor)
    assert await content(store, "a", tenant=poor) == b"1"
    assert (await store.usage(tenant=poor)).count == 1
    await store.delete("a", tenant=poor)
    assert (await store.save("a", b"3", tenant=poor)).version == 1


@pytest.mark.parametrize("name", ["", "/a", "../a", "a/../b", "a\0b", "a\nb", "x" * 5000])
async def test_a_name_that_is_none_is_refused_and_keeps_nothing(
    store: ArtifactStore, tenant: str, name: str
) -> None:
    with pytest.raises((ArtifactNameError, PathEscapeError)):
        await store.save(name, b"", tenant=tenant)
    assert (await store.usage(tenant=tenant)).count == 0


async def test_whoever_is_cancelled_while_it_comes_has_kept_nothing(
    store: ArtifactStore, tenant: str
) -> None:
    begun = asyncio.Event()

    async def endless() -> AsyncGenerator[bytes]:
        while True:
            yield b"x"
            begun.set()
            await asyncio.sleep(0)

    saving = asyncio.create_task(store.save("a", endless(), tenant=tenant))
    await begun.wait()
    saving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await saving
    assert (await store.usage(tenant=tenant)).count == 0
    assert (await store.save("a", b"1", tenant=tenant)).version == 0


async def test_what_is_retained_never_lacks_the_latest_for_want_of_room(
    store: ArtifactStore, tenant: str
) -> None:
    for text in (b"1", b"2", b"3"):
        await store.save("a", text, tenant=tenant)
    await store.save("b", b"4", tenant=tenant)
    removed = await store.retain(RetentionPolicy(max_count=1), tenant=tenant)
    assert [(one.name, one.version) for one in removed.artifacts] == [("a", 0), ("a", 1)]
    assert await content(store, "a", tenant=tenant) == b"3"
    assert await content(store, "b", tenant=tenant) == b"4"

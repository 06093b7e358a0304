"""A process that saves artifacts: `artifact_writer.py ROOT count N`, or `… ROOT until-killed MAX_BYTES`."""

from __future__ import annotations

import json
import os
import random
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from sandbox_skills.artifacts import LocalArtifactStore

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


async def count(store: LocalArtifactStore, number: int) -> None:
    saved = [await store.save("x", os.urandom(8), tenant="t") for _ in range(number)]
    print(json.dumps([one.version for one in saved]))


async def until_killed(store: LocalArtifactStore, max_bytes: int) -> None:
    print("ready", flush=True)
    while True:
        size = random.choice([16, random.randrange(max_bytes)])
        await store.save("x", parts(size), tenant="t")
        if random.random() < 0.2:
            await store.delete("x", tenant="t")


async def parts(size: int) -> AsyncGenerator[bytes]:
    for start in range(0, size, 100_000):
        yield os.urandom(min(100_000, size - start))


async def large(store: LocalArtifactStore, size: int) -> None:
    """Prints by how many bytes the peak memory grew over saving and reading a file of that size, twice."""
    source = store._root.parent / "large"
    with source.open("wb") as file:
        file.truncate(size)
    await store.save("small", bytes(1_000_000), tenant="t")
    before = peak()
    await store.save("x", source, tenant="t")
    await store.save("x", zeros(size), tenant="t")
    read = 0
    async with store.open("x", tenant="t") as reader:
        async for chunk in reader.chunks():
            read += len(chunk)
    assert read == size
    print(json.dumps(peak() - before))


async def zeros(size: int) -> AsyncGenerator[bytes]:
    for start in range(0, size, 65_536):
        yield bytes(min(65_536, size - start))


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    work = {"count": count, "until-killed": until_killed, "large": large}[sys.argv[2]]
    anyio.run(work, LocalArtifactStore(Path(sys.argv[1])), int(sys.argv[3]))

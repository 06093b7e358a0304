"""The local store under many processes, some of which are killed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import anyio
import pytest

from sandbox_skills.artifacts import LocalArtifactStore, RetentionPolicy

if TYPE_CHECKING:
    from tests.unit.artifacts.conftest import Disk

WRITER = Path(__file__).with_name("artifact_writer.py")


def start(root: Path, *arguments: str | int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(WRITER), str(root), *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )


def printed(process: subprocess.Popen[str]) -> object:
    with process:
        text, _ = process.communicate()
    assert process.returncode == 0
    return json.loads(text)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_eight_processes_get_each_version_exactly_once(root: Path) -> None:
    processes = [start(root, "count", 50) for _ in range(8)]
    versions: list[int] = []
    for process in processes:
        found = printed(process)
        assert isinstance(found, list)
        assert found == sorted(found)
        versions += found
    assert sorted(versions) == list(range(400))


def test_eight_threads_get_each_version_exactly_once(root: Path) -> None:
    store = LocalArtifactStore(root)
    versions: list[int] = []

    async def save() -> None:
        versions.extend([(await store.save("x", b"same", tenant="t")).version for _ in range(10)])

    threads = [Thread(target=anyio.run, args=(save,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(versions) == list(range(80))


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_writers_killed_at_any_moment_leave_a_whole_store(root: Path, disk: Disk) -> None:
    store = LocalArtifactStore(root)
    highest = -1
    for _ in range(10):
        with ExitStack() as stack:
            writers = [stack.enter_context(start(root, "until-killed", 3_000_000)) for _ in range(5)]
            for writer in writers:
                assert writer.stdout is not None
                assert writer.stdout.readline() == "ready\n"
            for writer in writers:
                time.sleep(random.uniform(0, 0.05))
                writer.send_signal(signal.SIGKILL)
        check_contents(disk)
        highest = asyncio.run(check_records(store, highest))
    removed = asyncio.run(store.retain(RetentionPolicy(), tenant="t"))
    assert not removed.artifacts
    assert not disk.unfinished()
    kept = asyncio.run(store.list(all_versions=True, limit=1000, tenant="t")).artifacts
    assert {path.name for path in disk.contents()} == {one.sha256 for one in kept}


async def check_records(store: LocalArtifactStore, highest: int) -> int:
    """Every record has its content, and the next version is one that nobody had."""
    page = await store.list(all_versions=True, limit=1000, tenant="t")
    assert page.next is None
    for one in page.artifacts:
        assert len((await store.get("x", one.version, max_bytes=one.size, tenant="t"))[1]) == one.size
    version = (await store.save("x", b"after", tenant="t")).version
    assert version > max([highest, *(one.version for one in page.artifacts)])
    return version


def check_contents(disk: Disk) -> None:
    """What has the name of a digest has that digest."""
    for path in disk.contents():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_large_file_needs_no_more_memory_than_a_small_one(root: Path) -> None:
    grown = printed(start(root, "large", 300 * 1024 * 1024))
    assert isinstance(grown, int)
    assert grown < 16 * 1024 * 1024

"""Collecting and putting files while a program does its worst with names, types and links."""

from __future__ import annotations

import asyncio
import time
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.errors import InputError, PathEscapeError
from sandbox_skills.spec import KIB, MIB, CollectLimits, SandboxLimits, SandboxSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from sandbox_skills.spec import Outcome
    from tests.security.conftest import Box, OpenBox

pytestmark = [pytest.mark.anyio]

LIMITS = CollectLimits()

ROUNDS = 50
"""How often the host works on files that a program changes meanwhile: each finds it at another moment."""


def linking_out() -> None:
    from pathlib import Path

    out = Path("/workspace/out")
    Path("/tmp/outside").mkdir()
    Path("/tmp/outside/secret").write_text("secret", encoding="ascii")
    (out / "real").write_text("real", encoding="ascii")
    for name, target in {
        "file": "/etc/passwd",
        "relative": "../../etc/passwd",
        "directory": "/tmp/outside",
        "root": "/",
        "inside": "real",
        "loop": "loop",
        "dangling": "nowhere",
        "process": "/proc/self/environ",
    }.items():
        (out / name).symlink_to(target)


def making_special_files() -> None:
    import os
    import socket
    from pathlib import Path

    os.chdir("/workspace/out")
    os.mkfifo("fifo")
    socket.socket(socket.AF_UNIX).bind("socket")
    Path("real").write_text("real", encoding="ascii")
    with Path("sparse").open("wb") as file:
        file.truncate(200 << 20)
    Path("unreadable").write_text("mine all the same", encoding="ascii")
    Path("unreadable").chmod(0)
    Path("closed").mkdir()
    Path("closed", "file").touch()
    Path("closed").chmod(0)


def making_names() -> int:
    import os

    names = [
        b"new\nline",
        b"\xff\xfe",
        b"-rf",
        b"a\\..\\b",
        b" ",
        b"...",
        b"\x1b[2J",
        b"n" * 255,
        "\u202etxt.exe".encode(),
    ]
    for name in names:
        with open(b"/workspace/out/" + name, "wb") as file:  # noqa: PTH123  # a name that is no text
            file.write(b"x")
    path = b"/workspace/out"
    for _ in range(40):
        path += b"/" + b"d" * 200
        if len(path) > 3800:
            break
        os.mkdir(path)  # noqa: PTH102  # likewise
    return len(names)


def making_many(count: int) -> None:
    from pathlib import Path

    top = Path("/workspace/out/many")
    top.mkdir()
    for number in range(count):
        (top / f"{number:05}").touch()


def going_deep() -> int:
    import os

    depth = 0
    os.chdir("/workspace/out")
    while depth < 3000:
        os.mkdir("d")  # noqa: PTH102  # relative, as the whole path is too long
        os.chdir("d")
        depth += 1
    return depth


def swapping() -> None:
    import ctypes
    import os
    from pathlib import Path

    Path("/workspace/out/swapped").mkdir()
    Path("/workspace/out/swapped/hostname").write_text("inside", encoding="ascii")
    Path("/workspace/out/other").symlink_to("/tmp/outside")
    Path("/tmp/outside").mkdir()
    Path("/tmp/outside/hostname").write_text("outside", encoding="ascii")
    print("ready", flush=True)
    exchange, at_cwd = 2, -100
    renameat2 = ctypes.CDLL(None).renameat2
    os.chdir("/workspace/out")
    while True:
        renameat2(at_cwd, b"swapped", at_cwd, b"other", exchange)


def growing() -> None:
    from pathlib import Path

    print("ready", flush=True)
    with Path("/workspace/out/growing").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 20))
            if file.tell() > 8 << 20:
                file.truncate(0)
                file.seek(0)


async def begun(box: Box, function: Callable[[], None]) -> asyncio.Future[Outcome]:
    """Returns a run of a program that has said that it is ready, and goes on."""
    ready = asyncio.Event()
    run = asyncio.ensure_future(box.run(box.program(function), on_output=lambda *_: ready.set()))
    async with asyncio.timeout(10):
        await ready.wait()
    return run


async def some_bytes() -> AsyncIterator[bytes]:
    yield b"put by the host"


@pytest.fixture
async def own_box(open_box: OpenBox) -> AsyncIterator[Box]:
    async with open_box(SandboxSpec(limits=SandboxLimits(workspace_inodes=32 * KIB))) as box:
        yield box


async def test_links_are_never_followed(own_box: Box) -> None:
    await own_box.call(linking_out)
    files, collection = await own_box.collect(
        "out/**", "out/directory/*", "out/root/etc/passwd", limits=LIMITS
    )
    assert files == {"out/real": b"real"}
    assert set(collection.skipped.values()) <= {"link", "unreadable"}
    for name in ("out/file", "out/inside", "out/directory/secret", "out/process", "out/loop"):
        with pytest.raises((PathEscapeError, InputError)):
            async with own_box.sandbox.get(PurePosixPath(name), max_bytes=10):
                pytest.fail("a link was followed")


async def test_nothing_is_put_through_a_link(own_box: Box) -> None:
    await own_box.call(linking_out)
    with pytest.raises(PathEscapeError):
        await own_box.sandbox.put(PurePosixPath("out/directory/put"), some_bytes())
    # A link in the place of the file itself is replaced, and what it leads to is left.
    await own_box.sandbox.put(PurePosixPath("out/inside"), some_bytes())
    outcome = await own_box.shell("ls /tmp/outside; cat out/real; stat -c %F out/inside")
    assert outcome.stdout.split(b"\n") == [b"secret", b"realregular file", b""]


async def test_special_and_sparse_files_block_nobody(own_box: Box) -> None:
    await own_box.call(making_special_files)
    async with asyncio.timeout(10):  # a FIFO would block for ever
        files, collection = await own_box.collect("out/**", limits=LIMITS)
    assert set(files) == {"out/real", "out/sparse"}
    assert (len(files["out/sparse"]), collection.limits_hit) == (4 * MIB, frozenset({"collected_bytes"}))
    assert collection.skipped["out/fifo"] == collection.skipped["out/socket"] == "special"
    assert collection.skipped["out/unreadable"] == collection.skipped["out/closed"] == "unreadable"


async def test_names_are_text_or_skipped(own_box: Box) -> None:
    count = await own_box.call(making_names)
    files, collection = await own_box.collect("out/*", limits=LIMITS)
    assert len(files) == count - 1
    assert "out/new\nline" in files
    assert collection.skipped == {"out/\\xff\\xfe": "name"}


async def test_twenty_thousand_files_are_cut_at_the_limit(own_box: Box) -> None:
    await own_box.call(making_many, 20_000)
    started = time.monotonic()
    files, collection = await own_box.collect("out/**", limits=LIMITS)
    assert time.monotonic() - started < 5
    assert (len(files), collection.limits_hit) == (LIMITS.files, frozenset({"collected_files"}))
    assert len(collection.skipped) <= 100


async def test_a_deep_tree_ends_at_the_limit(own_box: Box) -> None:
    assert await own_box.call(going_deep) == 3000
    started = time.monotonic()
    files, collection = await own_box.collect("out/**", limits=LIMITS)
    assert time.monotonic() - started < 5
    assert (len(files), collection.limits_hit) == (0, frozenset({"collected_files"}))
    assert (await own_box.shell("true")).ok


async def test_a_directory_that_becomes_a_link_gives_nothing_of_the_outside(own_box: Box) -> None:
    run = await begun(own_box, swapping)
    seen: set[bytes] = set()
    rounds = 0
    while rounds < ROUNDS or seen != {b"inside", b"put by the host", b"refused"}:
        rounds += 1
        assert not run.done(), seen
        files, _ = await own_box.collect("out/**", "out/swapped/hostname", limits=LIMITS)
        seen |= set(files.values())
        try:
            await own_box.sandbox.put(PurePosixPath("out/swapped/put"), some_bytes())
        except (PathEscapeError, InputError):
            seen.add(b"refused")
        # Each is met: the directory and the link. What lies behind the link is not.
        assert seen <= {b"inside", b"put by the host", b"refused"}
    run.cancel()
    await asyncio.wait([run])
    assert (await own_box.shell("ls /tmp/outside")).stdout == b"hostname\n"


async def test_a_file_that_changes_its_size_meanwhile_does_no_harm(own_box: Box) -> None:
    run = await begun(own_box, growing)
    collected = 0
    for _ in range(ROUNDS):
        assert not run.done()
        files, _ = await own_box.collect("out/*", limits=LIMITS)
        assert all(len(data) <= LIMITS.file_bytes for data in files.values())
        collected += len(files)
    assert collected > 0
    run.cancel()
    await asyncio.wait([run])
    assert (await own_box.shell("true")).ok


async def test_honest_files_are_collected_whole(own_box: Box) -> None:
    assert (await own_box.shell("seq 100000 > out/numbers && mkdir out/d && cp out/numbers out/d")).ok
    files, collection = await own_box.collect("out/**", limits=LIMITS)
    expected = "".join(f"{number}\n" for number in range(1, 100_001)).encode()
    assert files == {"out/numbers": expected, "out/d/numbers": expected}
    assert (collection.skipped, collection.limits_hit) == ({}, frozenset())

"""The socket that a box connects to: taken once, by the right uid, and then gone. The runner is real."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.classify import Death
from sandbox_skills.engines.client import RunnerClient
from sandbox_skills.engines.socket_channel import SocketPlace, Standby, offered, sweep, take_over
from sandbox_skills.errors import EngineError, SandboxLostError
from sandbox_skills.spec import Command, SandboxId
from tests.programs import RUNNER

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sandbox_skills.engines.socket_channel import SocketOffer

pytestmark = pytest.mark.anyio


PATIENCE = 10.0


class Unused:
    """The attached stream of a box that speaks over a socket."""

    def __init__(self) -> None:
        self.closed = False

    def write(self, data: bytes) -> None:
        raise AssertionError(data)

    async def drain(self) -> None:
        raise AssertionError

    def rest(self, seconds: float) -> None:
        raise AssertionError(seconds)

    def close(self) -> None:
        self.closed = True


def client() -> RunnerClient:
    async def post_mortem() -> Death:
        return Death(oom=False, exit_code=None)

    return RunnerClient(SandboxId("box"), post_mortem=post_mortem)


@asynccontextmanager
async def runner(folder: Path, channel: Path) -> AsyncGenerator[asyncio.subprocess.Process]:
    for name in ("workspace", "skills"):
        (folder / name).mkdir()
    options = {"--workspace": folder / "workspace", "--skills": folder / "skills", "--channel": channel}
    arguments = [str(word) for option in options.items() for word in option]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-B", RUNNER, *arguments, stdin=pipe, stdout=pipe, env={}
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def taken(
    offer: SocketOffer, box: RunnerClient, attached: Unused, standby: Standby | None = None
) -> None:
    """Waits until the box speaks over the socket."""
    standby = standby or Standby(box.link)
    await asyncio.wait_for(take_over(offer, os.geteuid(), box.link, standby, attached), PATIENCE)


def connected(offer: SocketOffer) -> socket.socket:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    found.setblocking(False)
    found.connect(str(offer.directory / "channel"))
    return found


async def test_a_runner_connects_and_nobody_can_after_it(tmp_path: Path) -> None:
    box, attached = client(), Unused()
    standby = Standby(box.link)
    with offered(tmp_path / "s") as offer:
        async with runner(tmp_path, tmp_path / "s" / "channel") as process:
            await taken(offer, box, attached, standby)
            assert not (tmp_path / "s").exists()
            assert offer.listener.fileno() == -1
            assert (await box.hello(PATIENCE))["pid"] == process.pid
            standby.received(memoryview(b"what no frame can be"))
            outcome = await box.run(Command(("echo", "hi"), env={"PATH": "/bin"}, cwd=PurePosixPath("/")))
            assert outcome.stdout == b"hi\n"
            box.close()
            assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
    assert attached.closed


async def test_a_box_whose_socket_ends_is_lost_with_what_its_attached_stream_tells(tmp_path: Path) -> None:
    box = client()
    standby = Standby(box.link)
    with offered(tmp_path / "s") as offer:
        async with runner(tmp_path, tmp_path / "s" / "channel") as process:
            await taken(offer, box, Unused(), standby)
            await box.hello(PATIENCE)
            process.kill()
            await process.wait()
            asyncio.get_running_loop().call_later(0.05, standby.lost, "the runner said: why")
            with pytest.raises(SandboxLostError, match="the runner said: why"):
                await box.run(Command(("true",), env={"PATH": "/bin"}, cwd=PurePosixPath("/")))


async def test_a_box_whose_socket_ends_is_lost_though_nothing_else_tells_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox_skills.engines.socket_channel.LAST_WORDS_SECONDS", 0.05)
    box = client()
    with offered(tmp_path / "s") as offer:
        theirs = connected(offer)
        await taken(offer, box, Unused())
        theirs.close()
        with pytest.raises(SandboxLostError, match="reached its end"):
            await box.hello(PATIENCE)


async def test_who_has_another_uid_is_turned_away(tmp_path: Path) -> None:
    with offered(tmp_path / "s") as offer, connected(offer) as stranger:
        taking = asyncio.create_task(offer.taken(os.geteuid() + 1))
        assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(stranger, 1), PATIENCE) == b""
        assert not taking.done()
        taking.cancel()
    assert not (tmp_path / "s").exists()


async def test_a_runner_that_finds_no_listener_speaks_over_its_own_streams(tmp_path: Path) -> None:
    async with runner(tmp_path, tmp_path / "nothing") as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert (await asyncio.wait_for(process.stdout.readexactly(1), PATIENCE)) == b"\x40"
        process.stdin.close()
        await asyncio.wait_for(process.stdout.read(), PATIENCE)
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0


async def test_an_attached_stream_is_the_links_until_it_is_relieved() -> None:
    box = client()
    standby = Standby(box.link)
    standby.received(memoryview(b"\xff" * 9))
    assert not box.alive


def test_the_directory_may_be_deeper_than_the_name_of_a_socket_is_long(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    with offered(deep / "s") as offer:
        assert (offer.directory / "channel").is_socket()
    assert list(deep.iterdir()) == []


def test_only_the_owner_sees_the_sockets_of_an_engine(tmp_path: Path) -> None:
    place = SocketPlace(tmp_path)
    with place.offered("box-1") as offer, place.offered("box-2") as other:
        assert offer is not None
        assert other is not None
        assert offer.directory.parent == other.directory.parent
        assert offer.directory.parent.stat().st_mode & 0o777 == 0o700
        assert offer.directory.stat().st_mode & 0o777 == 0o711
        with pytest.raises(EngineError, match="cannot be made"), place.offered("box-1"):
            pass
    place.close()
    assert list((tmp_path / "sockets").iterdir()) == []


def test_none_is_offered_where_none_works(tmp_path: Path) -> None:
    with SocketPlace(tmp_path, usable=False).offered("box") as offer:
        assert offer is None
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_made_is_an_error_that_says_where(tmp_path: Path) -> None:
    (tmp_path / "sockets").write_text("a file")
    with pytest.raises(EngineError, match="sockets"), SocketPlace(tmp_path).offered("box"):
        pass


def test_what_dead_processes_left_is_swept_and_what_is_in_use_is_not(tmp_path: Path) -> None:
    sweep(tmp_path)
    place = SocketPlace(tmp_path)
    with place.offered("box"):
        dead = tmp_path / "sockets" / "engine-dead" / "box"
        dead.mkdir(parents=True)
        sweep(tmp_path)
        assert len(list((tmp_path / "sockets").iterdir())) == 1
        assert not dead.exists()
    place.close()

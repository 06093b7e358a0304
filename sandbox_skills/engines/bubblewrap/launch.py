"""The engine's side of the launcher: starts it, tells it what to make and end, and hears what has ended."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from sandbox_skills.engines.bubblewrap.launcher.serving import LEAVE_SECONDS, MESSAGE_BYTES
from sandbox_skills.engines.image_programs import joined
from sandbox_skills.errors import EngineUnavailableError, SandboxLostError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

MODULES = Path(__file__).parent / "launcher"

END_SECONDS = LEAVE_SECONDS + 1.0
"""How long the launcher may take to end: as long as it waits for its boxes, and a moment."""


@dataclass(frozen=True, slots=True)
class Gone:
    """What is told of a box when nothing is left of it. `known` False: the launcher died, and nobody knows."""

    code: int | None = None
    oom: bool = False
    words: str = ""
    known: bool = True


class Launch:
    """One launcher process, on the event loop that made it."""

    def __init__(self, filter_: bytes) -> None:
        """Starts the process; raises EngineUnavailableError where it cannot be."""
        self._loop = asyncio.get_running_loop()
        self._boxes: dict[str, asyncio.Future[Gone]] = {}
        self._writable = asyncio.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        try:
            with theirs:
                self._process = _started(theirs, filter_)
        except OSError as error:
            self._control.close()
            raise EngineUnavailableError(f"the launcher of bubblewrap cannot be started: {error}") from error
        self._loop.add_reader(self._control, self._heard)

    @property
    def alive(self) -> bool:
        """Whether the launcher was there when last heard of."""
        return self._control.fileno() >= 0

    async def prepare(self, plan: Mapping[str, Any]) -> None:
        """Has the stage set up; a fault of that is told of every box. Raises SandboxLostError."""
        await self._send({"prepare": plan})

    async def start(self, order: Mapping[str, Any], channel: socket.socket) -> None:
        """Has a box made that has `channel` as its standard input and output. Raises SandboxLostError."""
        self._boxes[order["id"]] = self._loop.create_future()
        await self._send({"start": order}, channel.fileno())

    async def end(self, sandbox_id: str) -> Gone:
        """Ends a box and returns when nothing is left of it; at once for one that is not known."""
        gone = self._boxes.get(sandbox_id)
        if gone is None:
            return Gone(known=False)
        try:
            if not gone.done():
                await self._send({"end": sandbox_id})
        except SandboxLostError:
            self._lost()
        told = await asyncio.shield(gone)
        self._boxes.pop(sandbox_id, None)
        return told

    async def gone(self, sandbox_id: str, seconds: float) -> Gone:
        """Returns what is told of a box that is about to be gone; nothing known where it is not by then."""
        gone = self._boxes.get(sandbox_id)
        if gone is None:
            return Gone(known=False)
        await asyncio.wait([gone], timeout=seconds)
        return gone.result() if gone.done() else Gone(known=False)

    async def aclose(self) -> None:
        """Ends every box that is left, and the launcher."""
        self._lost()
        await anyio.to_thread.run_sync(self._wait)

    def _wait(self) -> None:
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()  # bubblewrap dies with it, and every box with its bubblewrap
            self._process.wait()

    async def _send(self, message: Mapping[str, Any], *descriptors: int) -> None:
        data = json.dumps(message).encode()
        async with self._writable:
            while True:
                try:
                    socket.send_fds(self._control, [data], list(descriptors))
                except BlockingIOError:
                    await self._room()
                except OSError as error:
                    raise SandboxLostError("the launcher of bubblewrap is gone") from error
                else:
                    return

    async def _room(self) -> None:
        """Returns when the launcher has taken some of what was sent."""
        room = asyncio.Event()
        self._loop.add_writer(self._control, room.set)
        try:
            await room.wait()
        finally:
            self._loop.remove_writer(self._control)

    def _heard(self) -> None:
        try:
            while data := self._control.recv(MESSAGE_BYTES):
                self._take(json.loads(data))
        except BlockingIOError:
            return
        except OSError:
            pass
        self._lost()

    def _take(self, message: Mapping[str, Any]) -> None:
        gone = self._boxes.get(message["id"])
        if gone is not None and not gone.done():
            gone.set_result(Gone(message["code"], message["oom"], message["words"]))

    def _lost(self) -> None:
        """Lets go of the launcher, whether it is gone or is to go; whoever waits hears that nothing is known."""
        if self.alive:
            self._loop.remove_reader(self._control)
            self._control.close()
        for gone in self._boxes.values():
            if not gone.done():
                gone.set_result(Gone(known=False))


@cache
def program() -> bytes:
    """Returns the launcher as one text; raises OSError."""
    modules = {path.stem: path.read_text(encoding="utf-8") for path in MODULES.glob("*.py")}
    return joined(modules).encode()


def _started(control: socket.socket, filter_: bytes) -> subprocess.Popen[bytes]:
    with _in_memory("filter", filter_) as allowed, _in_memory("launcher", program()) as text:
        numbers = (control.fileno(), allowed, text)
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", f"/proc/self/fd/{text}", *map(str, numbers)],
            pass_fds=numbers,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,  # a Ctrl-C at the terminal is for the engine's process
        )


@contextmanager
def _in_memory(name: str, data: bytes) -> Generator[int]:
    """Gives a file that lies nowhere, for a process that is started in the block."""
    descriptor = os.memfd_create(name)
    try:
        os.write(descriptor, data)
        yield descriptor
    finally:
        os.close(descriptor)

"""The loop of the launcher."""

from __future__ import annotations

import json
import os
import select
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from .boxes import Box, not_made
from .kernel import children
from .stage import prepare

if TYPE_CHECKING:
    from typing import Any

MESSAGE_BYTES = 256 * 1024
"""Longest order: its paths and arguments, about 4 KiB."""

LEAVE_SECONDS = 5.0
"""How long the launcher waits for its boxes when its own end has come: only one stuck in the kernel needs more."""


class Launcher:
    """The loop: orders, deaths, and the end of both."""

    def __init__(self, control: socket.socket, filter_: int) -> None:
        self._control = control
        self._filter = filter_
        self._boxes: dict[str, Box] = {}
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._handles: dict[int, Box] = {}
        self._leaving = 0.0
        self._fault = ""

    def serve(self) -> None:
        """Works until the socket has ended and no box is left."""
        while self._boxes or not self._leaving:
            for descriptor, _ in self._poll.poll(self._patience()):
                if descriptor in self._handles:
                    self._bury(descriptor)
                else:
                    self._hear()
            self._tell()
            if self._leaving and time.monotonic() > self._leaving:
                return

    def _patience(self) -> float | None:
        now = time.monotonic()
        due = [box.look(now) for box in self._boxes.values()]
        return max(0.0, min(due) - now) * 1000 + 1 if due else None

    def _hear(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES, 1)
        except OSError:
            data, descriptors = b"", []
        if not data:
            self._leave()
            return
        message = json.loads(data)
        try:
            if "prepare" in message:
                self._prepare(message["prepare"])
            elif "start" in message:
                self._start(message["start"], descriptors[0])
            elif box := self._boxes.get(message["end"]):
                box.end()
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _prepare(self, plan: dict[str, Any]) -> None:
        try:
            prepare(plan)
        except OSError as error:
            self._fault = f"{error}"

    def _start(self, order: dict[str, Any], channel: int) -> None:
        box = Box(order)
        if self._fault:
            self._say(not_made(box, self._fault))
            return
        try:
            box.start(channel, self._filter)
        except OSError as error:
            self._say(not_made(box, str(error)))
            return
        self._boxes[box.id] = box
        assert box.handle is not None
        self._handles[box.handle] = box
        self._poll.register(box.handle, select.POLLIN)

    def _bury(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        self._handles.pop(descriptor).bury()

    def _tell(self) -> None:
        self._bury_orphans()
        for box in [box for box in self._boxes.values() if box.code is not None]:
            if (told := box.gone()) is not None:
                del self._boxes[box.id]
                self._say(told)

    def _bury_orphans(self) -> None:
        """Takes the first processes of boxes whose bubblewrap was killed: until then their cgroups are busy."""
        own = {box.pid for box in self._boxes.values()}
        for pid in children(os.getpid()):
            if pid not in own:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _say(self, message: dict[str, object]) -> None:
        with suppress(OSError):  # nobody listens any more, which the next look at the socket tells
            self._control.send(json.dumps(message).encode())

    def _leave(self) -> None:
        self._poll.unregister(self._control)
        self._leaving = time.monotonic() + LEAVE_SECONDS
        for box in self._boxes.values():
            box.end()

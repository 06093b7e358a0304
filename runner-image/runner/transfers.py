"""Single files on their way in and out, in turns of one chunk."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from .channel import OUTGOING_HIGH
from .lean import suppress
from .payloads import pack
from .protocol import INITIAL_CREDIT, MAX_DATA, Kind
from .refusals import Refused, refusal
from .workspace import NEW_FILE, segments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .channel import Channel
    from .workspace import Workspace

    Sent = tuple[int, bytes | memoryview]
    """A frame on its way: its kind and its payload."""


TRANSFER_STEPS = 64
"""Frames one transfer may send in a turn: small files go in batches, and a cancel is still seen at once."""


class Upload:
    """One file on its way in: it has another name in the same directory until it is whole."""

    def __init__(self, workspace: Workspace, path: str, mode: int) -> None:
        *above, self._name = segments(path)
        self._mode = mode & 0o777
        self._partial = f".put-{os.urandom(8).hex()}"
        self.size = 0
        with workspace.directory(above, make=True) as directory:
            self._file = os.open(self._partial, NEW_FILE, 0o600, dir_fd=directory)
            self._directory = os.dup(directory)

    def write(self, data: bytes) -> None:
        """Adds to the file; raises Refused where the workspace is full."""
        view = memoryview(data)
        while view:
            try:
                written = os.write(self._file, view)
            except OSError as error:
                raise self._explained(error) from error
            view = view[written:]
            self.size += written

    def _explained(self, error: OSError) -> Refused:
        room = os.fstatvfs(self._file)
        if error.errno == errno.ENOSPC and room.f_files and not room.f_ffree and room.f_bavail:
            return Refused("no_inodes", "no inodes left")
        return refusal(error)

    def finish(self) -> None:
        """Gives the file its mode and name."""
        try:
            os.fchmod(self._file, self._mode)
            os.rename(self._partial, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        except OSError:
            self.abort()
            raise
        self._close()

    def abort(self) -> None:
        """Leaves nothing behind."""
        with suppress(OSError):  # the box may have removed it
            os.unlink(self._partial, dir_fd=self._directory)
        self._close()

    def _close(self) -> None:
        os.close(self._file)
        os.close(self._directory)


class Credit:
    """How many bytes of files the host is ready to take."""

    def __init__(self) -> None:
        self.left = INITIAL_CREDIT

    def read(self, descriptor: int, limit: int) -> Iterator[bytes]:
        """Yields a file up to `limit` bytes or its end, and nothing (b"") whenever the credit is used up."""
        while limit > 0:
            if not self.left:
                yield b""
                continue
            data = os.read(descriptor, min(limit, MAX_DATA, self.left))
            if not data:
                return
            limit -= len(data)
            self.left -= len(data)
            yield data

    def share(self, data: memoryview) -> Iterator[memoryview | bytes]:
        """Yields bytes that were read before, as `read` does those of a file."""
        while data:
            if not self.left:
                yield b""
                continue
            part, data = data[: self.left], data[self.left :]
            self.left -= len(part)
            yield part


class Transfer:
    """A GET or COLLECT under way: frames drawn one by one; None among them gives up the turn."""

    def __init__(self, frames: Iterator[Sent | None], credit: Credit) -> None:
        self._frames = frames
        self._credit = credit
        self.starved = False

    def grant(self, count: int) -> None:
        """Adds credit."""
        self._credit.left += count
        self.starved = False

    def turn(self, channel: Channel, ref: int) -> bool:
        """Queues frames until the turn is over; returns False when none are left."""
        for _ in range(TRANSFER_STEPS):
            try:
                frame = next(self._frames)
            except StopIteration:
                return False
            if frame is None:
                self.starved = not self._credit.left
                return True
            channel.send(frame[0], ref, frame[1])
            if channel.queued > OUTGOING_HIGH:
                return True
        return True


def download(descriptor: int, max_bytes: int, credit: Credit) -> Iterator[Sent | None]:
    """Yields the frames of a GET and closes the file. What is added to the file meanwhile is not sent."""
    try:
        size = os.fstat(descriptor).st_size
        sent = 0
        for data in credit.read(descriptor, min(size, max_bytes)):
            sent += len(data)
            yield (Kind.DATA, data) if data else None
        whole = sent if sent < max_bytes else size  # it may have shrunk
        yield Kind.END, pack({"size": whole, "truncated": whole > sent})
    finally:
        os.close(descriptor)

"""What is to be kept, as chunks: bytes, a host file or a stream, never more of it in memory than a chunk."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple

from anyio import to_thread

from sandbox_skills.artifacts.names import shown
from sandbox_skills.artifacts.open_file import CHUNK, OpenFile
from sandbox_skills.errors import InputError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Callable

    from sandbox_skills.artifacts.store import Content

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


@dataclass(frozen=True, slots=True)
class Source:
    """Bytes to come, at least `size` as far as that is known."""

    size: int
    chunks: AsyncGenerator[bytes]


@asynccontextmanager
async def opened(content: Content) -> AsyncGenerator[Source]:
    """Gives the chunks of `content`; a host file is open meanwhile.

    Raises InputError for a host file that cannot be read, is a link or is no regular file.
    """
    if isinstance(content, bytes):
        yield Source(len(content), _pieces(content))
    elif isinstance(content, Path):
        file = OpenFile()
        try:
            size = await _of_host(content, file.open, content)
            yield Source(size, _file_chunks(content, file))
        finally:
            file.close()
    else:
        yield Source(0, _gathered(content))


async def _pieces(data: bytes) -> AsyncGenerator[bytes]:
    for start in range(0, len(data), CHUNK):
        yield data[start : start + CHUNK]


async def _gathered(chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
    """Yields small chunks together: each costs a visit to a thread."""
    held = bytearray()
    async for chunk in chunks:
        held += chunk
        if len(held) >= CHUNK:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)


async def _file_chunks(path: Path, file: OpenFile) -> AsyncGenerator[bytes]:
    offset = 0
    while data := await _of_host(path, file.read, offset, CHUNK):
        yield data
        offset += len(data)


async def _of_host(path: Path, work: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """Does something with a host file in a thread."""
    try:
        return await to_thread.run_sync(work, *arguments)
    except OSError as error:
        raise InputError(f"{shown(str(path))} cannot be kept: {error.strerror}") from error

"""The files of a session's workspace: listed, put, and taken whole or in part."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.daemon.errors import SessionFileError
from sandbox_skills.errors import InputError
from sandbox_skills.spec import WORKSPACE, CollectLimits
from sandbox_skills.workspace.paths import shown
from sandbox_skills.workspace.patterns import literal_patterns
from sandbox_skills.workspace.save_file import savable_path

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import PurePosixPath

    from sandbox_skills.daemon.service.sessions import SessionService
    from sandbox_skills.engines.base import Sandbox
    from sandbox_skills.spec import FoundFile

MAX_FILES = 1_000
"""Files that one listing tells: more are a build tree, which nobody reads."""

PATTERNS = ("work/**", "out/**")
"""What a session keeps: the rest of a workspace ends with its box."""


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A file by its path in the workspace, and its bytes."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Listing:
    """Files by their paths. `whole` is whether that is all of them."""

    files: tuple[SessionFile, ...]
    whole: bool


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file to be read once, from its beginning."""

    size: int
    chunks: AsyncIterator[bytes]


class _Names:
    """A FileSink that only hears which files there are."""

    blocking = False

    def begin(self, file: FoundFile) -> None:
        return None

    def write(self, data: bytes) -> None:
        return None

    def end(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class SessionFiles:
    """Files below `work/`, `out/` and `runs/` of sessions. Every method raises as `SessionService.opened` does.

    A path that is none of theirs is an InputError or PathEscapeError.
    """

    sessions: SessionService
    max_bytes: int

    async def list(self, session_id: str, *, tenant: str) -> Listing:
        """Returns the files that the session keeps, sorted by path."""
        session = await self.sessions.opened(session_id, tenant=tenant)
        limits = CollectLimits(files=MAX_FILES, file_bytes=1, total_bytes=MAX_FILES)
        with session.held() as held:
            found = await held.sandbox.collect(PATTERNS, limits, _Names())
        files = tuple(SessionFile(str(file.path), file.size) for file in found.files)
        return Listing(files, "collected_files" not in found.limits_hit)

    async def put(
        self, session_id: str, path: str, chunks: AsyncIterator[bytes], *, tenant: str
    ) -> SessionFile:
        """Writes one file, which appears whole or not at all; raises WorkspaceFullError."""
        target = savable_path(path)
        session = await self.sessions.opened(session_id, tenant=tenant)
        with session.held() as held:
            size = await held.sandbox.put(target, chunks)
        return SessionFile(str(target.relative_to(WORKSPACE)), size)

    @asynccontextmanager
    async def open(self, session_id: str, path: str, *, tenant: str) -> AsyncGenerator[OpenedFile]:
        """Gives one regular file, of at most `max_bytes`; raises SessionFileError where there is none."""
        target = savable_path(path)
        session = await self.sessions.opened(session_id, tenant=tenant)
        with session.held() as held:
            size = await self._size(held.sandbox, target)
            async with held.sandbox.get(target, max_bytes=size) as chunks:
                yield OpenedFile(size, chunks)

    async def _size(self, sandbox: Sandbox, target: PurePosixPath) -> int:
        limits = CollectLimits(files=1, file_bytes=1, total_bytes=1)
        found = await sandbox.collect(literal_patterns(target)[:1], limits, _Names())
        told = shown(str(target.relative_to(WORKSPACE)))
        if not found.files:
            raise SessionFileError(f"the session has no file {told}")
        if (size := found.files[0].size) > self.max_bytes:
            raise InputError(
                f"{told} has {size} bytes, and {self.max_bytes} can be taken", hint="take it in parts"
            )
        return size

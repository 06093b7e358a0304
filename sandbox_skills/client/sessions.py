"""Sessions of a daemon: workspaces kept over many runs, and the files in them."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import open_file

from sandbox_skills.client.connection import Connection, Request, path_of
from sandbox_skills.client.downloads import download
from sandbox_skills.client.json_values import read
from sandbox_skills.client.paging import pages
from sandbox_skills.client.values import FileInfo, SessionInfo
from sandbox_skills.spec import KIB

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sandbox_skills.client.json_values import JsonObject

Content = bytes | Path | Callable[[], AsyncIterable[bytes]]

_CHUNK = 256 * KIB


class Sessions:
    """The sessions of the key's tenant."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(self, *, name: str | None = None, ttl_seconds: float | None = None) -> SessionInfo:
        """Makes a session, which closes when nobody used it for `ttl_seconds`, an hour by default."""
        given = {"name": name, "ttl_seconds": ttl_seconds}
        body = {key: value for key, value in given.items() if value is not None}
        return read(SessionInfo, await self._connection.json(Request("POST", path_of("sessions"), json=body)))

    async def get(self, session_id: str) -> SessionInfo:
        """Returns a session as it is now."""
        return read(SessionInfo, await self._connection.json(Request("GET", path_of("sessions", session_id))))

    def list(self, *, state: str | None = None) -> AsyncGenerator[SessionInfo]:
        """Yields sessions, the newest first, closed ones too; a `state` that is None passes all."""
        return pages(self._connection, path_of("sessions"), SessionInfo, {"state": state})

    async def extend(self, session_id: str, seconds: float) -> SessionInfo:
        """Lets a session live `seconds` from now, never shorter than it would."""
        path = path_of("sessions", session_id, "extend")
        return read(
            SessionInfo, await self._connection.json(Request("POST", path, json={"seconds": seconds}))
        )

    async def snapshot(self, session_id: str) -> JsonObject:
        """Keeps the files of a session as they are now, and returns what the server says of that."""
        return await self._connection.json(Request("POST", path_of("sessions", session_id, "snapshot")))

    async def close(self, session_id: str) -> None:
        """Ends a session; its files go."""
        await self._connection.json(Request("DELETE", path_of("sessions", session_id)))

    def files(self, session_id: str) -> AsyncGenerator[FileInfo]:
        """Yields the files of a session's workspace."""
        return pages(self._connection, path_of("sessions", session_id, "files"), FileInfo)

    async def put_file(self, session_id: str, path: str, content: Content) -> FileInfo:
        """Writes a file of the workspace, whole.

        `content` is its bytes, a file here that is sent as it is read, or what gives its bytes anew at each call.
        """
        sent = Request(
            "PUT",
            file_path(session_id, path),
            content=_made(content),
            headers={"Content-Type": "application/octet-stream"},
        )
        return read(FileInfo, await self._connection.json(sent))

    def file(self, session_id: str, path: str) -> AsyncGenerator[bytes]:
        """Yields the bytes of a file of the workspace."""
        return download(self._connection, Request("GET", file_path(session_id, path)))


def file_path(session_id: str, path: str) -> str:
    """Returns where a file of a session's workspace is; its folders are steps of the address."""
    return f"{path_of('sessions', session_id, 'files')}/{path_of(*path.split('/')).removeprefix('v1/')}"


def _made(content: Content) -> Callable[[], bytes | AsyncIterable[bytes]]:
    if isinstance(content, Path):
        return partial(_chunks, content)
    return (lambda: content) if isinstance(content, bytes) else content


async def _chunks(path: Path) -> AsyncGenerator[bytes]:
    async with await open_file(path, "rb") as file:
        while data := await file.read(_CHUNK):
            yield data

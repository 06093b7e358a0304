"""A file of a daemon's, piece by piece; where the connection breaks it goes on from the byte that is missing."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import anyio

from sandbox_skills.client.connection import FailedError, Request
from sandbox_skills.client.errors import ServerAnswerError
from sandbox_skills.outgoing.connection import chunks_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import httpx

    from sandbox_skills.client.connection import Connection

_PARTIAL = 206


@dataclass(slots=True)
class _Progress:
    """What has come of a file: bytes, and the tag of the version that they are of."""

    taken: int = 0
    tag: str = ""


async def download(connection: Connection, request: Request) -> AsyncGenerator[bytes]:
    """Yields the bytes of a file. Raises ServerAnswerError where another one lies there after a break.

    Attempts are counted from the last byte that came.
    """
    progress, attempt, policy = _Progress(), 0, connection.options.retry
    while True:
        before = progress.taken
        try:
            async with aclosing(_pieces(connection, request, progress)) as pieces:
                async for piece in pieces:
                    yield piece
        except FailedError as failed:
            attempt = 1 if progress.taken > before else attempt + 1
            if not failed.passing or attempt >= policy.attempts:
                raise failed.error from failed.__cause__
            await anyio.sleep(policy.wait(attempt, failed.asked))
        else:
            return


async def _pieces(connection: Connection, request: Request, progress: _Progress) -> AsyncGenerator[bytes]:
    async with connection.stream(_rest(request, progress)) as response:
        left_out = _left_out(response, progress)
        async with chunks_of(response) as chunks:
            async for chunk in chunks:
                piece = chunk[left_out:]
                left_out -= min(left_out, len(chunk))
                progress.taken += len(piece)
                if piece:
                    yield piece


def _rest(request: Request, progress: _Progress) -> Request:
    # Lengths and ranges are those of the bytes as they are kept.
    headers = {**request.headers, "Accept-Encoding": "identity"}
    if progress.taken:
        headers["Range"] = f"bytes={progress.taken}-"
        if progress.tag:
            headers["If-Range"] = progress.tag
    return replace(request, headers=headers)


def _left_out(response: httpx.Response, progress: _Progress) -> int:
    """Returns how many bytes at the beginning of an answer are there already; raises where they are of another file."""
    tag = response.headers.get("etag", "")
    if progress.taken and tag != progress.tag:
        raise ServerAnswerError("the file changed while it was fetched", hint="fetch it again")
    progress.tag = tag
    if response.status_code != _PARTIAL:
        return progress.taken
    if not response.headers.get("content-range", "").startswith(f"bytes {progress.taken}-"):
        raise ServerAnswerError("the server sends another part of the file than was asked for")
    return 0

"""A skill as a request brings it: bounded in bytes and time, and nothing of it left when the request is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from sandbox_skills.daemon.api.forms import PARTS_HINT, FormFiles, boundary_of
from sandbox_skills.daemon.errors import BodyError, BodyTooLargeError, RequestStalledError
from sandbox_skills.daemon.service.skill_upload import Upload
from sandbox_skills.spec import KIB

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from starlette.requests import Request

    from sandbox_skills.install.limits import FetchLimits

PIECE = 64 * KIB
"""Bytes that are written at once: a client may send each by itself, and a thread costs as much for one as for these."""

ARCHIVE_FIELDS = frozenset({"file"})
FOLDER_FIELDS = frozenset({"files[]", "files"})


async def received(request: Request, incoming: Path, limits: FetchLimits) -> Upload:
    """Returns the upload that a request has as its body, its files in the directory `incoming`.

    Raises BodyError for what is no upload, BodyTooLargeError for one over `limits`, RequestStalledError for one that
    takes longer than they say.
    """
    boundary = boundary_of(request.headers.get("content-type", ""))
    folder = incoming / "received"
    folder.mkdir()
    body = _body(request, limits.download_bytes)
    try:
        with anyio.fail_after(limits.seconds):
            return await _form(body, boundary, folder, limits)
    except TimeoutError as error:
        raise RequestStalledError(f"the body took more than {limits.seconds:g} seconds") from error


async def _form(body: AsyncIterator[bytes], boundary: bytes, folder: Path, limits: FetchLimits) -> Upload:
    # A form may have a few fields beside its files.
    with FormFiles(boundary, folder, max_parts=limits.unpacked.entries + 8) as form:
        async for data in body:
            await to_thread.run_sync(form.write, data)
        form.end()
    return upload_of(form)


def upload_of(form: FormFiles) -> Upload:
    """Returns what a form has sent; raises BodyError for one with neither an archive nor files, or with both. Pure."""
    unknown = form.files.keys() - ARCHIVE_FIELDS - FOLDER_FIELDS
    if unknown:
        raise BodyError(f"no file is taken under the name {min(unknown)[:80]!r}", hint=PARTS_HINT)
    archives = [file for name in ARCHIVE_FIELDS for file in form.files.get(name, ())]
    files = [file for name in sorted(FOLDER_FIELDS) for file in form.files.get(name, ())]
    if len(archives) == 1 and not files:
        return Upload(archive=archives[0].path)
    if files and not archives:
        return Upload(files=tuple(files))
    raise BodyError("the form must have one archive, or the files of one folder", hint=PARTS_HINT)


async def _body(request: Request, most: int) -> AsyncIterator[bytes]:
    """Yields the body in pieces as it comes; raises BodyTooLargeError as soon as it is, or says that it will be."""
    too_large = BodyTooLargeError(f"the body has more than {most} bytes", hint="send a smaller skill")
    told = request.headers.get("content-length", "")
    if told.isascii() and told.isdigit() and int(told[:20]) > most:
        raise too_large
    left, held = most, bytearray()
    pieces = request.stream()
    while True:
        data = await anext(pieces, None)
        if data is None:
            yield bytes(held)
            return
        left -= len(data)
        if left < 0:
            raise too_large
        held += data
        if len(held) >= PIECE:
            yield bytes(held)
            held.clear()

"""Takes the newest commit of a Git repository as a tar file; nothing of the repository is run or checked out."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from sandbox_skills.errors import SourceError
from sandbox_skills.install import leash
from sandbox_skills.install.source import REPOSITORY_SCHEMES, repository_url
from sandbox_skills.spec import KIB
from sandbox_skills.workspace.paths import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyio.abc import Process

    from sandbox_skills.install.limits import FetchLimits
    from sandbox_skills.install.source import Source

LOOK_SECONDS = 0.1
"""Between two looks at how much has arrived: a fast line brings 12 MiB in that time."""

MAX_COMPLAINT = 500
"""Characters of Git's own words in an error: its last lines say what is wrong."""

COMPLAINT_BYTES = 64 * KIB
"""Room for Git's words, taken before the disk can be full: a hundred lines that nobody reads to the end."""

HARDENED = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "protocol.allow=never",
    "submodule.recurse=false",
    "fetch.fsckObjects=true",
    "fetch.uriProtocols=",
    "gc.auto=0",
    "http.followRedirects=false",
    "transfer.bundleURI=false",
)
"""Git settings that win over the user's: no program of a stranger, no protocol and no host but those that are named,
and no work that goes on after its end."""

DISK_WORDS = {
    b"No space left on device": errno.ENOSPC,
    b"Disk quota exceeded": errno.EDQUOT,
    b"Read-only file system": errno.EROFS,
}
"""By what Git says that the disk is at fault, in the C locale."""

TOO_LARGE = b"File too large"
"""What it says of a file that may not grow further."""


async def export(source: Source, scratch: Path, limits: FetchLimits) -> Path:
    """Returns a tar file, below the empty directory `scratch`, of the repository's newest commit or a path in it.

    Git's own settings of the user hold, proxies and credentials among them, but nothing asks on the terminal.
    Raises SourceError, and OSError where the disk is at fault.
    """
    url, clone, packed = repository_url(source), scratch / "clone", scratch / "commit.tar"
    local = source.location.startswith("git+/")
    options = [
        "--bare",
        "--depth=1",
        "--single-branch",
        "--no-tags",
        "--template=",
        "--no-recurse-submodules",
    ]
    # A path is copied with all its history unless Git is told to speak its protocol with itself.
    address = Path(url).as_uri() if local else url
    try:
        with anyio.fail_after(limits.seconds):
            await _git(
                ["clone", "--quiet", *options, "--", address, str(clone)], scratch, limits, local=local
            )
            # Attributes of the work tree, which there is none of: else those of the commit could leave files out.
            tree = f"HEAD:{source.path}" if source.path else "HEAD"
            archive = ["archive", "--format=tar", "--worktree-attributes", f"--output={packed}", tree]
            await _git(["--git-dir", str(clone), *archive], scratch, limits, local=local)
    except TimeoutError as error:
        raise SourceError(f"{shown(url)} took more than {limits.seconds:g} seconds") from error
    return packed


async def _git(arguments: Sequence[str], scratch: Path, limits: FetchLimits, *, local: bool) -> None:
    """Runs Git to its end, or ends it where it writes more than the limit."""
    protocols = [*REPOSITORY_SCHEMES, *(["file"] if local else [])]
    settings = [*HARDENED, *(f"protocol.{name}.allow=always" for name in protocols)]
    argv = [*_leashed(limits.repository_bytes), "git"]
    argv += [*(word for setting in settings for word in ("-c", setting)), *arguments]
    complaints = scratch / "complaints"
    with complaints.open("wb") as stderr:
        os.posix_fallocate(stderr.fileno(), 0, COMPLAINT_BYTES)
        # A session of its own has no terminal that Git or ssh could ask for a password on.
        process = await anyio.open_process(
            argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=stderr, start_new_session=True
        )
        async with process:
            try:
                await _watched(process, scratch, limits.repository_bytes)
            finally:
                _end(process)
    if process.returncode:
        raise _failure(_last_words(complaints), limits.repository_bytes)


def _leashed(max_file_bytes: int) -> list[str]:
    """Returns what stands before a command that is to end with this process; raises SourceError without Git."""
    if shutil.which("git") is None:
        raise SourceError("a repository needs the program git", hint="apt-get install git")
    return [sys.executable, "-I", "-S", leash.__file__, str(max_file_bytes), "env", "LC_ALL=C"]


def _last_words(complaints: Path) -> bytes:
    with complaints.open("rb") as file:
        file.seek(-COMPLAINT_BYTES, os.SEEK_END)
        return file.read().strip(b"\0")


def _failure(words: bytes, limit: int) -> SourceError | OSError:
    """Returns the error that Git's own words tell of."""
    if TOO_LARGE in words:
        return _too_large(limit)
    for fault, number in DISK_WORDS.items():
        if fault in words:
            return OSError(number, fault.decode())
    told = words.decode(errors="replace").strip()
    redirected = "error: 30" in told
    return SourceError(
        f"git cannot take it: {shown(told[-MAX_COMPLAINT:])}",
        hint="it leads elsewhere, which is not followed: name that address" if redirected else "",
    )


async def _watched(process: Process, scratch: Path, limit: int) -> None:
    while process.returncode is None:
        with anyio.move_on_after(LOOK_SECONDS):
            await process.wait()
        if await anyio.to_thread.run_sync(_size, scratch) > limit:
            raise _too_large(limit)


def _too_large(limit: int) -> SourceError:
    return SourceError(f"the repository has more than {limit} bytes", hint="name a path in it, or a folder")


def _size(folder: Path) -> int:
    size = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                size += Path(directory, name).lstat().st_size
    return size


def _end(process: Process) -> None:
    """Ends Git with its helpers, which are one session, unless it has ended."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

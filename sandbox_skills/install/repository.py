"""Takes the newest commit of a Git repository as a tar file; nothing of the repository is run or checked out."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from sandbox_skills.errors import SourceError
from sandbox_skills.install.source import REPOSITORY_SCHEMES, repository_url
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

HARDENED = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "protocol.allow=never",
    "submodule.recurse=false",
    "fetch.fsckObjects=true",
    "http.followRedirects=initial",
)
"""Git settings that win over the user's: no program of a stranger, no protocol but those that are named."""


async def export(source: Source, scratch: Path, limits: FetchLimits) -> Path:
    """Returns a tar file, below the empty directory `scratch`, of the repository's newest commit or a path in it.

    Git's own settings of the user hold, proxies and credentials among them, but nothing asks on the terminal.
    Raises SourceError.
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
    argv = ["git", *(word for setting in settings for word in ("-c", setting)), *arguments]
    complaints = scratch / "complaints"
    with complaints.open("wb") as stderr:
        try:
            # A session of its own has no terminal that Git or ssh could ask for a password on.
            process = await anyio.open_process(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise SourceError("a repository needs the program git", hint="apt-get install git") from error
        async with process:
            try:
                await _watched(process, scratch, limits.repository_bytes)
            finally:
                _end(process)
    if process.returncode:
        words = complaints.read_text(encoding="utf-8", errors="replace").strip()
        raise SourceError(f"git cannot take it: {shown(words[-MAX_COMPLAINT:])}")


async def _watched(process: Process, scratch: Path, limit: int) -> None:
    while process.returncode is None:
        with anyio.move_on_after(LOOK_SECONDS):
            await process.wait()
        if await anyio.to_thread.run_sync(_size, scratch) > limit:
            raise SourceError(
                f"the repository has more than {limit} bytes", hint="name a path in it, or a folder"
            )


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

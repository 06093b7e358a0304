"""Where a command puts bytes that it fetches: a new file, or stdout for another program."""

from __future__ import annotations

import os
import secrets
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sandbox_skills.cli.streams import OutputClosedError
from sandbox_skills.errors import OutputError, RequestError

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import BinaryIO

    from sandbox_skills.cli.options import GlobalOptions

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def check_destination(options: GlobalOptions, output: Path | None, *, what: str) -> None:
    """Raises RequestError where stdout has no room for the bytes of `what`: it is a terminal, or --json's."""
    if output is None and (options.as_json or sys.stdout.isatty()):
        why = "--json has stdout for itself" if options.as_json else f"{what} is not fit for a terminal"
        raise RequestError(f"{why}: name a file with -o")


def destination(output: Path | None, *, force: bool) -> AbstractContextManager[BinaryIO]:
    """Gives the new file that was named, as `new_file` does, or stdout."""
    return _standard_output() if output is None else new_file(output, force=force)


@contextmanager
def _standard_output() -> Generator[BinaryIO]:
    """Gives stdout for bytes; raises OutputClosedError where nobody reads it."""
    try:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    except BrokenPipeError as error:
        raise OutputClosedError from error


@contextmanager
def new_file(path: Path, *, force: bool) -> Generator[BinaryIO]:
    """Gives a file that appears at `path` when the block ends well; one that is there stays, unless by `force`.

    A link at `path` is never followed: with `force` it is what gets replaced.
    """
    partial = path.parent / f".{secrets.token_hex(8)}.partial"
    try:
        # Linking below would tell as well, but only after all of it was fetched.
        if not force and os.path.lexists(path):
            raise FileExistsError(0, "it is there already")
        with os.fdopen(os.open(partial, _NEW_FILE, 0o666), "wb") as file:
            yield file
        if force:
            partial.replace(path)
        else:
            os.link(partial, path)
    except OSError as error:
        hint = "choose another file, or replace it with --force" if isinstance(error, FileExistsError) else ""
        raise OutputError(f"{path} cannot be written: {error.strerror}", hint=hint) from error
    finally:
        with suppress(OSError):  # not made, or moved already
            partial.unlink()

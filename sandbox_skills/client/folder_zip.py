"""A skill's folder as a zip. No link is followed or packed: what is sent is what lies in the folder. Blocking."""

from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from sandbox_skills.errors import InputError, SkillUnsafeError
from sandbox_skills.spec import KIB, MIB, UNSTAGED_FOLDERS

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES = 512 * MIB
"""Of a folder that is packed: far more than any server takes, so that a wrong one does not fill the disk."""

MAX_FILES = 50_000
"""Files of such a folder."""

SKILL_FILE = "SKILL.md"

_CHUNK = 256 * KIB
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip knows: equal folders make equal archives."""


def write_zip(folder: Path, target: IO[bytes]) -> str:
    """Writes the folder into `target` below its own name, and returns that name.

    Raises InputError for what is no skill's folder or cannot be read, SkillUnsafeError for a link, a device or too
    much.
    """
    root = _root(folder)
    try:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            packed = 0
            for count, (path, descriptor) in enumerate(_files(root), start=1):
                packed += _add(archive, PurePosixPath(root.name) / path, descriptor, MAX_BYTES - packed)
                if count >= MAX_FILES:
                    raise SkillUnsafeError(f"{folder} has more than {MAX_FILES} files")
    except OSError as error:
        raise InputError(
            f"{folder} cannot be packed: {error.filename or ''} {error.strerror or error}"
        ) from error
    return root.name


def _root(folder: Path) -> Path:
    root = folder.resolve()  # the user named it: where it is a link, what counts is where that leads
    if not root.is_dir():
        raise InputError(f"{folder} is no folder")
    if not (root / SKILL_FILE).is_file():
        raise InputError(f"{folder} is no skill: it has no {SKILL_FILE}")
    return root


def _files(root: Path) -> Iterator[tuple[PurePosixPath, int]]:
    """Yields every file by its path in the folder, opened; the descriptor is the consumer's to close."""
    for place, folders, files, place_fd in os.fwalk(root, onerror=_raise):
        folders[:] = sorted(set(folders) - UNSTAGED_FOLDERS)
        here = PurePosixPath(Path(place).relative_to(root).as_posix())
        for name in sorted([*folders, *files]):
            mode = os.stat(name, dir_fd=place_fd, follow_symlinks=False).st_mode
            if stat.S_ISREG(mode):
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                yield here / name, os.open(name, flags, dir_fd=place_fd)
            elif not stat.S_ISDIR(mode):
                kind = "a link" if stat.S_ISLNK(mode) else "no regular file"
                raise SkillUnsafeError(
                    f"{here / name} is {kind}",
                    hint="a server takes files and folders only: put the file itself there",
                )


def _add(archive: zipfile.ZipFile, name: PurePosixPath, descriptor: int, most: int) -> int:
    with open(descriptor, "rb") as source:  # a descriptor, not a path
        status = os.fstat(descriptor)
        entry = zipfile.ZipInfo(_spelled(name), _EPOCH)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (stat.S_IFREG | (0o755 if status.st_mode & 0o111 else 0o644)) << 16
        taken = 0
        with archive.open(entry, "w", force_zip64=status.st_size > zipfile.ZIP64_LIMIT) as sink:
            while data := source.read(_CHUNK):
                taken += len(data)
                if taken > most:
                    raise SkillUnsafeError(f"the folder has more than {MAX_BYTES // MIB} MiB")
                sink.write(data)
    return taken


def _spelled(name: PurePosixPath) -> str:
    try:
        str(name).encode()
    except UnicodeEncodeError as error:
        raise SkillUnsafeError(f"{str(name)!r} is no UTF-8 name") from error
    return str(name)


def _raise(error: OSError) -> None:
    raise error

"""The build context: sources and downloads as one tar that is the same bytes whoever packs it."""

from __future__ import annotations

import io
import tarfile
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from sandbox_skills.engines.image_source import Sources

MTIME = 1_577_836_800
"""2020, for every file: the same context is the same bytes, and zip cannot hold times before 1980."""


def write_context(file: IO[bytes], sources: Sources, downloads: Mapping[str, Path]) -> None:
    """Writes the tar that a build of `sources` reads and rewinds `file`."""
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, source in sorted(sources.files.items()):
            info = tarfile.TarInfo(name)
            info.size = len(source.data)
            info.mode = 0o700 if source.executable else 0o600
            tar.addfile(_plain(info), io.BytesIO(source.data))
        for top, path in sorted(downloads.items()):
            for found, inner in _walk(path, top):
                tar.add(found, arcname=inner, recursive=False, filter=_plain)
    file.seek(0)


def _walk(path: Path, name: str) -> Iterator[tuple[Path, str]]:
    yield path, name
    if path.is_dir():
        for found in sorted(path.rglob("*")):
            yield found, f"{name}/{found.relative_to(path).as_posix()}"


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Drops who packed it and when; keeps only whether a file may be executed."""
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    info.mtime = MTIME
    info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
    return info

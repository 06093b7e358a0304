"""Unpacks an archive that nobody trusts into an empty directory. Blocking.

What it is shows in its bytes, not in its name. Files and directories come first and links last, so that nothing is
ever written through a link; where a link leads is checked when the skill is taken. Owners, times and all mode bits
but the executable one are left behind.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from contextlib import contextmanager
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, cast

from sandbox_skills.directories import disk_failed
from sandbox_skills.errors import SourceError
from sandbox_skills.install.accountant import Accountant
from sandbox_skills.install.members import BoundedReads, Member, tar_members, zip_members
from sandbox_skills.spec import KIB
from sandbox_skills.workspace.paths import MAX_PATH_BYTES, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
    from pathlib import Path, PurePosixPath

    from sandbox_skills.install.limits import FetchLimits

CHUNK = 256 * KIB

COMPRESSIONS: Mapping[bytes, Callable[[Path], IO[bytes]]] = MappingProxyType(
    {
        b"\x1f\x8b": cast("Callable[[Path], IO[bytes]]", gzip.open),
        b"BZh": cast("Callable[[Path], IO[bytes]]", bz2.open),
        b"\xfd7zXZ\x00": cast("Callable[[Path], IO[bytes]]", lzma.open),
    }
)
"""How the first bytes of a compressed tar tell what packed it."""

_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_TAR_MAGIC = (b"ustar", 257)

_BROKEN = (
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What the standard library raises for damaged archives of its kinds."""


def unpack(archive: Path, target: Path, limits: FetchLimits) -> None:
    """Fills the empty directory `target` from a zip or a tar, plain or packed with gzip, bzip2 or xz.

    Raises SourceError for anything else, anything damaged, any name that could be two files or lie elsewhere, and
    anything over the limits, and OSError where the disk is at fault; what was unpacked by then stays for the caller
    to remove.
    """
    try:
        packed_bytes = archive.stat().st_size
        accountant = Accountant(
            limits.unpacked,
            packed_bytes=packed_bytes,
            ratio=limits.ratio,
            free_bytes=limits.ratio_free_bytes,
        )
        with _members(archive, target.parent, accountant) as members:
            write_members(members, target, accountant)
    except _BROKEN as error:
        if isinstance(error, OSError) and disk_failed(error):
            raise
        raise SourceError(
            f"{shown(archive.name)} cannot be unpacked: {str(error) or type(error).__name__}"
        ) from error


@contextmanager
def _members(archive: Path, scratch: Path, accountant: Accountant) -> Generator[Iterator[Member]]:
    """Opens an archive of any kind; `scratch` holds the plain tar while it is read."""
    with archive.open("rb") as file:
        head = file.read(512)
        file.seek(0)
        reads = cast("IO[bytes]", BoundedReads(file))
        if head.startswith(_ZIP):
            with zipfile.ZipFile(reads) as opened:
                accountant.expect(len(opened.infolist()))
                yield zip_members(opened)
        elif _is_tar(head):
            with tarfile.open(fileobj=reads, mode="r:") as opened_tar:
                yield tar_members(opened_tar)
        else:
            yield from _compressed(archive, head, scratch, accountant)


def _compressed(
    archive: Path, head: bytes, scratch: Path, accountant: Accountant
) -> Iterator[Iterator[Member]]:
    opener = next((opener for magic, opener in COMPRESSIONS.items() if head.startswith(magic)), None)
    if opener is None:
        raise SourceError(f"{shown(archive.name)} is neither a zip nor a tar")
    plain = scratch / "plain.tar"
    with opener(archive) as source, plain.open("xb") as sink:
        while data := source.read(CHUNK):
            accountant.count(len(data))
            sink.write(data)
    accountant.reset()
    with (
        plain.open("rb") as file,
        tarfile.open(fileobj=cast("IO[bytes]", BoundedReads(file)), mode="r:") as opened,
    ):
        yield tar_members(opened)
    plain.unlink()


def _is_tar(head: bytes) -> bool:
    magic, offset = _TAR_MAGIC
    return head[offset:].startswith(magic)


def write_members(members: Iterable[Member], target: Path, accountant: Accountant) -> None:
    """Writes members below the directory `target`; raises SourceError.

    All are admitted before the first is written: an archive that says itself what is wrong with it costs no disk.
    """
    links: dict[PurePosixPath, str] = {}
    for member in _admitted(members, accountant):
        path = target / member.path
        if member.kind == "directory":
            path.mkdir(parents=True, exist_ok=True)
        elif member.kind == "link":
            links[member.path] = _link_target(member)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_file(member, path, accountant)
    for link, leads_to in links.items():
        (target / link).parent.mkdir(parents=True, exist_ok=True)
        (target / link).symlink_to(leads_to)


def _admitted(members: Iterable[Member], accountant: Accountant) -> list[Member]:
    """Returns the members; there are no more of them than the accountant takes."""
    admitted: list[Member] = []
    for member in members:
        accountant.admit(member)
        admitted.append(member)
    return admitted


def _write_file(member: Member, path: Path, accountant: Accountant) -> None:
    with member.open() as source, path.open("xb") as file:
        while data := source.read(CHUNK):
            accountant.count(len(data))
            file.write(data)
        os.fchmod(file.fileno(), stat.S_IMODE(0o755 if member.executable else 0o644))


def _link_target(member: Member) -> str:
    with member.open() as source:
        leads_to = source.read(MAX_PATH_BYTES + 1).decode()
    if not leads_to or len(leads_to) > MAX_PATH_BYTES or "\0" in leads_to:
        raise SourceError(f"the link {shown(str(member.path))} leads to no path")
    return leads_to

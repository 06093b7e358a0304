"""The root file system of bubblewrap's boxes: the runner image's, exported once, never the host's. Blocking.

rootfs/             0700, ours alone
  lock              held by whoever makes or removes one
  NAME/             one for each content of the image, so that another version's is never taken for ours
    lock            held shared by engines that use it
    about.json      what it was made from
    root/           the tree
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tarfile
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, cast

from sandbox_skills.directories import make_private, remove_tree
from sandbox_skills.engines.image_source import Target, read_sources
from sandbox_skills.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

HINT = "sandbox-skills image build --engine bubblewrap"

UNFINISHED = "new-"
"""Begins the name of a folder that is being made."""

NAME_DIGITS = 12
"""Of the content's SHA-256, as in the tag of the image."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which root file system is meant: this version's own of a target, or that of an image of the user's."""

    target: Target = "slim"
    image: str | None = None

    @property
    def name(self) -> str:
        """The folder that holds it."""
        if self.image is None:
            return f"{self.target}-{read_sources(self.target).content[:NAME_DIGITS]}"
        return f"own-{hashlib.sha256(self.image.encode()).hexdigest()[:NAME_DIGITS]}"

    @property
    def hint(self) -> str:
        """The command that makes it."""
        return HINT if self.image or self.target == "slim" else f"{HINT} --target {self.target}"

    def __str__(self) -> str:
        return f"image {self.image}" if self.image else f"the runner image ({self.target})"


@dataclass(frozen=True, slots=True)
class RootFileSystem:
    """One that is there. `identity` names the content it was made from."""

    path: Path
    identity: str


def find(folder: Path, wanted: Wanted) -> RootFileSystem | None:
    """Returns what `folder` has of it, None where it was not made yet."""
    # The launcher, which is told this path, has a working directory of its own.
    place = folder.absolute() / wanted.name
    try:
        about: dict[str, Any] = json.loads((place / "about.json").read_bytes())
    except (OSError, ValueError):
        return None
    return RootFileSystem(place / "root", str(about.get("identity")))


@contextmanager
def used(folder: Path, wanted: Wanted) -> Generator[RootFileSystem]:
    """Keeps it from being removed while the block lasts; raises ImageError where it is not there."""
    with _held(folder / wanted.name / "lock", fcntl.LOCK_SH, wanted):
        found = find(folder, wanted)
        if found is None:
            raise ImageError(f"the root file system of {wanted} is missing", hint=wanted.hint)
        yield found


@contextmanager
def _held(lock: Path, how: int, wanted: Wanted) -> Generator[None]:
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ImageError(f"the root file system of {wanted} is missing", hint=wanted.hint) from error
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)


def make(
    folder: Path, wanted: Wanted, identity: str, fill: Callable[[Path], None], *, fresh: bool = False
) -> RootFileSystem:
    """Makes sure that it is there, of that identity; `fill` puts the tree into an empty directory.

    Those who share `folder` take turns. Raises ImageError where the disk fails, and what `fill` raises.
    """
    try:
        make_private(folder)
        with _turn(folder):
            sweep(folder)
            found = find(folder, wanted)
            if found and found.identity == identity and not fresh:
                return found
            _make(folder, wanted, identity, fill)
    except OSError as error:
        raise ImageError(f"the root file system of {wanted} cannot be made: {error}") from error
    return RootFileSystem(folder / wanted.name / "root", identity)


def _make(folder: Path, wanted: Wanted, identity: str, fill: Callable[[Path], None]) -> None:
    new = Path(tempfile.mkdtemp(dir=folder, prefix=UNFINISHED))
    try:
        (new / "root").mkdir(mode=0o755)
        fill(new / "root")
        (new / "root").chmod(0o755)
        (new / "lock").touch(mode=0o600)
        (new / "about.json").write_text(json.dumps({"identity": identity, "of": str(wanted)}))
        place = folder / wanted.name
        _make_way(place, wanted)
        new.rename(place)
    except BaseException:
        remove_tree(new)
        raise


def _make_way(place: Path, wanted: Wanted) -> None:
    if place.exists() and not _remove_unused(place):
        raise ImageError(f"the root file system of {wanted} is in use", hint="close the sandboxes on it")


def prune(folder: Path, keep: frozenset[str]) -> list[str]:
    """Removes every root file system whose name is not in `keep` and that no engine uses; returns their names."""
    if not folder.is_dir():
        return []
    with _turn(folder):
        sweep(folder)
        places = [path for path in sorted(folder.iterdir()) if path.is_dir() and path.name not in keep]
        return [path.name for path in places if _remove_unused(path)]


def sweep(folder: Path) -> None:
    """Removes what was being made when its process died, and what took its place. Call it with the turn."""
    for path in folder.glob(f"{UNFINISHED}*"):
        remove_tree(path)


def _remove_unused(place: Path) -> bool:
    with suppress(OSError):
        descriptor = os.open(place / "lock", os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(place)
        finally:
            os.close(descriptor)
        return True
    return False


@contextmanager
def _turn(folder: Path) -> Generator[None]:
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Readable(Protocol):
    """What a tar is read from, from start to end."""

    def read(self, size: int, /) -> bytes: ...


def unpack(stream: Readable, root: Path) -> None:
    """Unpacks the tar of a root file system; devices stay out. Raises ImageError.

    As root the owners are kept: a box may read what is everyone's, and write nothing. A daemon made the tar by walking
    a tree, so that no name in it leads through a link; names that lead out by themselves are refused.
    """
    try:
        with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|") as archive:
            archive.extractall(root, filter=_taken, numeric_owner=True)  # noqa: S202  # the filter keeps it inside
    except tarfile.TarError as error:
        raise ImageError(f"the root file system cannot be unpacked: {error}") from error


def _taken(member: tarfile.TarInfo, root: str) -> tarfile.TarInfo | None:
    """Cheaper than tarfile's own filters, which resolve every path twice: that trebled the time of an export."""
    for name in (member.name, *([member.linkname] if member.islnk() else [])):
        if name.startswith("/") or ".." in name.split("/"):
            raise tarfile.OutsideDestinationError(member, f"{root}/{name}")
    if member.isdev() or member.name == ".dockerenv":
        return None
    return member.replace(mode=member.mode & 0o1777, deep=False)

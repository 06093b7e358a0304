"""The one path rule: an untrusted name becomes a path inside its root, or PathEscapeError.

The first half is text only. The second half opens files on the host without following a link, so that whoever
can write below a root cannot lead us out of it.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from sandbox_skills.errors import PathEscapeError
from sandbox_skills.spec import WORKSPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

MAX_PATH_BYTES = 4095
"""Linux's PATH_MAX is 4,096 and counts the closing NUL."""

MAX_NAME_BYTES = 255
"""NAME_MAX of every file system that a workspace or a store lies on."""

MAX_LINKS = 8
"""Links followed for one path: honest chains have two or three, and a hostile tree pays us for each."""

MAX_SHOWN = 120
"""Characters of an untrusted path in an error: enough to find it, too few to flood a terminal."""

_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DRIVES = re.compile(r"^(?:\s*[A-Za-z]:)+")
_SEPARATORS = re.compile(r"[/\\]")
_INSIDE = "give a path that stays inside"
_UNSAFE_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def box_path(
    text: str, *, base: PurePosixPath = WORKSPACE, roots: Sequence[PurePosixPath] = (WORKSPACE,)
) -> PurePosixPath:
    """Returns the absolute box path that `text` names, read from `base` where it is relative.

    The result is `base`, one of `roots`, or below one of them, and has no `..`. Links are not looked at: the
    runner opens it without following them. Raises PathEscapeError.
    """
    start = () if text.startswith("/") else base.parts[1:]
    path = PurePosixPath("/", *_normalise(text, start))
    if not any(path.is_relative_to(root) for root in (*roots, base)):
        allowed = " and ".join(dict.fromkeys(str(root) for root in (base, *roots)))
        raise PathEscapeError(f"path {shown(text)} leaves {allowed}", hint=_INSIDE)
    if len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise PathEscapeError(f"path {shown(text)} is longer than {MAX_PATH_BYTES} bytes")
    return path


def relative_inside(text: str) -> PurePosixPath:
    """Returns `text` as a relative path without `..`; `.` is the root itself. Raises PathEscapeError."""
    if text.startswith("/"):
        raise PathEscapeError(f"path {shown(text)} is absolute", hint="give it relative to its root")
    return PurePosixPath(*_normalise(text, ()))


def _normalise(text: str, start: Sequence[str]) -> list[str]:
    if not text:
        raise PathEscapeError("the path is empty")
    if len(text.encode(errors="surrogatepass")) > MAX_PATH_BYTES:
        raise PathEscapeError(f"path {shown(text)} is longer than {MAX_PATH_BYTES} bytes")
    parts = list(start)
    for part in text.split("/"):
        if part == "..":
            if not parts:
                raise PathEscapeError(f"path {shown(text)} leaves its root", hint=_INSIDE)
            parts.pop()
        elif part not in {"", "."}:
            if fault := name_fault(part):
                raise PathEscapeError(f"path {shown(text)}: a name in it {fault}")
            parts.append(part)
    return parts


def name_fault(name: str) -> str:
    """Returns why `name` cannot be one name of a path, as the end of a sentence; empty where it can."""
    if name in {"", ".", ".."} or "/" in name:
        return "is not the name of a file"
    if "\0" in name:
        return "contains a NUL"
    if "\\" in name:
        # Legal on Linux, a separator elsewhere: an artifact or archive of that name would escape there.
        return "contains a backslash"
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        return "is not UTF-8"
    return f"is longer than {MAX_NAME_BYTES} bytes" if length > MAX_NAME_BYTES else ""


def safe_file_name(text: str, *, default: str = "upload") -> str:
    r"""Returns one harmless file name for a foreign one: `../a.txt` and `C:\x\a.txt` become `a.txt`.

    Control characters are dropped; a name that is too long loses its middle and keeps its suffix; where
    nothing is left the name is `default`.
    """
    last = _SEPARATORS.split(text.strip().rstrip("/\\"))[-1]
    name = _shortened(_DRIVES.sub("", _UNSAFE_CHARACTERS.sub("", last)).strip()).strip()
    return default if name in {"", ".", ".."} else name


def _shortened(name: str) -> str:
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    suffix = PurePosixPath(name).suffix
    if len(suffix.encode()) > MAX_NAME_BYTES // 2:
        suffix = ""
    stem = name.encode()[: MAX_NAME_BYTES - len(suffix.encode())].decode(errors="ignore")
    return stem + suffix


def shown(text: str) -> str:
    """Returns untrusted text as one quoted, escaped, short line for an error."""
    return repr(text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…")


def follow_inside(path: PurePosixPath, readlink: Callable[[PurePosixPath], str | None]) -> PurePosixPath:
    """Returns where the relative `path` leads when its links are followed, none of which may leave the root.

    `readlink` gives the target of a path that has no link above its last name, or None where it is no link.
    Raises PathEscapeError for an absolute target, one that leaves even for a moment, and a loop.
    """
    todo = list(reversed(path.parts))
    done: list[str] = []
    links = 0
    while todo:
        part = todo.pop()
        if part == "..":
            if not done:
                raise PathEscapeError(f"a link on {shown(str(path))} leaves its root")
            done.pop()
            continue
        target = readlink(PurePosixPath(*done, part))
        if target is None:
            done.append(part)
            continue
        links += 1
        if links > MAX_LINKS:
            raise PathEscapeError(f"the links on {shown(str(path))} form a loop")
        if target.startswith("/"):
            raise PathEscapeError(f"a link on {shown(str(path))} is absolute: {shown(target)}")
        todo.extend(reversed(PurePosixPath(target).parts))
    return PurePosixPath(*done)


@contextmanager
def open_root(root: Path) -> Generator[int]:
    """Gives a descriptor of the directory `root` for the functions below; `root` itself may not be a link.

    Raises OSError as `os.open` does, NotADirectoryError for a link.
    """
    root_fd = os.open(root, _DIRECTORY)
    try:
        yield root_fd
    finally:
        os.close(root_fd)


def link_target(root_fd: int, path: PurePosixPath) -> str | None:
    """Returns the target of the link at `path`; None where there is no link, or nothing at all."""
    try:
        return os.readlink(path, dir_fd=root_fd)
    except OSError as error:
        if error.errno in {errno.EINVAL, errno.ENOENT, errno.ENOTDIR}:
            return None
        raise


def inside(root: Path, text: str) -> Path:
    """Returns the host path of `text` below `root`, which no link on the way leads elsewhere now.

    What does not exist yet is fine. Another process may change the tree after this: where that matters, use
    `open_inside`. Raises PathEscapeError.
    """
    relative = relative_inside(text)
    with open_root(root) as root_fd:
        for end in range(1, len(relative.parts) + 1):
            if link_target(root_fd, PurePosixPath(*relative.parts[:end])) is not None:
                raise PathEscapeError(f"path {shown(text)} goes through a link")
    return root / relative


def open_inside(root_fd: int, path: PurePosixPath, flags: int, mode: int = 0o600) -> int:
    """Opens `path` below `root_fd` as `os.open` does and returns the descriptor; no link is followed.

    Each directory is opened from the one above it, so a swap in between cannot lead out. A FIFO does not
    block. Raises PathEscapeError where a link stands in the way, else OSError as `os.open` does.
    """
    *parents, name = relative_inside(str(path)).parts or (".",)
    with ExitStack() as stack:
        at = root_fd
        for parent in parents:
            at = _open_at(at, parent, _DIRECTORY)
            stack.callback(os.close, at)
        return _open_at(at, name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)


def open_following_inside(root_fd: int, path: PurePosixPath, flags: int) -> int:
    """Opens like `open_inside`, but follows links that stay below the root. Raises PathEscapeError, OSError."""
    return open_inside(root_fd, follow_inside(path, partial(link_target, root_fd)), flags)


def _open_at(directory_fd: int, name: str, flags: int, mode: int = 0) -> int:
    try:
        return os.open(name, flags, mode, dir_fd=directory_fd)
    except OSError as error:
        # Linux says ELOOP for a link, but ENOTDIR where a directory was asked for.
        if (
            error.errno in {errno.ELOOP, errno.ENOTDIR}
            and link_target(directory_fd, PurePosixPath(name)) is not None
        ):
            raise PathEscapeError(f"{shown(name)} is a link") from error
        raise

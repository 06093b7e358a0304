"""What a user may name as the source of a skill: a folder, an archive, an address or a repository.

Pure, but for a look at whether a local path exists.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from sandbox_skills.errors import SourceError
from sandbox_skills.workspace.paths import relative_inside, shown

if TYPE_CHECKING:
    from pathlib import Path

ARCHIVES = (".zip", ".tar", ".tgz", ".tbz2", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz", ".skill")
"""Endings of an address that leads to an archive; `.skill` is a zip. Any other address is a repository."""

REPOSITORY_SCHEMES = ("https", "http", "ssh")
"""What Git may speak. Its own `git:` is neither encrypted nor authenticated, and `ext:` runs programs."""

_SCP_FORM = re.compile(r"[A-Za-z0-9][\w.-]*@[A-Za-z0-9][\w.-]*:[^/:\s][^\s]*", re.ASCII)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")

SourceKind = Literal["folder", "archive", "address", "repository"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a skill is; `path` leads to it inside, "" where it is found by looking. `location` can be parsed again."""

    kind: SourceKind
    location: str
    path: str = ""


def parse_source(text: str, path: str = "", *, base: Path) -> Source:
    """Returns what `text` names; `#PATH` after an address says the same as `path`. Relative paths start from `base`.

    Raises SourceError, and PathEscapeError for a path that leaves.
    """
    if (
        not text
        or text.startswith("-")
        or any(char.isspace() and char != " " for char in text)
        or "\0" in text
    ):
        raise SourceError(f"{shown(text)} is no source of skills", hint=_HINT)
    forced = text.startswith("git+")
    location = text.removeprefix("git+")
    if _SCHEME.match(location) or (_SCP_FORM.fullmatch(location) and not (base / location).exists()):
        location, _, fragment = location.partition("#")
        if fragment and path:
            raise SourceError("give the path either after # or with --path")
        path = fragment or path
        location, kind = _remote(location, forced=forced)
    else:
        location = str(base / location)
        kind = "repository" if forced else _local_kind(base / location)
    inner = str(relative_inside(path)) if path else ""
    return Source(kind, f"git+{location}" if forced else location, "" if inner == "." else inner)


_HINT = "name a folder, an archive, an http(s) address of an archive, or a Git repository (git+PATH for a local one)"


def repository_url(source: Source) -> str:
    """Returns what Git is to clone."""
    return source.location.removeprefix("git+")


def _remote(location: str, *, forced: bool) -> tuple[str, SourceKind]:
    """Returns an address as Git understands it, and what it leads to."""
    if _SCP_FORM.fullmatch(location):
        return location, "repository"
    try:
        parts = urlsplit(location)
        host, password = parts.hostname, parts.password
    except ValueError as error:
        raise SourceError(f"{shown(location)} is no address: {error}") from error
    if parts.scheme not in REPOSITORY_SCHEMES:
        raise SourceError(f"{parts.scheme}: addresses are not fetched", hint=_HINT)
    if not host or host.startswith("-"):
        raise SourceError(f"{shown(location)} names no host")
    if password or (parts.username and parts.scheme != "ssh"):
        # It would end up in the lock file.
        raise SourceError("an address may not hold a password", hint="use Git's credential helper")
    # Git takes `HTTP:` for the name of a program of its own.
    location = parts.scheme + location[len(parts.scheme) :]
    is_archive = parts.path.lower().endswith(ARCHIVES) and parts.scheme != "ssh" and not forced
    return location, "address" if is_archive else "repository"


def _local_kind(path: Path) -> SourceKind:
    try:
        if path.is_dir():
            return "folder"
        if path.is_file():
            return "archive"
    except OSError as error:
        raise SourceError(f"{shown(str(path))} cannot be read: {error.strerror}") from error
    raise SourceError(f"there is no {shown(str(path))}", hint=_HINT)

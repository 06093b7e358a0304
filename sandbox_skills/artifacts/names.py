"""Names of artifacts and the references that later calls use for them. Pure."""

from __future__ import annotations

import re

from sandbox_skills.errors import ArtifactNameError, PathEscapeError

SCHEME = "artifact://"

MAX_NAME_BYTES = 1024
"""As long as a key of the common object stores, so that one of them can stand behind the protocol."""

MAX_VERSION = 10**18 - 1
"""The most digits that always fit the 64-bit integers of databases."""

_MAX_DIGITS = len(str(MAX_VERSION))

_MAX_SHOWN = 120
"""Characters of an untrusted name in an error: enough to find it, too few to flood a terminal."""

_NOT_TEXT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_WITH_VERSION = re.compile(r"(.*)@([0-9]+)", re.DOTALL)


def check_name(name: str) -> None:
    r"""Raises ArtifactNameError where `name` is no artifact's, PathEscapeError where as a path it would escape.

    A name is at most MAX_NAME_BYTES of UTF-8 without control characters. It may have slashes, but it is no path:
    `a//b` and `a/b` are two names. `user:` at its start means nothing here.
    """
    if not name:
        raise ArtifactNameError("the artifact's name is empty")
    if fault := text_fault(name):
        raise ArtifactNameError(f"artifact name {shown(name)} {fault}")
    if name.startswith(SCHEME):
        # Else the same text would mean one artifact as a name and another as a reference.
        raise ArtifactNameError(f"{shown(name)} is a reference, not a name")
    if name.startswith("/") or "\\" in name or ".." in name.split("/"):
        # A backslash is a separator elsewhere: a file of that name would escape there.
        raise PathEscapeError(f"artifact name {shown(name)} is absolute, or has `..` or a backslash")


def text_fault(text: str) -> str:
    """Returns why a store cannot keep `text`, as the end of a sentence; empty where it can."""
    if found := _NOT_TEXT.search(text):
        return f"contains {found.group()!r}"
    return f"is longer than {MAX_NAME_BYTES} bytes" if len(text.encode()) > MAX_NAME_BYTES else ""


def parse_ref(ref: str) -> tuple[str, int | None]:
    """Returns name and version of `artifact://name[@N]`; the version is None, the latest, where none is given.

    N is decimal digits after the last `@`; where there are none, all of it is the name. Raises as `check_name` does.
    """
    if not ref.startswith(SCHEME):
        raise ArtifactNameError(f"{shown(ref)} does not start with {SCHEME}")
    rest = ref.removeprefix(SCHEME)
    found = _WITH_VERSION.fullmatch(rest)
    name, digits = found.groups() if found else (rest, "")
    check_name(name)
    if len(digits) > _MAX_DIGITS:
        raise ArtifactNameError(f"the version of {shown(ref)} has more than {_MAX_DIGITS} digits")
    return name, int(digits) if digits else None


def format_ref(name: str, version: int) -> str:
    """Returns the reference that `parse_ref` reads as this name and version."""
    return f"{SCHEME}{name}@{version}"


def shown(text: str) -> str:
    """Returns untrusted text as one quoted, escaped, short line for an error."""
    return repr(text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…")

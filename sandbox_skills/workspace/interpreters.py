"""Which program runs a script: its extension decides, then its shebang, never the executable bit."""

from __future__ import annotations

import os
import re
import stat
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING

from sandbox_skills.errors import CommandError, ScriptNotFoundError
from sandbox_skills.workspace.paths import open_following_inside, open_root, relative_inside, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

HEAD_BYTES = 256
"""Linux reads no more of a file to find its shebang."""

EXTENSIONS: Mapping[str, str] = MappingProxyType(
    {
        ".py": "python3",
        ".pyz": "python3",
        ".sh": "bash",
        ".bash": "bash",
        ".js": "node",
        ".mjs": "node",
        ".cjs": "node",
        ".ts": "node",
        ".mts": "node",
        ".cts": "node",
        ".pl": "perl",
    }
)
"""Node of the image strips types, and finds out by itself whether a `.js` is a module."""

PROGRAMS: Mapping[str, str] = MappingProxyType(
    {
        "python": "python3",
        "python3": "python3",
        "bash": "bash",
        "sh": "sh",
        "dash": "sh",
        "node": "node",
        "nodejs": "node",
        "perl": "perl",
        "awk": "awk",
        "gawk": "awk",
        "sed": "sed",
    }
)
"""What a shebang may name, by the last part of its path, and the program of the image for it."""

LAUNCHERS: Mapping[str, str] = MappingProxyType({"uv": "python3", "pipx": "python3"})
"""Installers that would fetch what a script needs first; here there is no network, so the script just runs."""

_SHELLS = frozenset({"sh", "bash"})
_PYTHON_3 = re.compile(r"^python3\.\d+$")
_ASSIGNMENT = re.compile(r"^\w+=", re.ASCII)
_ENV_SPLIT = re.compile(r"^(?:-[a-z]*S|--split-string=?)")
_ENV_WITH_VALUE = frozenset({"-u", "--unset", "-C", "--chdir"})


def script_argv(root: PurePosixPath, script: str, args: Sequence[str], head: bytes) -> tuple[str, ...]:
    """Returns the argument list that runs `script`, a path relative to the skill's box path `root`.

    `head` is the beginning of the file. Raises PathEscapeError for the path and CommandError where nothing
    known can run it.
    """
    path = relative_inside(script)
    if any("\0" in arg for arg in args):
        raise CommandError("an argument contains a NUL")
    return (*_interpreter(path, head), str(root / path), *args)


def read_head(root: Path, script: str) -> bytes:
    """Returns the first HEAD_BYTES of a script of the skill at the host path `root`.

    Links are followed inside the skill only. Raises ScriptNotFoundError where there is no such regular file,
    PathEscapeError where the path leaves the skill.
    """
    path = relative_inside(script)
    try:
        with open_root(root) as root_fd:
            script_fd = open_following_inside(root_fd, path, os.O_RDONLY)
    except OSError as error:
        raise ScriptNotFoundError(f"the skill has no script {shown(script)}: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(script_fd).st_mode):
            raise ScriptNotFoundError(f"{shown(script)} in the skill is not a file")
        return os.read(script_fd, HEAD_BYTES)
    finally:
        os.close(script_fd)


def _interpreter(path: PurePosixPath, head: bytes) -> tuple[str, ...]:
    named, options = _shebang(head)
    by_shebang = _program(named)
    program = EXTENSIONS.get(path.suffix.lower()) or by_shebang
    if program is None:
        raise CommandError(
            f"script {shown(str(path))} {_why_unknown(named, head)}",
            hint=f"known are {', '.join(EXTENSIONS)}, and a shebang that names one of {', '.join(PROGRAMS)}",
        )
    # `#!/bin/bash -e` is part of what the script means, as long as it speaks of the program that runs it.
    same = by_shebang == program or {by_shebang, program} <= _SHELLS
    return (program, *options) if same else (program,)


def shebang_program(head: bytes) -> str | None:
    """Returns the program of the image that a shebang asks for, None where there is none."""
    named, _ = _shebang(head)
    return _program(named)


def _why_unknown(named: str, head: bytes) -> str:
    if head.startswith(b"\x7fELF"):
        return "is a compiled program and no script: name its path in a command"
    if named:
        return f"asks for {shown(named)}, which is not in the image"
    return "has neither a known extension nor a shebang"


def _program(named: str) -> str | None:
    if _PYTHON_3.match(named):
        return "python3"
    return PROGRAMS.get(named) or LAUNCHERS.get(named)


def _shebang(head: bytes) -> tuple[str, tuple[str, ...]]:
    """Returns the program that a shebang names, without its directory, and its options; "" where there is none."""
    line = head.removeprefix(b"\xef\xbb\xbf").splitlines()[:1]
    if not line or not line[0].startswith(b"#!"):
        return "", ()
    words = line[0][2:].decode(errors="replace").split()
    if words and PurePosixPath(words[0]).name == "env":
        words = _after_env(words[1:])
    if not words:
        return "", ()
    named = PurePosixPath(words[0]).name
    return named, () if named in LAUNCHERS else tuple(words[1:])


def _after_env(words: list[str]) -> list[str]:
    """Returns the command in the arguments of `env`: its own options and assignments are dropped."""
    while words:
        word, *rest = words
        if match := _ENV_SPLIT.match(word):
            glued = word[match.end() :]
            words = [glued, *rest] if glued else rest
        elif word in _ENV_WITH_VALUE:
            words = rest[1:]
        elif word.startswith("-") or _ASSIGNMENT.match(word):
            words = rest
        else:
            break
    return words

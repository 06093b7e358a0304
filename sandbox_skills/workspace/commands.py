"""What can be an argument list, and what a skill has to be run."""

from __future__ import annotations

import os
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from sandbox_skills.errors import CommandError
from sandbox_skills.spec import KIB, MIB
from sandbox_skills.workspace.interpreters import EXTENSIONS
from sandbox_skills.workspace.paths import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_WORD_BYTES = 128 * KIB - 1
"""Linux's MAX_ARG_STRLEN, which bounds one argument and counts the closing NUL."""

MAX_COMMAND_BYTES = MIB
"""Linux takes about 2 MiB of arguments and environment together: each may have half."""

MAX_NAMED = 10
"""Scripts that a hint names: most skills have fewer."""

_MAX_COMPARED = 1_000
"""Scripts that are looked at for it: comparing them takes tens of milliseconds."""


def check_words(words: Sequence[str]) -> None:
    """Raises CommandError where `words` cannot be the argument list of a program."""
    if not words or not words[0].strip():
        raise CommandError("the command is empty", hint="give a program and its arguments")
    total = 0
    for word in words:
        size = _size(word)
        total += size + 1
        if size > MAX_WORD_BYTES:
            raise CommandError(
                f"an argument of {size} bytes is longer than {MAX_WORD_BYTES}",
                hint="give long text as standard input or as an input file",
            )
    if total > MAX_COMMAND_BYTES:
        raise CommandError(f"the arguments have {total} bytes, more than {MAX_COMMAND_BYTES}")


def _size(word: str) -> int:
    if "\0" in word:
        raise CommandError(f"the command contains a NUL: {shown(word)}")
    try:
        return len(word.encode())
    except UnicodeEncodeError as error:
        raise CommandError(f"the command is not UTF-8: {shown(word)}") from error


def scripts_hint(root: Path, wanted: str) -> str:
    """Returns a sentence that names the scripts of the skill at `root`, those most like `wanted` first."""
    names = sorted(islice(_scripts(root), _MAX_COMPARED))
    if not names:
        return "the skill has no scripts"
    names.sort(key=lambda name: SequenceMatcher(None, name, wanted).ratio(), reverse=True)
    more = ", …" if len(names) > MAX_NAMED else ""
    return f"the skill has {', '.join(map(shown, names[:MAX_NAMED]))}{more}"


def _scripts(root: Path) -> Iterator[str]:
    for folder, _, files in os.walk(root):
        for name in files:
            path = PurePosixPath(Path(folder, name).relative_to(root))
            if path.suffix.lower() in EXTENSIONS or path.parts[0] == "scripts":
                yield str(path)

"""Which script of a skill a model means: it names one as the instructions do, which are not always exact. Blocking."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from sandbox_skills.errors import PathEscapeError, ScriptNotFoundError
from sandbox_skills.workspace.commands import MAX_NAMED, scripts_hint
from sandbox_skills.workspace.interpreters import read_head
from sandbox_skills.workspace.paths import open_root, relative_inside, shown
from sandbox_skills.workspace.skill_tree import StageLimits, scan

if TYPE_CHECKING:
    from pathlib import Path

_USUAL = PurePosixPath("scripts")
"""Where the specification wants scripts, and instructions often leave it out."""


def find_script(root: Path, asked: str) -> str:
    """Returns the path of a script in the skill folder at `root`: as asked, below `scripts/`, or by its bare name.

    A bare name counts where exactly one file below has it. Raises PathEscapeError for a path that leaves the skill,
    ScriptNotFoundError that names the scripts there are, SkillUnsafeError.
    """
    try:
        return _found(root, asked)
    except PathEscapeError as error:
        raise PathEscapeError(error.message, hint=_hint(root, asked)) from error


def _found(root: Path, asked: str) -> str:
    path = relative_inside(asked)
    for candidate in (path, _USUAL / path):
        if _is_file(root, str(candidate)):
            return str(candidate)
    named = _named(root, path.name) if len(path.parts) == 1 else []
    if len(named) == 1:
        return named[0]
    if named:
        several = ", ".join(map(shown, named[:MAX_NAMED]))
        raise ScriptNotFoundError(
            f"several files of the skill are named {shown(asked)}", hint=f"Name one by its path: {several}."
        )
    raise ScriptNotFoundError(f"the skill has no script {shown(asked)}", hint=_hint(root, asked))


def _hint(root: Path, asked: str) -> str:
    hint = scripts_hint(root, asked)
    return f"{hint[:1].upper()}{hint[1:]}."


def _is_file(root: Path, path: str) -> bool:
    try:
        read_head(root, path)
    except ScriptNotFoundError:
        return False
    return True


def _named(root: Path, name: str) -> list[str]:
    try:
        with open_root(root) as root_fd:
            tree = scan(root_fd, StageLimits())
    except OSError:
        return []  # the skill has gone: staging says so
    return [str(entry.path) for entry in tree.entries if entry.kind == "file" and entry.path.name == name]

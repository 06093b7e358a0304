"""Where a box's directories are when there is no box: its names in commands and variables become the host's. Pure.

Only text that the host hands over is changed. A script that spells `/workspace` itself finds nothing there; `$WORK_DIR`
and the links in a skill's folder lead to the right place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from sandbox_skills.engines.box import TMP
from sandbox_skills.spec import HANDLERS, SKILLS, WORKSPACE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sandbox_skills.spec import Command

_DIRECTORY = re.compile(rf"(?<![\w.~/-])({WORKSPACE}|{SKILLS})(?=/|\Z|[^\w.-])", re.ASCII)
"""One of the two directories as the start of a path, and not as a part of a longer one."""

_STAGED = re.compile(rf"(?<![\w.~/-]){SKILLS}/(\w+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class HostPaths:
    """The directories of one box on this host."""

    workspace: Path
    skills: Path
    tmp: Path
    handlers: Path

    def text(self, text: str) -> str:
        """Returns `text` with the box's directories named as they are here."""
        names = {str(WORKSPACE): str(self.workspace), str(SKILLS): str(self.skills)}
        return _DIRECTORY.sub(lambda match: names[match[1]], text)

    def path(self, path: PurePosixPath) -> PurePosixPath:
        """Returns where a path of the box is."""
        return PurePosixPath(self.text(str(path)))

    def _source(self, word: str) -> str:
        """Returns where what calls a handler is, if `word` names that: only the image has it compiled."""
        name = word.removeprefix(f"{HANDLERS}/")
        return word if name == word else str(self.handlers / name.replace(".pyc", ".py"))

    def command(self, command: Command) -> Command:
        """Returns the command with its arguments, variables and directory named as they are here."""
        env = {name: self.text(value) for name, value in command.env.items()}
        if env.get("TMPDIR") == TMP:
            env["TMPDIR"] = str(self.tmp)
        argv = tuple(self.text(self._source(word)) for word in command.argv)
        return replace(command, argv=argv, env=env, cwd=self.path(command.cwd))


def staged_names(texts: Iterable[str]) -> set[str]:
    """Returns the names of staged skills that the texts speak of."""
    return {name for text in texts for name in _STAGED.findall(text)}

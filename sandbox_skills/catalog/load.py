"""Loads one skill by its path, as `validate` and `run PATH` need it. Blocking."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.catalog.diagnostics import Rule, diagnostic
from sandbox_skills.catalog.parse import Checked, ParseOptions, check_skill
from sandbox_skills.catalog.skill_file import FILENAME, os_reason, pick, read_skill_file

if TYPE_CHECKING:
    from sandbox_skills.catalog.diagnostics import Mode


def load_skill(path: str | os.PathLike[str], *, mode: Mode = "lenient") -> Checked:
    """Returns what is in a skill's directory, or in its SKILL.md; a file that cannot be read is a finding too."""
    target = Path(os.path.realpath(path))
    try:
        if target.is_dir():
            names = (entry.name for entry in target.iterdir())
            target /= pick(names, FILENAME, any_case=mode == "lenient") or FILENAME
        data = read_skill_file(str(target)).data
    except OSError as error:
        return Checked(None, (diagnostic(Rule.FILE_UNREADABLE, os_reason(error)),))
    return check_skill(data, target, ParseOptions(mode=mode))

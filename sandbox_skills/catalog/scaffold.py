"""A new skill to start from: it follows the specification, runs, and has a test case that passes. Pure."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from sandbox_skills.catalog import scaffold_templates as templates
from sandbox_skills.catalog.fields import MAX_NAME
from sandbox_skills.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Mapping

Language = Literal["python", "node", "bash"]

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Form:
    """What a language brings: the program that runs a script, its ending, what it needs, and the two scripts."""

    program: str
    ending: str
    needs: str
    script: str
    handler: str


_FORMS: Mapping[Language, _Form] = MappingProxyType(
    {
        "python": _Form(
            *("python3", ".py", "Python 3.11 or newer, standard library only"),
            *(templates.PYTHON, templates.PYTHON_TOOL),
        ),
        "node": _Form("node", ".mjs", "Node 20 or newer", templates.NODE, templates.NODE_TOOL),
        "bash": _Form("bash", ".sh", "bash, and jq where it has a tool", templates.BASH, templates.BASH_TOOL),
    }
)


@dataclass(frozen=True, slots=True)
class NewSkill:
    """A new skill: the text of each file by its path, and a command line that runs it in its folder.

    Files below `scripts/` are to be executable.
    """

    files: Mapping[str, str]
    call: str


def scaffold(name: str, *, language: Language = "python", tool: bool = False) -> NewSkill:
    """Returns a skill to start from. Raises CommandError for a name that the specification does not allow."""
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise CommandError(
            f"{name!r} cannot be the name of a skill",
            hint=f"use lowercase letters, digits and single hyphens between them, at most {MAX_NAME}",
        )
    form = _FORMS[language]
    stem = name.replace("-", "_")
    # The name of a tool begins with a letter.
    tool_name = stem if stem[0].isalpha() else f"run_{stem}"[:MAX_NAME]
    file = f"{tool_name if tool else stem}{form.ending}"
    argument = shlex.quote('{"name": "Ada"}') if tool else "Ada"
    words = {
        "name": name,
        "tool": tool_name,
        "file": file,
        "needs": form.needs,
        "call": f"{form.program} scripts/{file} {argument}",
    }
    files = {
        "SKILL.md": templates.TOOL_SKILL if tool else templates.SKILL,
        f"scripts/{file}": form.handler if tool else form.script,
        "tests/basic.yaml": templates.CASES,
        **({"tools.json": templates.MANIFEST} if tool else {}),
    }
    return NewSkill({path: _filled(text, words) for path, text in files.items()}, words["call"])


def _filled(text: str, words: Mapping[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda match: words[match[1]], text)

"""Output patterns as people and models write them, made into globs relative to the workspace. Pure."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from sandbox_skills.errors import PathEscapeError, PatternError
from sandbox_skills.spec import WORKSPACE
from sandbox_skills.workspace.layout import WORKSPACE_VARIABLES, expand_variable
from sandbox_skills.workspace.paths import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import PurePosixPath

MAX_PATTERN = 1024
"""Characters of one pattern: four times what a long path in a workspace has."""

MAX_ALTERNATIVES = 64
"""Patterns that the braces of one pattern may stand for: `{a,b}` ten times over would be 1,024."""

_INSIDE_ONLY = "files are collected from the workspace only, as by out/**"

_WILD = re.compile(r"[*?\[]")
_SET = re.compile(r"\[!?+\]?+[^\]]*\]")
"""A character set. `]` right after the opening stands for itself, as in a shell: hence possessive."""


def parse_patterns(
    texts: Iterable[str], *, variables: Mapping[str, str] = WORKSPACE_VARIABLES
) -> tuple[str, ...]:
    """Returns the globs that `texts` stand for, braces expanded, each once, in their order.

    Blank texts and those that name the workspace itself stand for no file and are dropped. Raises PatternError
    and PathEscapeError as `parse_pattern` does.
    """
    globs: dict[str, None] = {}
    for text in texts:
        if text.strip():
            globs |= {parse_pattern(one, variables=variables): None for one in expand_braces(text.strip())}
    globs.pop(".", None)
    return tuple(globs)


def parse_pattern(text: str, *, variables: Mapping[str, str] = WORKSPACE_VARIABLES) -> str:
    """Returns one glob relative to the workspace: `/workspace/out/*`, `$OUTPUT_DIR/*` and `./out/*` are `out/*`.

    `*`, `?` and `[…]` match within a name, `**` any number of directories; braces are plain characters here.
    `variables` maps names to absolute box paths. `.` is the workspace itself. Raises PathEscapeError for what
    leaves the workspace, PatternError for what cannot be read.
    """
    stripped = text.strip()
    _check_text(stripped)
    path = expand_variable(stripped, variables)
    segments = [part for part in _below_workspace(path, text).split("/") if part not in {"", "."}]
    for segment in segments:
        _check_segment(segment, text)
    return "/".join(_without_repeats(segments)) or "."


def literal_patterns(path: PurePosixPath) -> tuple[str, str]:
    """Returns globs for the path itself and for all below it, whatever characters it has; relative to the workspace."""
    glob = _WILD.sub(r"[\g<0>]", str(path.relative_to(WORKSPACE) if path.is_absolute() else path))
    return glob, f"{glob}/**"


def _check_text(text: str) -> None:
    if not text:
        raise PatternError("the pattern is empty")
    if len(text) > MAX_PATTERN:
        raise PatternError(f"the pattern {shown(text)} is longer than {MAX_PATTERN} characters")
    if "\0" in text:
        raise PatternError(f"the pattern {shown(text)} contains a NUL")
    if "\\" in text:
        raise PatternError(
            f"the pattern {shown(text)} contains a backslash",
            hint="put / between names, and write [*] for a character that would match others",
        )
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise PatternError(f"the pattern {shown(text)} is not UTF-8")


def _below_workspace(path: str, text: str) -> str:
    if not path.startswith("/"):
        return path
    root = str(WORKSPACE)
    if path != root and not path.startswith(f"{root}/"):
        raise PathEscapeError(
            f"the pattern {shown(text)} lies outside {root}",
            hint=_INSIDE_ONLY,
        )
    return path[len(root) :]


def _check_segment(segment: str, text: str) -> None:
    if segment == "..":
        raise PathEscapeError(f"the pattern {shown(text)} contains '..'", hint=_INSIDE_ONLY)
    plain = _SET.sub("x", segment)
    if "[" in plain:
        raise PatternError(f"the pattern {shown(text)} has a '[' without its ']'")
    if "**" in plain and segment != "**":
        raise PatternError(
            f"the pattern {shown(text)} has '**' beside other characters",
            hint="'**' stands alone between slashes, as in out/**/*.txt",
        )


def _without_repeats(segments: list[str]) -> list[str]:
    # `**/**` matches what `**` does, but costs a matcher a power more.
    return [after for before, after in pairwise(["", *segments]) if (before, after) != ("**", "**")]


def expand_braces(text: str) -> tuple[str, ...]:
    """Returns what `{a,b}` in `text` stands for, outermost and leftmost first, as a shell would.

    Braces without a comma are plain characters, `${…}` is a variable. Raises PatternError where more than
    MAX_ALTERNATIVES come out.
    """
    _check_text(text)
    pending = [text]
    done: list[str] = []
    while pending:
        current = pending.pop()
        group = _first_group(current)
        if group is None:
            done.append(current)
            continue
        start, end = group[0], group[-1]
        for left, right in reversed(list(pairwise(group))):
            pending.append(current[:start] + current[left + 1 : right] + current[end + 1 :])
        if len(pending) + len(done) > MAX_ALTERNATIVES:
            raise PatternError(f"the braces of {shown(text)} stand for more than {MAX_ALTERNATIVES} patterns")
    return tuple(done)


def _first_group(text: str) -> list[int] | None:
    """Returns the places of `{`, its commas and `}` of the leftmost group that has a comma."""
    opened: list[list[int]] = []
    closed: list[list[int]] = []
    index = 0
    while index < len(text):
        character = text[index]
        if text.startswith("${", index):
            index = max(text.find("}", index), index)
        elif character == "{":
            opened.append([index])
        elif character == "," and opened:
            opened[-1].append(index)
        elif character == "}" and opened:
            group = [*opened.pop(), index]
            closed += [group] if len(group) > 2 else []  # noqa: PLR2004 - `{` and `}` alone
        index += 1
    return min(closed, default=None)

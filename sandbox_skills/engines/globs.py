"""Collection patterns, matched against relative paths. Pure; the runner reads patterns by the same rules in its file.

The host asks once more whether a path that the box named matches what was asked for. Pattern and path may both be
hostile, so matching takes time in the product of their lengths at most.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sandbox_skills.errors import PathEscapeError, PatternError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class Glob:
    """One pattern: `*`, `?`, `[…]` within a name, `**` for any directories; a trailing `**` is every file below.

    Names that begin with a dot match like others. A `[` without its `]` stands for itself. Raises PatternError for
    what cannot be read, PathEscapeError for what is not below the workspace.
    """

    def __init__(self, pattern: str) -> None:
        names = [name for name in pattern.split("/") if name not in {"", "."}]
        if pattern.startswith("/") or ".." in names:
            raise PathEscapeError(f"the pattern {pattern!r} leaves the workspace")
        if not names:
            raise PatternError("the pattern names nothing")
        names += ["*"] if names[-1] == "**" else []
        self._segments = tuple(None if name == "**" else _name_pattern(name) for name in names)

    def matches(self, path: str) -> bool:
        """Whether the whole path matches, its names parted by single slashes."""
        folder, _, name = path.rpartition("/")
        return any(test(name) for test in self.within(folder))

    def within(self, folder: str) -> tuple[Callable[[str], object], ...]:
        """Returns tests of which one holds for each name in `folder`, empty for the top, whose path matches.

        Of many files beside each other, the way to their folder is looked at once.
        """
        last = len(self._segments) - 1
        states = self._reached({0})
        for name in folder.split("/") if folder else ():
            states = self._reached(self._after(states, name))
        final = self._segments[last]
        return (final.fullmatch,) if last in states and final is not None else ()

    def _after(self, states: Iterable[int], name: str) -> Iterator[int]:
        """Yields how much of the pattern may be behind us once `name` is."""
        for state in states:
            if state == len(self._segments):
                continue
            segment = self._segments[state]
            if segment is None:
                yield state
            elif segment.fullmatch(name):
                yield state + 1

    def _reached(self, states: Iterable[int]) -> set[int]:
        """Returns the states with those that `**` as no directory at all leads to."""
        reached = set(states)
        for state, segment in enumerate(self._segments):
            if state in reached and segment is None:
                reached.add(state + 1)
        return reached


def _name_pattern(text: str) -> re.Pattern[str]:
    # A star that gives nothing back still finds a match where there is one, as long as it takes the least it can
    # and the last one takes the rest. It keeps the time linear where `*a*a*a*b` would take exponential time.
    first, *later = _between_stars(text)
    *middle, last = later or [""]
    pattern = first + "".join(f"(?>.*?{part})" for part in middle) + (f".*{last}" if later else "")
    try:
        return re.compile(pattern, re.DOTALL)
    except re.error as error:
        raise PatternError(f"the pattern {text!r} cannot be read: {error}") from error


def _between_stars(text: str) -> list[str]:
    """Returns regular expressions for what stands before, between and after the stars of one name."""
    parts = [""]
    index = 0
    while index < len(text):
        end = _class_end(text, index)
        if end:
            parts[-1] += _class(text[index + 1 : end])
        elif text[index] == "*":
            parts.append("")
        else:
            parts[-1] += "." if text[index] == "?" else re.escape(text[index])
        index = max(end, index) + 1
    return parts


def _class_end(text: str, start: int) -> int:
    """Returns where the class that opens at `start` ends, 0 for none; a `]` right after `[` or `[!` is a member."""
    if text[start] != "[":
        return 0
    first = start + 1 + (text[start + 1 : start + 2] == "!")
    return max(text.find("]", first + 1), 0)


def _class(body: str) -> str:
    """Returns a regular expression for the class; raises re.error later where a range runs backwards."""
    negated = body.startswith("!")
    members = body[negated:]
    items: list[str] = []
    index = 0
    while index < len(members):
        is_range = members[index + 1 : index + 2] == "-" and index + 2 < len(members)
        ends = members[index], members[index + 2 * is_range]
        items.append("-".join(map(re.escape, ends)) if is_range else re.escape(ends[0]))
        index += 3 if is_range else 1
    return f"[{'^' * negated}{''.join(items)}]"

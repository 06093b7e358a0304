"""Collection patterns as regular expressions. Pure; the runner reads patterns by the same rules in its own file."""

from __future__ import annotations

import re


def translate(pattern: str) -> re.Pattern[str]:
    """Returns what matches a whole relative path: `*`, `?`, `[…]` within a name, `**` for any directories.

    A trailing `**` is every file below. Names that begin with a dot match like others.
    """
    segments = pattern.split("/")
    parts: list[str] = []
    for index, segment in enumerate(segments):
        last = index == len(segments) - 1
        if segment == "**":
            parts.append(".+" if last else "(?:[^/]+/)*")
        else:
            parts.append(_segment(segment) + ("" if last else "/"))
    return re.compile("".join(parts), re.DOTALL)


def _segment(text: str) -> str:
    parts: list[str] = []
    index = 0
    while index < len(text):
        char = text[index]
        index += 1
        if char == "*":
            parts.append("[^/]*")
        elif char == "?":
            parts.append("[^/]")
        elif char == "[" and (end := _class_end(text, index)) > 0:
            parts.append(_class(text[index:end]))
            index = end + 1
        else:
            parts.append(re.escape(char))
    return "".join(parts)


def _class_end(text: str, start: int) -> int:
    """Returns where the class that opens before `start` ends; a `]` right after `[` or `[!` is a member."""
    after = start + (text[start : start + 1] == "!")
    return text.find("]", after + 1)


def _class(body: str) -> str:
    negated = body.startswith("!")
    members = body[1:] if negated else body
    members = members.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace("^", "\\^")
    return f"(?!/)[{'^' if negated else ''}{members}]"

"""Globs, in time that is linear for hostile ones too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .refusals import Refused
from .workspace import segments, shown

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable


GLOB_PIECE = r"\*+|\?|\[!?+\]?+[^\]]*\]|."
CLASS_ITEM = r"(.)-(.)|(.)"


def _class_regex(body: str) -> str:
    import re  # noqa: PLC0415  most boxes collect nothing

    negated = body.startswith("!")
    items = (
        f"{re.escape(match[1])}-{re.escape(match[2])}" if match[1] else re.escape(match[3])
        for match in re.finditer(CLASS_ITEM, body[negated:], re.DOTALL)
    )
    return f"[{'^' if negated else ''}{''.join(items)}]"


def _piece_regex(piece: str) -> str:
    import re  # noqa: PLC0415  as above

    if piece == "?":
        return "."
    if len(piece) > 1 and piece[0] == "[":
        return _class_regex(piece[1:-1])
    return re.escape(piece)


def segment_regex(segment: str) -> re.Pattern[str]:
    """Returns what a name must match in full. Each star takes as little as it can and never gives back.

    That is enough to find a match where there is one, and keeps the time linear for a hostile pattern.
    """
    import re  # noqa: PLC0415  as above

    between = [""]
    for piece in re.findall(GLOB_PIECE, segment, re.DOTALL):
        if piece[0] == "*":
            between.append("")
        else:
            between[-1] += _piece_regex(piece)
    text, *rest = between
    if rest:
        text += "".join(f"(?>.*?{part})" for part in rest[:-1]) + ".*" + rest[-1]
    try:
        return re.compile(text, re.DOTALL)
    except re.error:
        raise Refused("bad_request", f"pattern {shown(segment)} cannot be read") from None


DEEP = None
"""The segment `**`: any number of directories."""

if TYPE_CHECKING:
    Segment = str | re.Pattern[str] | None
    Steps = tuple[Segment, ...]


def compile_pattern(pattern: str) -> Steps:
    """Returns a pattern as the segments that a path has to pass; raises Refused for one that cannot be read."""
    steps = tuple(_segment(name) for name in segments(pattern))
    return (*steps, segment_regex("*")) if steps[-1] is DEEP else steps


def _segment(name: str) -> Segment:
    if name == "**":
        return DEEP
    return segment_regex(name) if any(sign in name for sign in "*?[") else name


def advance(patterns: Iterable[Steps], name: str) -> set[Steps]:
    """Returns what is left of each pattern after a path took one more name; an empty rest is a match."""
    ahead: set[Steps] = set()
    waiting = list(patterns)
    while waiting:
        steps = waiting.pop()
        if not steps:
            continue
        head, rest = steps[0], steps[1:]
        if head is None:  # which DEEP is
            ahead.add(steps)
            waiting.append(rest)
        elif head == name if isinstance(head, str) else head.fullmatch(name):
            ahead.add(rest)
    return ahead


def last_name(patterns: Iterable[Steps]) -> Callable[[str], object]:
    """Returns what tells whether one more name makes a path match: most names are of files, and end there."""
    ends = {steps[-1] for steps in patterns if steps and not any(steps[:-1])}  # DEEP is none at all here
    tests = [end.__eq__ if isinstance(end, str) else end.fullmatch for end in ends if end is not None]
    return tests[0] if len(tests) == 1 else lambda name: any(test(name) for test in tests)

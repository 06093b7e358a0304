"""A text against what is expected of it. Pure; regular expressions are the author's, and take what time they take."""

from __future__ import annotations

import difflib
import re
from itertools import takewhile
from typing import TYPE_CHECKING

from sandbox_skills.ci.observed import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sandbox_skills.ci.expect import TextExpectation

MAX_EXCERPT = 400
"""Characters of an output in a message: a handful of lines."""

MAX_DIFF_LINES = 120
"""Lines of each side that are compared: difflib takes time in the product, and nobody reads more."""

MAX_LINE = 300
"""Characters of one line in a diff."""

_CONTEXT = 3


def check_text(
    name: str, expected: TextExpectation, text: str, snapshots: Mapping[str, str | None]
) -> Iterator[Failure]:
    """Yields what of a text is not as expected; `name` is what messages call it.

    `snapshots` has the kept texts by name, None for one that is not there.
    """
    if expected.equals is not None:
        yield from _equal(name, expected.equals, text)
    if expected.snapshot is not None:
        yield from _as_kept(name, expected.snapshot, text, snapshots.get(expected.snapshot))
    for wanted in expected.contains or ():
        if wanted not in text:
            yield Failure(f"{name}.contains", f"{name} has no {quoted(wanted)}; {_is(text)}")
    for pattern in expected.regex or ():
        if not re.search(pattern, text, re.MULTILINE):
            yield Failure(f"{name}.regex", f"nothing in {name} matches {quoted(pattern)}; {_is(text)}")
    yield from _absent(name, expected, text)


def _absent(name: str, expected: TextExpectation, text: str) -> Iterator[Failure]:
    absent = expected.absent
    if absent is None:
        return
    if absent.equals is not None and absent.equals == text:
        yield Failure(f"{name}.not.equals", f"{name} is exactly what it must not be: {quoted(text)}")
    for unwanted in absent.contains or ():
        if (start := text.find(unwanted)) >= 0:
            yield Failure(
                f"{name}.not.contains", f"{name} must not have {quoted(unwanted)}; {_at(text, start)}"
            )
    for pattern in absent.regex or ():
        if found := re.search(pattern, text, re.MULTILINE):
            told = f"{name} must not match {quoted(pattern)}; {_at(text, found.start())}"
            yield Failure(f"{name}.not.regex", told)


def _equal(name: str, expected: str, text: str) -> Iterator[Failure]:
    if expected == text:
        return
    if expected.rstrip("\n") == text.rstrip("\n"):
        ends = [len(one) - len(one.rstrip("\n")) for one in (expected, text)]
        told = f"{name} differs only in the line ends at its end: {ends[0]} expected, {ends[1]} found"
        yield Failure(f"{name}.equals", f"{told}; a YAML text after | ends with one, after |- with none")
        return
    yield Failure(f"{name}.equals", f"{name} is not the text that is expected", difference(expected, text))


def _as_kept(name: str, snapshot: str, text: str, kept: str | None) -> Iterator[Failure]:
    if kept is None:
        told = f"the snapshot {snapshot!r} was never kept: --update keeps what {name} is now"
        yield Failure(f"{name}.snapshot", told, difference("", text))
    elif kept != text:
        told = f"{name} is not the snapshot {snapshot!r}; where it is right now, --update keeps it"
        yield Failure(f"{name}.snapshot", told, difference(kept, text))


def difference(expected: str, found: str) -> tuple[str, ...]:
    """Returns a unified diff of two texts around the first lines that differ, cut to what can be read."""
    before, after = expected.splitlines(), found.splitlines()
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    start = max(0, same - _CONTEXT)
    old, new = (
        [line[:MAX_LINE] for line in lines[start : start + MAX_DIFF_LINES]] for lines in (before, after)
    )
    diff = difflib.unified_diff(old, new, "expected", "found", lineterm="", n=_CONTEXT)
    cut = max(len(before), len(after)) > start + MAX_DIFF_LINES
    note = [f"(from line {start + 1}{', cut' if cut else ''})"] if start or cut else []
    return (*diff, *note)


def quoted(text: str) -> str:
    """Returns a text in quotes on one line, cut."""
    return repr(text if len(text) <= MAX_EXCERPT else f"{text[:MAX_EXCERPT]}…")


def _is(text: str) -> str:
    return f"it is {quoted(text)}" if text else "it is empty"


def _at(text: str, start: int) -> str:
    line = text.count("\n", 0, start)
    return f"line {line + 1} is {quoted(text.split(chr(10), line + 1)[line])}"

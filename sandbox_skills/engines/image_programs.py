"""The programs of the image: each is a folder of modules here, and one file in a box, where a module costs a start.

The launcher of bubblewrap's boxes, which starts on the host, is made likewise.

What is joined is the text: modules in the order of their imports, without the imports among themselves and without
what only type checkers read. All their names share one space then, which a test keeps free of clashes. Pure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PROGRAMS = ("runner", "recorder", "fork_server")
"""What a box has as `/opt/sandbox-skills/NAME.py`."""

INTRODUCTION = "__init__"
"""The module that says what the program is: it comes first, and has no code."""

START = "__main__"
"""The module that starts it, if it is one to start: it comes last."""

FUTURE = "from __future__ import annotations\n"

_IMPORTED = re.compile(r"\n(?: {4})?from \.(\w+) import ")
_SIBLING = re.compile(r"\nfrom \.\w+ import (?:\([\w\s,]*\)|[\w, ]*)(?=\n)")
_FOR_TYPES = re.compile(
    r"\nfrom typing import TYPE_CHECKING(?=\n)|\nif TYPE_CHECKING:(?:\n(?: {4}.*)?(?=\n))+"
)
"""Each begins with the end of the line before, and so with a letter to look for: a third of the time."""


def joined(modules: Mapping[str, str]) -> str:
    """Returns the one text of a program, from those of its modules by name.

    Raises ValueError for modules that import each other in a circle, or one that is not there.
    """
    parts = [f"\n# --- {name} ---\n\n{_bare(modules[name])}" for name in _in_order(modules)]
    return "".join([modules[INTRODUCTION], "\n", FUTURE, *parts])


def _in_order(modules: Mapping[str, str]) -> Iterator[str]:
    """Yields each module behind all that it imports."""
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> Iterator[str]:
        if name in above:
            raise ValueError(f"a circle of imports: {' → '.join((*above, name))}")
        if name in done:
            return
        if name not in modules:
            raise ValueError(f"{' → '.join(above)} imports {name}, and there is no such module")
        for below in _IMPORTED.findall(modules[name]):
            yield from visit(below, (*above, name))
        done.add(name)
        yield name

    for name in sorted(modules.keys() - {INTRODUCTION}, key=lambda name: (name == START, name)):
        yield from visit(name, ())


def _bare(text: str) -> str:
    return _SIBLING.sub("", _FOR_TYPES.sub("", text.replace(FUTURE, "", 1)))

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.bubblewrap import launch
from sandbox_skills.engines.image_programs import FUTURE, PROGRAMS, joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[3]
SOURCES = dict.fromkeys(PROGRAMS, ROOT / "runner-image") | {"launcher": Path(launch.__file__).parent}
"""Every program that is modules here, and one text where it runs."""

MOST_LINES = 400

BELOW = f'''"""What lies below."""

{FUTURE}
import os

HERE = os.curdir
'''
ABOVE = f'''"""The start."""

{FUTURE}
from typing import TYPE_CHECKING

from .below import (
    HERE,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from .below import Kind

    Action = Callable[[], Kind]


def act(action: Action) -> str:
    import re

    return HERE


if __name__ == "__main__":
    act(print)
'''
MODULES = {"__init__": '"""A program."""\n', "__main__": ABOVE, "below": BELOW}


def modules(program: str) -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in (SOURCES[program] / program).glob("*.py")}


def test_modules_become_one_text_in_the_order_of_their_imports() -> None:
    text = joined(MODULES)
    assert ast.get_docstring(ast.parse(text)) == "A program."
    assert text.count(FUTURE) == 1
    assert text.index("# --- below ---") < text.index("# --- __main__ ---")
    assert text.index("HERE = ") < text.index("def act")
    assert "import os" in text
    assert "    import re\n" in text


def test_what_only_type_checkers_read_is_left_out() -> None:
    text = joined(MODULES)
    assert "TYPE_CHECKING" not in text
    assert "Callable" not in text
    assert "from ." not in text
    space: dict[str, object] = {"__name__": "program"}
    exec(compile(text, "program", "exec"), space)
    assert callable(space["act"])


def test_the_same_modules_are_the_same_text_in_whatever_order_they_come() -> None:
    assert joined(dict(reversed(MODULES.items()))) == joined(MODULES)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (
            {"below": BELOW + "\nfrom .__main__ import act\n"},
            "a circle of imports: below → __main__ → below",
        ),
        ({"__main__": ABOVE.replace(".below", ".beneath")}, "__main__ imports beneath"),
    ],
)
def test_modules_that_are_no_program_are_refused(changed: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        joined({**MODULES, **changed})


@pytest.fixture(params=SOURCES)
def program(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_no_import_among_its_modules_is_left_in_a_program(program: str) -> None:
    imports = [
        node for node in ast.walk(ast.parse(joined(modules(program)))) if isinstance(node, ast.ImportFrom)
    ]
    assert [node.module for node in imports if node.level] == []


def test_a_name_means_one_thing_in_all_modules_of_a_program(program: str) -> None:
    """What two modules define, or import from elsewhere, is in one space of names when they are joined."""
    meanings: dict[str, set[str]] = {}
    for module, text in modules(program).items():
        for name, meaning in bound(ast.parse(text).body, module):
            meanings.setdefault(name, set()).add(meaning)
    del meanings["TYPE_CHECKING"]
    assert {name: found for name, found in meanings.items() if len(found) > 1} == {}


def bound(statements: Iterable[ast.stmt], module: str) -> Iterator[tuple[str, str]]:
    """Yields the names that statements of a module bind, but for type checkers alone, and where they come from."""
    for node in statements:
        match node:
            case ast.If(test=ast.UnaryOp()):
                yield from bound(node.body, module)
            case ast.FunctionDef() | ast.ClassDef():
                yield node.name, module
            case ast.Import() | ast.ImportFrom(level=0):
                origin = getattr(node, "module", "")
                yield from ((alias.asname or alias.name, f"{origin}.{alias.name}") for alias in node.names)
            case ast.Assign() | ast.AnnAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = (name for target in targets for name in getattr(target, "elts", [target]))
                yield from ((name.id, module) for name in names if isinstance(name, ast.Name))
            case _:
                pass


def test_every_module_of_a_program_is_short(program: str) -> None:
    assert {name for name, text in modules(program).items() if text.count("\n") > MOST_LINES} == set()


def test_every_module_of_a_program_can_be_imported_by_itself(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(SOURCES[program])
    known = set(sys.modules)
    try:
        for name in modules(program):
            importlib.import_module(f"{program}.{name}")
    finally:
        for name in set(sys.modules) - known:
            if name.partition(".")[0] == program:
                del sys.modules[name]

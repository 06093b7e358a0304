"""The library's names: complete, importable, and free until used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import sandbox_skills
import sandbox_skills.artifacts
import sandbox_skills.catalog
import sandbox_skills.client
import sandbox_skills.policy
import sandbox_skills.spec
import sandbox_skills.telemetry
import sandbox_skills.wiring

if TYPE_CHECKING:
    from types import ModuleType


LAZY = (
    sandbox_skills,
    sandbox_skills.artifacts,
    sandbox_skills.catalog,
    sandbox_skills.client,
    sandbox_skills.policy,
    sandbox_skills.spec,
    sandbox_skills.telemetry,
    sandbox_skills.wiring,
)


@pytest.mark.parametrize("package", LAZY, ids=lambda package: package.__name__)
def test_the_names_of_a_package_are_there_and_are_those_that_type_checkers_see(package: ModuleType) -> None:
    names = [name for those in package._HOMES.values() for name in those]
    assert all(getattr(package, name) is not None for name in names)
    assert sorted(names) == sorted(package.__all__)
    assert seen_by_type_checkers(package) == {
        f"{package.__name__}.{home}": set(those) for home, those in package._HOMES.items()
    }


def seen_by_type_checkers(package: ModuleType) -> dict[str, set[str]]:
    """Returns which names are imported from which module where the package only looks as if it imported them."""
    tree = ast.parse(Path(str(package.__file__)).read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    seen: dict[str, set[str]] = {}
    for node in guarded.body:
        assert isinstance(node, ast.ImportFrom)
        seen.setdefault(str(node.module), set()).update(name.name for name in node.names)
    return seen


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = sandbox_skills.no_such_name


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, sandbox_skills; print([m for m in ('docker', 'pydantic', 'anyio', 'yaml') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

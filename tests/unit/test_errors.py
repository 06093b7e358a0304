"""The trees that the docstrings of the errors draw are the trees there are."""

from __future__ import annotations

import re
import traceback
from typing import TYPE_CHECKING

import pytest

from sandbox_skills import errors
from sandbox_skills.daemon import errors as daemon_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

LINE = re.compile(r"^([ │├└─]*)([A-Z]\w+Error)\b")


def drawn(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Yields (class, the one it hangs on) of each branch of a docstring's drawing."""
    above: list[tuple[int, str]] = []
    for line in (module.__doc__ or "").splitlines():
        if (found := LINE.match(line)) is None:
            continue
        depth, name = len(found[1]), found[2]
        above = [one for one in above if one[0] < depth]
        if above:
            yield name, above[-1][1]
        above.append((depth, name))


def built(module: ModuleType) -> Iterator[tuple[str, str]]:
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type)]
    for kind in kinds:
        if issubclass(kind, errors.SandboxSkillsError) and kind.__module__.startswith(module.__name__):
            (base,) = kind.__bases__
            if base is not Exception:
                yield kind.__name__, base.__name__


@pytest.mark.parametrize("module", [errors, daemon_errors], ids=lambda module: module.__name__)
def test_the_drawing_is_the_tree(module: ModuleType) -> None:
    tree = sorted(built(module))
    own = {name for name, _ in tree}
    assert [branch for branch in sorted(drawn(module)) if branch[0] in own] == tree


def test_a_traceback_has_the_next_step() -> None:
    error = errors.SettingsError("no model is chosen", hint="Set model.name.")
    assert traceback.format_exception_only(error)[-1] == "hint: Set model.name.\n"
    assert len(traceback.format_exception_only(errors.SettingsError("a"))) == 1


def test_every_error_is_reached_by_one_name() -> None:
    names = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert names == set(errors.__all__)
    parts = {errors.base, errors.engine, errors.model, errors.request}
    here = {name for part in parts for name, value in vars(part).items() if isinstance(value, type)}
    assert here - {"ClassVar"} == names

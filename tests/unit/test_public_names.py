"""The library's names: complete, importable, and free until used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import sandbox_skills


def test_every_public_name_is_there() -> None:
    for name in sandbox_skills.__all__:
        assert getattr(sandbox_skills, name).__name__ == name
    assert set(sandbox_skills.__all__) == set(sandbox_skills._HOME_OF)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = sandbox_skills.no_such_name


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, sandbox_skills; print([m for m in ('docker', 'pydantic', 'anyio', 'yaml') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

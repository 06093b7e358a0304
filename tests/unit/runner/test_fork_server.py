"""Which programs can be forks: told from their arguments and environment, before anything is started."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox_skills.workspace.layout import run_environment

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


def test_it_starts_with_what_runs_have(fork_server_module: ModuleType) -> None:
    ours = run_environment(None, skill_name="", run_id="r")
    assert fork_server_module.early(ours) == fork_server_module.ENVIRONMENT


@pytest.mark.parametrize(
    ("name", "early"),
    [
        ("PYTHONHASHSEED", True),
        ("LC_ALL", True),
        ("LD_PRELOAD", True),
        ("PYTHONPATH", False),
        ("HOME", False),
    ],
)
def test_some_variables_only_a_start_can_apply(
    fork_server_module: ModuleType, name: str, *, early: bool
) -> None:
    assert (name in fork_server_module.early({name: "x"})) is early


@pytest.mark.parametrize(
    ("words", "plain"),
    [
        ("python3", False),
        ("python3 -", False),
        ("python3 -c", False),
        ("python3 -c x", True),
        ("python3 -m x y", True),
        ("python3 x.py -O", True),
        ("python3 -O x.py", False),
        ("python3 -cpass", False),
        ("python3 --version", False),
    ],
)
def test_options_before_a_program_only_a_start_can_apply(
    fork_server_module: ModuleType, words: str, *, plain: bool
) -> None:
    assert fork_server_module.is_plain(words.split()) is plain


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("json.py", True),
        ("json.pyc", True),
        ("json.cpython-313-x86_64-linux-gnu.so", True),
        ("json/__init__.py", True),
        ("json/data.json", False),
        ("json", False),
        ("json.txt", False),
        ("jsonx.py", False),
    ],
)
def test_a_module_of_a_known_name_is_found(
    fork_server_module: ModuleType, tmp_path: Path, name: str, *, found: bool
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    assert fork_server_module.shadows(str(tmp_path), frozenset({"json"})) is found


def test_a_folder_that_is_not_there_has_none(fork_server_module: ModuleType, tmp_path: Path) -> None:
    assert not fork_server_module.shadows(str(tmp_path / "none"), frozenset({"json"}))


@pytest.mark.parametrize(
    ("code", "status"), [(None, 0), (0, 0), (3, 3), (256, 0), (-1, 255), (True, 1), (2**70, 255), ("told", 1)]
)
def test_an_exit_has_the_status_of_the_interpreter(
    fork_server_module: ModuleType, code: object, status: int
) -> None:
    assert fork_server_module.exit_status(SystemExit(code)) == status

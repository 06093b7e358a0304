"""`make setup` on a Debian whose Python cannot make environments, and what `make clean` leaves.

Programs of the host are stand-ins.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "runner-image" / "host-setup.sh"

WITHOUT_VENV = 'case "$*" in *ensurepip*) exit 1 ;; *version*) echo python3.12-venv ;; esac'
"""A Python as Debian has it before python3-venv is installed."""


def setup(
    folder: Path, python: str = "python3", **programs: str
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    return step(folder, "python", python, **programs)


def step(folder: Path, *words: str, **programs: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Runs a step with stand-ins for programs; returns it, and what apt-get was asked for."""
    apt = f'echo "$@" >> {folder}/apt'
    stands_in = {"python3": WITHOUT_VENV, "apt-get": apt, "id": "echo 0", "grep": "exit 0", **programs}
    for name, text in stands_in.items():
        file = folder / name
        file.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        file.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", str(SCRIPT), *words],
        env={
            "PATH": programs.get("PATH", f"{folder}:/usr/bin:/bin"),
            "ENGINE_SETUP": programs.get("ENGINE_SETUP", ""),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    asked = folder / "apt"
    return done, asked.read_text(encoding="utf-8").splitlines() if asked.exists() else []


def test_a_python_that_makes_environments_needs_nothing(tmp_path: Path) -> None:
    done, asked = setup(tmp_path, python3="exit 0")
    assert (done.returncode, done.stderr, asked) == (0, "", [])


def test_root_on_debian_gets_the_package_and_is_told(tmp_path: Path) -> None:
    done, asked = setup(tmp_path)
    assert done.returncode == 0
    assert asked == ["update --quiet", "install --yes --quiet --no-install-recommends python3-venv"]
    assert "python3 cannot make environments: the package python3-venv is missing" in done.stderr
    assert "installing with apt-get: python3-venv" in done.stderr


def test_another_python_has_a_package_of_its_own(tmp_path: Path) -> None:
    _, asked = setup(tmp_path, "python3.12", **{"python3.12": WITHOUT_VENV})
    assert asked[-1].endswith(" python3.12-venv")


@pytest.mark.parametrize(
    ("programs", "why"),
    [
        ({"ENGINE_SETUP": "no"}, "ENGINE_SETUP=no forbids it"),
        ({"id": "echo 1000"}, "that needs root"),
        ({"grep": "exit 1"}, "this is neither Debian nor Ubuntu"),
    ],
)
def test_elsewhere_it_is_said_what_to_do(tmp_path: Path, programs: dict[str, str], why: str) -> None:
    done, asked = setup(tmp_path, **programs)
    assert (done.returncode, asked) == (1, [])
    assert why in done.stderr
    assert "apt-get install python3-venv" in done.stderr


def test_a_python_that_is_not_there_is_told(tmp_path: Path) -> None:
    done, asked = setup(tmp_path, "no-such-python")
    assert (done.returncode, asked) == (1, [])
    assert "there is no no-such-python" in done.stderr


PROGRAMS = {"bubblewrap": "bwrap", "gvisor": "runsc", "crun": "crun", "chromium": "chromium"}
"""The steps that see that a program is there, and what it is called."""

PACKAGES = {"bubblewrap": "bubblewrap", "gvisor": "runsc", "crun": "crun", "chromium": "chromium"}


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """A PATH with what the script itself runs, and none of the programs that it sees to."""
    folder = tmp_path / "bare"
    folder.mkdir()
    for name in ("sh", "dirname", "env"):
        (folder / name).symlink_to(str(shutil.which(name)))
    return f"{tmp_path}:{folder}"


@pytest.mark.parametrize("word", PROGRAMS)
def test_a_program_that_is_there_is_used_as_it_is(tmp_path: Path, bare: str, word: str) -> None:
    done, asked = step(tmp_path, word, PATH=bare, **{PROGRAMS[word]: "exit 0"})
    assert (done.returncode, done.stderr, asked) == (0, "", [])


@pytest.mark.parametrize("word", PROGRAMS)
def test_root_on_debian_gets_a_program_that_is_missing(tmp_path: Path, bare: str, word: str) -> None:
    done, asked = step(tmp_path, word, PATH=bare)
    assert done.returncode == 0, done.stderr
    assert asked[-1] == f"install --yes --quiet --no-install-recommends {PACKAGES[word]}"


@pytest.mark.parametrize("word", PROGRAMS)
@pytest.mark.parametrize("why", [{"ENGINE_SETUP": "no"}, {"id": "echo 1000"}, {"grep": "exit 1"}], ids=str)
def test_elsewhere_a_program_that_is_missing_is_named(
    tmp_path: Path, bare: str, word: str, why: dict[str, str]
) -> None:
    done, asked = step(tmp_path, word, PATH=bare, **why)
    assert (done.returncode, asked) == (1, [])
    assert f"apt-get install --no-install-recommends {PACKAGES[word]}" in done.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout that has made a store, whose folders cannot be listed or written."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "runner-image").mkdir()
    shutil.copy(SCRIPT, tmp_path / "runner-image")
    copy = tmp_path / ".state/data/store/mounted/copy"
    copy.mkdir(parents=True)
    (copy / "SKILL.md").touch(mode=0o444)
    copy.chmod(0o555)
    copy.parent.chmod(0o311)
    return tmp_path


def clean(checkout: Path) -> str:
    done = subprocess.run(["make", "clean"], cwd=checkout, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


def test_clean_removes_what_was_made_here(checkout: Path) -> None:
    clean(checkout)
    assert sorted(path.name for path in checkout.iterdir()) == ["Makefile", "runner-image"]


def test_clean_leaves_the_state_of_an_engine_that_runs_and_says_so(checkout: Path) -> None:
    own = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()
    (checkout / ".state/dockerd.pid").write_text(f"{os.getpid()} {own[19]}\n", encoding="utf-8")
    assert ".state stays until `make docker-stop`" in clean(checkout)
    assert (checkout / ".state/data/store").is_dir()

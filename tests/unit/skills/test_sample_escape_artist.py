"""The sample skill escape-artist: honest about what is blocked, and harmless where nothing is."""

from __future__ import annotations

import errno
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from tests.unit.skills.conftest import Script

NAMES = [
    "tcp_v4",
    "tcp_v6",
    "dns",
    "write_skill",
    "write_usr",
    "write_etc",
    "setuid_root",
    "mount",
    "unshare_user",
    "read_pid1_memory",
    "read_process_memory",
    "docker_socket",
    "raw_socket",
    "mknod_device",
    "io_uring",
    "ptrace",
    "write_proc_sys",
    "read_shadow",
    "list_skills",
]


@pytest.fixture
def escape(skills: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script as a module; its neighbours are forgotten afterwards, for their names are common."""
    monkeypatch.syspath_prepend(str(skills / "escape-artist" / "scripts"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield importlib.import_module("escape")
    for name in ("escape", "attempts", "kernel"):
        sys.modules.pop(name, None)


def try_one(escape: ModuleType, make: object, seconds: float = 5.0) -> dict[str, object]:
    attempts = importlib.import_module("attempts")
    found: dict[str, object] = escape.attempt_in_child(attempts.Attempt("what", "its guard", make), seconds)
    return found


def test_names_are_stable(script: Script) -> None:
    assert script("escape-artist", "escape.py", "--list").stdout.split() == NAMES


def test_unknown_name_is_refused_with_those_that_exist(script: Script) -> None:
    done = script("escape-artist", "escape.py", "--only", "mount,fly")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown: fly" in done.stderr
    assert "tcp_v4" in done.stderr


def test_success_is_an_escape_and_leaves_nothing(skills: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(skills / "escape-artist", copy, ignore=shutil.ignore_patterns("__pycache__"))
    before = sorted(copy.rglob("*"))
    command = [sys.executable, "-B", str(copy / "scripts" / "escape.py"), "--only", "write_skill"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    report = json.loads(done.stdout)
    assert (done.returncode, report["escaped"]) == (1, ["write_skill"])
    assert set(report["attempts"][0]) == {"name", "what", "blocked", "how", "enforced_by"}
    assert sorted(copy.rglob("*")) == before


@pytest.mark.parametrize(
    ("number", "enforced_by"), [(errno.EROFS, "read-only file system"), (errno.EPERM, "its guard")]
)
def test_error_number_tells_what_blocked(escape: ModuleType, number: int, enforced_by: str) -> None:
    def refused() -> str:
        raise OSError(number, os.strerror(number))

    found = try_one(escape, refused)
    assert (found["blocked"], found["enforced_by"]) == (True, enforced_by)
    assert str(found["how"]).startswith(errno.errorcode[number])


def test_death_by_seccomp_is_blocked(escape: ModuleType) -> None:
    found = try_one(escape, lambda: os.kill(os.getpid(), signal.SIGSYS))
    assert (found["blocked"], found["enforced_by"]) == (True, "seccomp profile")


@pytest.mark.parametrize("make", [lambda: time.sleep(60), lambda: 1 / 0], ids=["hangs", "fails"])
def test_no_answer_is_not_taken_for_blocked(escape: ModuleType, make: object) -> None:
    started = time.monotonic()
    assert try_one(escape, make, seconds=0.2)["blocked"] is False
    assert time.monotonic() - started < 10  # a fifth of a second, of the sixty that it would take


@pytest.mark.root
def test_everything_is_tried_in_time_and_nothing_is_left(skills: Path, tmp_path: Path) -> None:
    """In namespaces of its own: process 1 is the shell here, and there is no network to reach."""
    folder = tmp_path / "skill"
    shutil.copytree(skills / "escape-artist", folder, ignore=shutil.ignore_patterns("__pycache__"))
    shell = f"{sys.executable} -B {folder}/scripts/escape.py; exit $?"
    command = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--net", "sh", "-c", shell]
    started = time.monotonic()
    done = subprocess.run(
        command,
        env={"PATH": os.defpath, "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    # An interpreter starts and ends as well, maybe on a busy machine.
    assert time.monotonic() - started < 3 + 5
    blocked = {row["name"]: row["blocked"] for row in json.loads(done.stdout)["attempts"]}
    assert list(blocked) == NAMES
    assert all(blocked[name] for name in ("tcp_v4", "tcp_v6", "dns"))
    assert not any(blocked[name] for name in ("write_usr", "setuid_root", "list_skills", "read_pid1_memory"))
    assert [path.name for path in tmp_path.iterdir()] == ["skill"]
    assert not [path for top in ("/usr", "/etc") for path in Path(top).glob(".escape-artist-*")]

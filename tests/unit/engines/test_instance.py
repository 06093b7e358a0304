"""Who is alive: a lock that ends with its process, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines import instance as instances
from sandbox_skills.engines.instance import FORGET_SECONDS, Instance, dead_instances, forget_instances
from sandbox_skills.uptime import uptime

if TYPE_CHECKING:
    from pathlib import Path

HOLDER = """
import sys
from pathlib import Path
from sandbox_skills.engines.instance import Instance
print(Instance(Path(sys.argv[1])).id, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "instances"


def other(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    return process, process.stdout.readline().decode().strip()


def test_a_folder_that_is_not_there_has_no_dead(folder: Path) -> None:
    assert dead_instances(folder) == frozenset()


def test_an_instance_lives_until_it_is_closed_and_leaves_nothing(folder: Path) -> None:
    with Instance(folder) as instance:
        assert (folder / instance.id).exists()
        assert dead_instances(folder) == frozenset()
    assert list(folder.iterdir()) == []


def test_only_the_owner_may_look_at_the_folder(folder: Path) -> None:
    with Instance(folder):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_record_that_is_kept_on_closing_is_of_a_dead_one(folder: Path) -> None:
    instance = Instance(folder)
    instance.close(forget=False)
    instance.close()
    assert dead_instances(folder) == {instance.id}


def test_a_dead_instance_is_known_for_a_while_for_what_its_daemon_may_still_do(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = Instance(folder)
    instance.close(forget=False)
    record = folder / instance.id
    # However long it had lived, and whatever the clock says: what counts is when it was first seen dead.
    os.utime(record, (0, 0))
    for _ in range(3):
        forget_instances(folder, [instance.id, "0123456789abcdef"])
        os.utime(record, (0, 0))
        assert dead_instances(folder) == {instance.id}
    later = uptime() + FORGET_SECONDS + 1
    monkeypatch.setattr(instances, "uptime", lambda: later)
    forget_instances(folder, [instance.id])
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("noted", ["dead", "1.2.3", ".", "1" * 64, "\xff"])
def test_a_record_that_says_nothing_of_now_is_written_anew(folder: Path, noted: str) -> None:
    instance = Instance(folder)
    instance.close(forget=False)
    (folder / instance.id).write_text(noted, encoding="latin-1")
    forget_instances(folder, [instance.id])
    assert 0 <= uptime() - float((folder / instance.id).read_text()) < 60


@pytest.mark.parametrize("now", [91834.396899658, 0.0006, 31_536_000.123456789])
def test_what_is_noted_never_lies_ahead_of_now(
    folder: Path, monkeypatch: pytest.MonkeyPatch, now: float
) -> None:
    monkeypatch.setattr(instances, "uptime", lambda: now)
    instance = Instance(folder)
    instance.close(forget=False)
    forget_instances(folder, [instance.id])
    assert float((folder / instance.id).read_text()) == now


def test_two_on_one_folder_are_two(folder: Path) -> None:
    with Instance(folder) as one, Instance(folder) as two:
        assert one.id != two.id
        assert dead_instances(folder) == frozenset()
        two.close(forget=False)
        assert dead_instances(folder) == {two.id}


def test_a_process_that_is_killed_is_a_dead_instance(folder: Path) -> None:
    process, instance_id = other(folder)
    with Instance(folder):
        assert dead_instances(folder) == frozenset()
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert dead_instances(folder) == {instance_id}


def test_asking_does_not_take_the_lock(folder: Path) -> None:
    process, instance_id = other(folder)
    for _ in range(3):
        assert instance_id not in dead_instances(folder)
    process.kill()
    process.communicate()
    assert dead_instances(folder) == {instance_id}
    assert dead_instances(folder) == {instance_id}


def test_a_child_process_does_not_keep_its_parent_alive(folder: Path) -> None:
    instance = Instance(folder)
    with subprocess.Popen(["sleep", "30"], close_fds=False) as child:
        instance.close(forget=False)
        assert dead_instances(folder) == {instance.id}
        child.kill()


def test_a_record_without_a_lock_is_never_seen(folder: Path) -> None:
    folder.mkdir()
    (folder / ".0123456789abcdef").touch()
    assert dead_instances(folder) == frozenset()

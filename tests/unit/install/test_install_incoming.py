"""What a fetch leaves behind when its process is killed goes with the next one; a fetch under way is left alone."""

from __future__ import annotations

import errno
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.errors import EngineError, SettingsError, SourceError
from sandbox_skills.install import unpack as unpacking
from sandbox_skills.install.incoming import incoming_directory, sweep
from sandbox_skills.install.limits import FetchLimits

if TYPE_CHECKING:
    from pathlib import Path

FETCHING = """
import sys
from pathlib import Path
from sandbox_skills.install.incoming import incoming_directory
with incoming_directory(Path(sys.argv[1])) as path:
    (path / "half").write_text("x")
    print(path.name, flush=True)
    sys.stdin.read()
"""


def test_a_fetch_under_way_is_left_alone_and_one_that_was_killed_is_swept(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FETCHING, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        assert sweep(tmp_path) == []
        assert (tmp_path / name / "half").exists()
        process.send_signal(signal.SIGKILL)
        process.wait()
    with incoming_directory(tmp_path) as path:
        assert list(tmp_path.iterdir()) == [path]
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_takes_nothing_else_and_says_what_it_took(tmp_path: Path) -> None:
    (tmp_path / ".incoming-dead" / "deep").mkdir(parents=True)
    (tmp_path / ".incoming-dead" / "deep").chmod(0o000)
    (tmp_path / ".incoming-file").write_text("")
    (tmp_path / ".incoming-link").symlink_to(tmp_path)
    (tmp_path / "sums").mkdir()
    assert sweep(tmp_path) == [".incoming-dead"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".incoming-file", ".incoming-link", "sums"]
    assert sweep(tmp_path / "none") == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_disk_at_fault_is_no_fault_of_the_source(tmp_path: Path, number: int) -> None:
    with pytest.raises(EngineError, match="cannot be written"), incoming_directory(tmp_path / "root"):
        raise OSError(number, "at fault")
    assert list((tmp_path / "root").iterdir()) == []


def test_other_faults_pass(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError), incoming_directory(tmp_path / "root"):
        raise FileExistsError(errno.EEXIST, "there")
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError), incoming_directory(tmp_path / "file"):
        pass


@pytest.mark.parametrize(("number", "expected"), [(errno.ENOSPC, OSError), (errno.ENAMETOOLONG, SourceError)])
def test_unpacking_tells_a_full_disk_from_a_bad_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, expected: type[Exception]
) -> None:
    def failing(*_: object) -> None:
        raise OSError(number, "at fault")

    monkeypatch.setattr(unpacking, "_members", failing)
    (tmp_path / "a.zip").write_bytes(b"PK")
    with pytest.raises(expected, match="at fault"):
        unpacking.unpack(tmp_path / "a.zip", tmp_path, FetchLimits())

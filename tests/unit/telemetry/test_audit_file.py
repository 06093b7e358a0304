"""The audit log on disk: one line for each event, private, rotated, and never a run's problem."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from sandbox_skills.telemetry import AuditEvent, AuditFile, ToolResponse

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

EVENT = AuditEvent("t", "ended", skill="x", ending={"kind": "exited", "code": 0}, command=("echo", "☃\n"))


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_event_is_one_line_of_json(tmp_path: Path) -> None:
    path = tmp_path / "audit" / "runs.jsonl"
    log = AuditFile(path)
    for _ in range(2):
        log.record(EVENT)
    told = json.loads(json.dumps(EVENT.as_dict()))
    assert lines(path) == [told, told]
    assert (told["tenant"], told["command"], told["ending"]["code"]) == ("t", ["echo", "☃\n"], 0)


def test_it_is_this_users_alone(tmp_path: Path) -> None:
    path = tmp_path / "audit" / "runs.jsonl"
    AuditFile(path).record(EVENT)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_it_is_rotated_by_size_and_the_oldest_goes(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    size = len(json.dumps(EVENT.as_dict(), separators=(",", ":")).encode()) + 1
    log = AuditFile(path, max_bytes=2 * size, kept_files=2)
    for _ in range(9):
        log.record(EVENT)
    names = {file.name: len(lines(file)) for file in tmp_path.iterdir()}
    assert names == {"runs.jsonl": 1, "runs.jsonl.1": 2, "runs.jsonl.2": 2}
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}


def test_an_event_larger_than_a_file_is_kept_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    log = AuditFile(path, max_bytes=10)
    for _ in range(2):
        log.record(EVENT)
    assert (len(lines(path)), len(lines(tmp_path / "runs.jsonl.1"))) == (1, 1)


def test_a_link_in_its_place_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").symlink_to(tmp_path / "elsewhere")
    AuditFile(tmp_path / "runs.jsonl").record(EVENT)
    assert not (tmp_path / "elsewhere").exists()


def test_a_disk_that_takes_nothing_is_logged_once_until_it_does_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "runs.jsonl"
    path.mkdir()
    log = AuditFile(path)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            log.record(EVENT)
    assert len(caplog.records) == 1
    path.rmdir()
    log.record(EVENT)
    assert len(lines(path)) == 1


def test_a_part_of_a_line_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.jsonl"
    log = AuditFile(path)
    log.record(EVENT)
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda file, data: write(file, data[:5]))
        log.record(EVENT)
    log.record(EVENT)
    assert len(lines(path)) == 2


def test_writers_of_several_processes_lose_no_event(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    code = (
        "import sys; from pathlib import Path; from sandbox_skills.telemetry import AuditEvent, AuditFile\n"
        "log = AuditFile(Path(sys.argv[1]), max_bytes=20_000, kept_files=50)\n"
        "for n in range(200): log.record(AuditEvent('t', 'ended', run_id=f'{sys.argv[2]}-{n}'))"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, path, str(n)]) for n in range(4)]
    assert [writer.wait(timeout=15) for writer in writers] == [0] * 4
    kept = [row["run_id"] for file in tmp_path.iterdir() for row in lines(file)]
    assert len(kept) == len(set(kept)) == 800


def test_a_tool_response_is_spelled_one_way() -> None:
    event = ToolResponse("skill_load", "call-1", "ok", {"temp:skill:loaded:x": "1"}, tenant="t", session="s")
    assert event.as_dict() == {
        "event": "tool.response",
        "tool": "skill_load",
        "call_id": "call-1",
        "status": "ok",
        "state_delta": {"temp:skill:loaded:x": "1"},
        "code": "",
        "seconds": 0.0,
        "tenant": "t",
        "session": "s",
        "time": event.time,
    }


def test_a_tool_response_is_kept_beside_the_runs_without_what_the_state_holds(tmp_path: Path) -> None:
    log = AuditFile(tmp_path / "runs.jsonl")
    log.record(EVENT)
    log.record(ToolResponse("skill_load", "call-1", "ok", {"temp:key": "a text"}).recorded())
    rows = lines(tmp_path / "runs.jsonl")
    assert [row["event"] for row in rows] == ["run", "tool.response"]
    assert rows[1]["state_delta"] == {"temp:key": ""}

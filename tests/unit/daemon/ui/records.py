"""Runs as the database has them, for pages to show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sandbox_skills.artifacts import Artifact
from sandbox_skills.daemon.truth.run import OUTPUT, Run, RunEvent, RunKind, RunState, SkillRef

NOW = 1_000_000.0

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'`{{7*7}}"
"""A name, a message and an output that a stranger would like a page to obey."""

RESULT: dict[str, Any] = {
    "stdout": "hello\n",
    "stderr": "",
    "stdout_truncated": False,
    "stderr_truncated": False,
    "cpu_seconds": 0.02,
    "max_rss": 9_000_000,
    "skipped": {},
    "notes": [],
    "hints": [],
    "output_files": [],
    "primary_output": None,
    "artifact_files": [],
    "warnings": [],
}


def run(**changes: Any) -> Run:  # noqa: ANN401  # any field of a run
    """A run that ended well a minute ago."""
    usual = Run(
        id="01JDZ6V7Z3M9QHTR4W8YB2C5KD",
        tenant_id="01JDZ6V7Z3M9QHTR4W8YB2C5KA",
        kind=RunKind.SKILL,
        session_id=None,
        skill=SkillRef("csv-report", "3", "3f7a" * 16, "tenant"),
        state=RunState.FINISHED,
        request={"skill": "csv-report", "command": "python3 report.py"},
        needs=frozenset(),
        attempt=1,
        node="node",
        outcome={"type": "exited", "code": 0},
        limits_hit=(),
        result=RESULT,
        created_at=NOW - 60,
        started_at=NOW - 59,
        finished_at=NOW - 57,
        cancel_requested_at=None,
        event_last=4,
    )
    return replace(usual, **changes)


def result(**changes: object) -> dict[str, Any]:
    return {**RESULT, **changes}


def output(text: str, stream: str = "stdout", seq: int = 3) -> RunEvent:
    return RunEvent("r", seq, OUTPUT, {"stream": stream, "text": text}, NOW)


def artifact(name: str = "out/a.txt", mime_type: str = "text/plain", size: int = 5) -> Artifact:
    return Artifact(name, 0, mime_type, size, "0" * 64, "csv-report", "", "r", NOW)

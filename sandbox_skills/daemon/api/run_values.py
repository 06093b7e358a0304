"""What a run is over the wire: as it is told; `service.run_order` has what is asked for."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field, JsonValue

from sandbox_skills.daemon.api.values import Outcome, Told
from sandbox_skills.daemon.service.run_order import EXAMPLE

OUTPUT_EXAMPLE: dict[str, JsonValue] = {
    "name": "out/report.csv",
    "content": "month,total\n3,91\n",
    "mime_type": "text/csv",
    "size_bytes": 17,
    "truncated": False,
    "ref": "",
}

RESULT_EXAMPLE: dict[str, JsonValue] = {
    "run_id": "f3a9c0d1e2b34455",
    "skill": "csv-report",
    "digest": "3f0a5c7d9b1e2a4c6d8f0b1c3e5a7d9f3f0a5c7d9b1e2a4c6d8f0b1c3e5a7d9f",
    "stdout": "3 rows\n",
    "stderr": "",
    "stdout_truncated": False,
    "stderr_truncated": False,
    "stdout_bytes": 7,
    "stderr_bytes": 0,
    "wall_seconds": 0.057,
    "cpu_seconds": 0.031,
    "max_rss": 11534336,
    "limits_guessed": [],
    "sandbox_lives": False,
    "skipped": {},
    "notes": [],
    "staged_inputs": [],
    "hints": [],
    "output_files": [OUTPUT_EXAMPLE],
    "primary_output": None,
    "artifact_files": [],
    "warnings": [],
}


class SkillTold(
    Told,
    json_schema_extra={
        "examples": [
            {
                "name": "csv-report",
                "version": "2",
                "digest": "3f0a5c7d9b1e2a4c6d8f0b1c3e5a7d9f3f0a5c7d9b1e2a4c6d8f0b1c3e5a7d9f",
                "source": "tenant",
            }
        ]
    },
):
    """Which content of which skill."""

    name: str
    version: str = Field(description="Empty for one of the server's own.")
    digest: str = Field(description="Of the content that was run; empty before.")
    source: Literal["server", "tenant"]


class OutputFile(Told, json_schema_extra={"examples": [OUTPUT_EXAMPLE]}):
    """One file that was asked for."""

    name: str
    content: str
    mime_type: str
    size_bytes: int
    truncated: bool
    ref: str


class ArtifactFile(
    Told,
    json_schema_extra={
        "examples": [{"name": "out/report.csv", "version": 0, "ref": "artifact://out/report.csv@0"}]
    },
):
    """One file that was kept."""

    name: str
    version: int
    ref: str


class ResultTold(Told):
    """What the program wrote and left, as `sandbox-skills run --json` tells it."""

    model_config = ConfigDict(frozen=True, extra="allow", json_schema_extra={"examples": [RESULT_EXAMPLE]})

    run_id: str = Field(description="The name of the run's own directory in the workspace.")
    skill: str
    digest: str
    stdout: str
    stderr: str
    stdout_truncated: bool
    stderr_truncated: bool
    stdout_bytes: int
    stderr_bytes: int
    wall_seconds: float
    cpu_seconds: float
    max_rss: int = Field(description="Bytes; 0 where it could not be measured.")
    limits_guessed: list[str] = Field(
        default_factory=list, description="Those of `limits_hit` that no counter shows."
    )
    sandbox_lives: bool = Field(default=True, description="False where the run took its sandbox with it.")
    skipped: dict[str, str]
    notes: list[str]
    staged_inputs: list[dict[str, Any]]
    hints: list[dict[str, str]]
    output_files: list[OutputFile] = Field(default_factory=list[OutputFile])
    primary_output: OutputFile | None = None
    artifact_files: list[ArtifactFile] = Field(default_factory=list[ArtifactFile])
    warnings: list[str] = Field(default_factory=list)


class RunTold(Told):
    """A run. `outcome` and `result` are there once it has finished; `result` only where something was run."""

    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={
            "examples": [
                {
                    "id": "01JDZ6V7Z3M9QHTR4W8YB2C5KD",
                    "object": "run",
                    "state": "finished",
                    "skill": {"name": "csv-report", "version": "", "digest": "3f7a", "source": "server"},
                    "session_id": None,
                    "request": EXAMPLE,
                    "outcome": {"type": "exited", "code": 0},
                    "limits_hit": [],
                    "result": RESULT_EXAMPLE,
                    "created_at": "2026-11-28T09:00:00.000Z",
                    "started_at": "2026-11-28T09:00:00.004Z",
                    "finished_at": "2026-11-28T09:00:00.061Z",
                    "attempt": 1,
                }
            ]
        },
    )

    id: str
    object: Literal["run"] = "run"
    state: Literal["queued", "running", "finished"]
    skill: SkillTold
    session_id: str | None
    request: dict[str, Any]
    outcome: Outcome | None
    limits_hit: list[str]
    result: ResultTold | None
    created_at: str
    started_at: str | None
    finished_at: str | None
    attempt: int

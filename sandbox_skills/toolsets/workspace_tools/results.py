"""What a model is told of runs and programs, in the shapes of the design. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from sandbox_skills.errors import RequestError
from sandbox_skills.spec import Exited, Stopped, exit_code
from sandbox_skills.toolsets.base import ToolResult
from sandbox_skills.toolsets.workspace_tools.state import ARTIFACTS
from sandbox_skills.toolsets.workspace_tools.window import windowed
from sandbox_skills.workspace.input_refs import parse_source, source_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sandbox_skills.artifacts import Artifact
    from sandbox_skills.catalog.manifest_json import JsonObject, JsonValue
    from sandbox_skills.errors import SandboxSkillsError
    from sandbox_skills.spec import Ending, Outcome, StopReason
    from sandbox_skills.workspace.inputs import StagedInput
    from sandbox_skills.workspace.interactive import Poll
    from sandbox_skills.workspace.report import OutputFile
    from sandbox_skills.workspace.result import RunResult

STUB = "loaded: "
"""What a load returns, with the skill's name behind it."""

ERROR = "Error: "
"""Begins the text of every call that was not done."""

_STOPPED: Mapping[StopReason, str] = {
    "wall_time": "the command was stopped: its time was over",
    "cpu_time": "the command was stopped: its processor time was over",
    "memory": "the command was stopped: it needed more memory than the sandbox has",
    "output": "the command was stopped: it printed too much",
    "cancelled": "the command was stopped",
}

_TOLD_ELSEWHERE = frozenset({"stdout", "stderr", "memory", "cpu_time"})
"""Limits of which the ending or another warning tells."""


def timed_out(ending: Ending) -> bool:
    """Tells whether a run ended because its time was over."""
    return isinstance(ending, Stopped) and ending.reason in {"wall_time", "cpu_time"}


def failed(outcome: Outcome) -> bool:
    """Tells whether a command ended otherwise than by itself with 0."""
    return outcome.ending != Exited(0)


def run_content(result: RunResult) -> JsonObject:
    """Returns what `skill_run` returns of a run."""
    report, outcome = result.report, result.outcome
    files = report.output_files if report is not None else ()
    primary = report.primary_output if report is not None else None
    saved = report.artifacts if report is not None else ()
    told: dict[str, JsonValue] = {
        "staged_inputs": [_input(row) for row in result.staged_inputs],
        "output_files": [_file(file) for file in files],
        "primary_output": None if primary is None else _file(primary),
        "stdout": outcome.stdout.decode(errors="replace"),
        "stderr": outcome.stderr.decode(errors="replace"),
        "exit_code": exit_code(outcome.ending),
        "timed_out": timed_out(outcome.ending),
        "duration_ms": round(outcome.wall_seconds * 1000),
        "artifact_files": [{"name": one.name, "version": one.version} for one in saved],
        "warnings": list(warnings(result)),
    }
    optional = ("staged_inputs", "primary_output", "artifact_files", "warnings")
    return {key: value for key, value in told.items() if value or key not in optional}


def warnings(result: RunResult) -> tuple[str, ...]:
    """Returns what else is to be known of a run, each once: how it was stopped, what was left out, what may help."""
    outcome = result.outcome
    found: list[str] = []
    if isinstance(outcome.ending, Stopped):
        found.append(_STOPPED[outcome.ending.reason])
    if not outcome.sandbox_lives:
        found.append("the workspace ended with it: its files are gone, and the next call has an empty one")
    limits = sorted(result.limits_hit - _TOLD_ELSEWHERE)
    found += [f"a limit was reached: {name}" for name in limits]
    found += [f"{path} is not returned: {reason}" for path, reason in result.skipped.items()]
    found += result.report.warnings if result.report is not None else ()
    found += result.notes
    found += [f"{hint}: {hint.advice}" for hint in result.hints]
    return tuple(dict.fromkeys(found))


def run_result(result: RunResult, call_id: str) -> ToolResult:
    """Returns the answer to a call that ran a command of a skill."""
    saved = result.report.artifacts if result.report is not None else ()
    return ToolResult(
        run_content(result),
        is_error=failed(result.outcome),
        display=_display(result.outcome),
        state_delta=artifacts_delta(saved, call_id),
        artifacts=saved,
    )


def artifacts_delta(saved: Sequence[Artifact], call_id: str) -> dict[str, str]:
    """Returns what changes of the state when a call has saved artifacts."""
    if not saved:
        return {}
    rows = [{"name": one.name, "version": one.version, "ref": one.ref} for one in saved]
    return {ARTIFACTS: json.dumps({"tool_call_id": call_id, "artifacts": rows})}


def poll_result(poll: Poll[RunResult], call_id: str, *, cap: int, notes: Sequence[str] = ()) -> ToolResult:
    """Returns the answer to a call that looked at a program of a skill: its result too, once it has ended.

    `notes` are warnings of the start of it.
    """
    result = poll.result
    content = poll_content(poll, cap=cap)
    if notes:
        content["warnings"] = list(notes)
    if result is None:
        return ToolResult(content, display=poll.status)
    told = run_result(result, call_id)
    return ToolResult(
        {**content, "result": told.content},
        is_error=told.is_error,
        display=told.display,
        state_delta=told.state_delta,
        artifacts=told.artifacts,
    )


def shell_poll_result(poll: Poll[RunResult], *, cap: int, notes: Sequence[str] = ()) -> ToolResult:
    """Returns the answer to a call that looked at a command without a skill; `notes` are warnings of its start."""
    content = poll_content(poll, cap=cap)
    found = (*notes, *(warnings(poll.result) if poll.result is not None else ()))
    if found:
        content["warnings"] = list(found)
    if poll.result is None:
        return ToolResult(content, display=poll.status)
    outcome = poll.result.outcome
    return ToolResult(content, is_error=failed(outcome), display=_display(outcome))


def poll_content(poll: Poll[RunResult], *, cap: int) -> JsonObject:
    """Returns what is told of a program: how it is doing, what it said since, whether it seems to ask for something."""
    told: dict[str, JsonValue] = {
        "status": "running" if poll.status == "running" else "exited",
        "session_id": poll.program_id,
        "output": windowed(poll.text, cap).text,
        "offset": poll.lines.offset,
        "next_offset": poll.lines.next_offset,
    }
    if poll.outcome is not None:
        told["exit_code"] = exit_code(poll.outcome.ending)
    if poll.interaction is not None:
        told["interaction"] = cast("JsonObject", poll.interaction.as_dict())
    return {key: value for key, value in told.items() if key != "output" or value}


def error_result(error: SandboxSkillsError) -> ToolResult:
    """Returns what a model is told of a call that was not done, with the next step.

    Of a sandbox that failed it is told no more than that: those texts are about the host.
    """
    if not isinstance(error, RequestError):
        text = f"{ERROR}the sandbox failed ({error.code}), and what you asked for was not the reason."
        return ToolResult(f"{text} Try once more, else tell the user.", display="the sandbox failed")
    text = f"{ERROR}{error.message}"
    return ToolResult(f"{text}. {_sentence(error.hint)}" if error.hint else text, display=error.message)


def _sentence(hint: str) -> str:
    return hint[:1].upper() + hint[1:]


def _display(outcome: Outcome) -> str:
    return f"exit {exit_code(outcome.ending)} after {outcome.wall_seconds:.1f} s"


def _input(row: StagedInput) -> JsonObject:
    told: dict[str, JsonValue] = {
        "name": row.name,
        "original_name": source_name(parse_source(row.source)),
        "mime_type": row.mime_type,
        "size_bytes": row.size_bytes,
    }
    return {key: value for key, value in told.items() if value}


def _file(file: OutputFile) -> JsonObject:
    told: dict[str, JsonValue] = {
        "name": file.name,
        "content": file.content,
        "mime_type": file.mime_type,
        "size_bytes": file.size_bytes,
        "truncated": file.truncated,
        "ref": file.ref,
    }
    return {key: value for key, value in told.items() if key != "truncated" or value}

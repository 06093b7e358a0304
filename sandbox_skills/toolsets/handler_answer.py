"""What a run of a handler comes to: the value that it returned, or `{"error": message}`. Pure.

The box's word all of it: whatever a handler does, it answers for its own call alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.catalog.manifest_json import JsonError, read_json
from sandbox_skills.catalog.text import one_line, printable
from sandbox_skills.spec import KIB, Exited, Signalled
from sandbox_skills.toolsets.base import ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox_skills.catalog.manifest_json import JsonValue
    from sandbox_skills.spec import Outcome, StopReason
    from sandbox_skills.workspace.result import RunResult

MAX_RESULT = 64 * KIB
"""Bytes of a result: 16,000 tokens, beyond which it takes the place of the conversation."""

MAX_DEPTH = 128
"""Levels of a result: whatever writes JSON further down may be read no more by who takes it from here."""

_MAX_MESSAGE = 2000
"""Characters of an error: a message with its advice, and no dump."""

_MAX_SHOWN = 120
"""Characters of what is no JSON: enough to see what it is."""

_STOPPED: dict[StopReason, str] = {
    "wall_time": "it took longer than the {seconds:.3g} s that it may",
    "cpu_time": "it used more processor time than it may",
    "memory": "it used more memory than it may",
    "output": "it printed more than it may",
    "cancelled": "the call was cancelled",
}


class _ResultError(Exception):
    """The output of a handler that went well is no result."""


def handler_answer(result: RunResult, *, max_bytes: int = MAX_RESULT) -> ToolResult:
    """Returns the answer to the call that this run was.

    Its value is all of stdout, or where a script printed more, its last line, or what begins with the last line that
    opens with a bracket. A failure is an error with the reason that it gave, else the last line of its stderr.
    """
    outcome = result.outcome
    if not outcome.ok:
        advice = f" {result.hints[-1].advice}" if result.hints else ""
        code = "execution_timeout" if _is_timeout(outcome) else "execution_failed"
        return _failed(f"{_reason(outcome)}{advice}", code)
    try:
        return ToolResult(_value(outcome, max_bytes))
    except _ResultError as error:
        return _failed(str(error), "result_invalid")


def _failed(message: str, code: str) -> ToolResult:
    text = printable(message)
    cut = text if len(text) <= _MAX_MESSAGE else text[: _MAX_MESSAGE - 1] + "…"
    return ToolResult({"error": cut}, is_error=True, code=code, display=one_line(cut, _MAX_SHOWN))


def _is_timeout(outcome: Outcome) -> bool:
    ending = outcome.ending
    return not isinstance(ending, Exited | Signalled) and ending.reason in {"wall_time", "cpu_time"}


def _value(outcome: Outcome, max_bytes: int) -> JsonValue:
    if outcome.stdout_truncated or outcome.stdout_bytes > max_bytes:
        raise _ResultError(
            f"the result has {outcome.stdout_bytes:,} bytes, more than {max_bytes:,}: return less, or write it to a"
            " file below __workDir and return its path"
        )
    text = outcome.stdout.decode(errors="replace").strip()
    if not text:
        raise _ResultError("the handler ended without a result")
    problems: list[str] = []
    for candidate in _candidates(text):
        try:
            return read_json(candidate, max_depth=MAX_DEPTH).value
        except JsonError as error:
            problems.append(error.problem)
    raise _ResultError(f"the result is no JSON ({problems[0]}): {one_line(text, _MAX_SHOWN)}")


def _candidates(text: str) -> Iterator[str]:
    """Yields what may be the result, at most three texts, so that no output costs more than to read it thrice."""
    yield text
    lines = text.split("\n")
    yield lines[-1]
    opening = [number for number, line in enumerate(lines) if line.startswith(("{", "["))]
    if opening:
        yield "\n".join(lines[opening[-1] :])


def _reason(outcome: Outcome) -> str:
    match outcome.ending:
        case Exited(code):
            told = _told(outcome.stdout) or _last_line(outcome.stderr)
            return told or f"the handler ended with exit status {code}"
        case Signalled(number):
            return f"the handler was ended by signal {number}"
        case stopped:
            why = _STOPPED[stopped.reason].format(seconds=outcome.wall_seconds)
            return f"the handler was stopped: {why}."


def _told(stdout: bytes) -> str:
    """Returns what a handler itself says of its failure."""
    for candidate in _candidates(stdout[:MAX_RESULT].decode(errors="replace").strip()):
        try:
            value = read_json(candidate).value
        except JsonError:
            continue
        if isinstance(value, dict) and isinstance(error := value.get("error"), str) and error.strip():
            return error.strip()
    return ""


def _last_line(stderr: bytes) -> str:
    lines = stderr.decode(errors="replace").rstrip().split("\n")
    return one_line(lines[-1], _MAX_MESSAGE)

"""Commands in the workspace itself, without a skill."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from sandbox_skills.errors import CommandError, PatternError, RequestError
from sandbox_skills.spec import WORKSPACE, TerminalSize, exit_code
from sandbox_skills.toolsets.arguments import read_arguments
from sandbox_skills.toolsets.base import ToolResult
from sandbox_skills.toolsets.workspace_tools.arguments import ShellArguments
from sandbox_skills.toolsets.workspace_tools.program_calls import first_poll, heard_meanwhile, seconds
from sandbox_skills.toolsets.workspace_tools.results import failed, shell_poll_result, warnings
from sandbox_skills.toolsets.workspace_tools.run_calls import FIRST_YIELD_SECONDS
from sandbox_skills.toolsets.workspace_tools.window import OutputWindow
from sandbox_skills.workspace.layout import (
    OUTPUT_DIR,
    RUNS_DIR,
    SKILLS_DIR,
    WORK_DIR,
    WORKSPACE_VARIABLES,
    working_directory,
)
from sandbox_skills.workspace.paths import shown
from sandbox_skills.workspace.request import RunRequest, Shell

if TYPE_CHECKING:
    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.engines.base import OutputSink
    from sandbox_skills.spec import Limits
    from sandbox_skills.toolsets.base import CallContext, ToolCall
    from sandbox_skills.toolsets.workspace_tools.parts import Parts
    from sandbox_skills.workspace.result import RunResult

_ROOTS = (WORK_DIR, OUTPUT_DIR, RUNS_DIR, SKILLS_DIR)

_VARIABLES = {**WORKSPACE_VARIABLES, "RUN_DIR": str(RUNS_DIR / "this")}
"""Enough to look at a directory: which run it is nobody knows yet."""


async def execute(parts: Parts, call: ToolCall, context: CallContext) -> ToolResult:
    """Answers `workspace_exec`."""
    asked = read_arguments(ShellArguments, call)
    check_directory(asked.cwd)
    request = shell_request(asked, parts.options.limits)
    await _stage_loaded(parts, context)
    if asked.interactive:
        return await _start(parts, asked, request, call, context)
    window = OutputWindow(parts.options.output_bytes)
    heard = replace(context, on_output=_both(window, context.on_output))
    result = await parts.runs.run(None, request, heard, tool=call.name)
    return _ended(result, window)


def check_directory(text: str) -> None:
    """Raises PatternError for a pattern, PathEscapeError outside the workspace, CommandError elsewhere in it. Pure."""
    if set("*?[") & set(text):
        raise PatternError(f"cwd {shown(text)} is a pattern", hint="name one directory")
    path = working_directory(text, variables=_VARIABLES)
    if path != WORKSPACE and not any(path.is_relative_to(root) for root in _ROOTS):
        names = ", ".join(root.name for root in _ROOTS)
        raise CommandError(
            f"cwd {shown(text)} is in none of the workspace's directories", hint=f"they are: {names}"
        )


def shell_request(asked: ShellArguments, limits: Limits) -> RunRequest:
    """Returns the run that a call asks for. Pure."""
    return RunRequest(
        Shell(asked.command),
        cwd=asked.cwd,
        env=asked.env,
        stdin=asked.stdin.encode(errors="replace") if asked.stdin else None,
        timeout=asked.timeout_sec,
        limits=limits,
    )


async def _start(
    parts: Parts, asked: ShellArguments, request: RunRequest, call: ToolCall, context: CallContext
) -> ToolResult:
    tty = TerminalSize() if asked.tty else None
    with heard_meanwhile(context) as heard:
        started = await parts.runs.start(None, request, heard, tool=call.name, tty=tty)
        wait = 0.0 if asked.background else seconds(asked.yield_time_ms, FIRST_YIELD_SECONDS)
        poll = await first_poll(started.program, yield_seconds=wait)
    return shell_poll_result(poll, cap=parts.options.output_bytes, notes=started.notes)


def _ended(result: RunResult, window: OutputWindow) -> ToolResult:
    output = window.shown()
    told: JsonObject = {
        "status": "exited",
        "output": output.text,
        "exit_code": exit_code(result.outcome.ending),
        "offset": 0,
        "next_offset": output.text.count("\n"),
    }
    if output.truncated:
        told |= {"truncated": True, "total_bytes": output.total_bytes}
    if found := warnings(result):
        told["warnings"] = list(found)
    return ToolResult(told, is_error=failed(result.outcome), display=f"exit {told['exit_code']}")


async def _stage_loaded(parts: Parts, context: CallContext) -> None:
    """Stages what was loaded, so that it is found below skills/. One that cannot be staged is not found there."""
    loaded = parts.loaded(context.conversation).loaded()
    if not loaded:
        return
    session = await parts.runs.workspace(context.conversation)
    for name in loaded:
        with suppress(RequestError):
            await parts.runs.stage(session, await parts.runs.find(name))


def _both(window: OutputWindow, other: OutputSink | None) -> OutputSink:
    def heard(stream: Literal["stdout", "stderr"], data: bytes, /) -> None:
        window(stream, data)
        if other is not None:
            other(stream, data)

    return heard

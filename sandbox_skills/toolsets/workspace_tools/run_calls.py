"""Calls that run a command of a skill: to its end, or to be talked to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.spec import TerminalSize
from sandbox_skills.toolsets.arguments import read_arguments
from sandbox_skills.toolsets.workspace_tools.arguments import ExecArguments, RunArguments
from sandbox_skills.toolsets.workspace_tools.program_calls import (
    first_poll,
    heard_meanwhile,
    lines,
    seconds,
)
from sandbox_skills.toolsets.workspace_tools.results import poll_result, run_result
from sandbox_skills.workspace.input_refs import SkillSource, parse_source
from sandbox_skills.workspace.output_spec import OutputRequest
from sandbox_skills.workspace.request import RunRequest, Shell

if TYPE_CHECKING:
    from sandbox_skills.catalog import SkillSpec
    from sandbox_skills.spec import Limits
    from sandbox_skills.toolsets.base import CallContext, ToolCall, ToolResult
    from sandbox_skills.toolsets.workspace_tools.parts import Parts

FIRST_YIELD_SECONDS = 1.0
"""How long a start waits for the first words of a program: an interpreter needs most of it on a busy host."""


async def run(parts: Parts, call: ToolCall, context: CallContext) -> ToolResult:
    """Answers `skill_run`."""
    asked = read_arguments(RunArguments, call)
    spec = await parts.runnable(asked.skill, context.conversation)
    sources = await _sources(parts, asked, context)
    request = run_request(asked, parts.options.limits)
    result = await parts.runs.run(spec, request, context, tool=call.name, sources=sources)
    return run_result(result, context.call_id)


async def start(parts: Parts, call: ToolCall, context: CallContext) -> ToolResult:
    """Answers `skill_exec`."""
    asked = read_arguments(ExecArguments, call)
    spec = await parts.runnable(asked.skill, context.conversation)
    sources = await _sources(parts, asked, context)
    request = run_request(asked, parts.options.limits)
    tty = TerminalSize() if asked.tty else None
    with heard_meanwhile(context) as heard:
        started = await parts.runs.start(spec, request, heard, tool=call.name, sources=sources, tty=tty)
        wait = seconds(asked.yield_ms, FIRST_YIELD_SECONDS)
        poll = await first_poll(started.program, limit=lines(asked.poll_lines), yield_seconds=wait)
    return poll_result(poll, context.call_id, cap=parts.options.output_bytes, notes=started.notes)


def run_request(asked: RunArguments, limits: Limits) -> RunRequest:
    """Returns the run that a call asks for. Pure."""
    return RunRequest(
        Shell(asked.command),
        cwd=asked.cwd,
        env=asked.env,
        stdin=asked.stdin.encode(errors="replace") if asked.stdin else None,
        editor_text=asked.editor_text,
        timeout=asked.timeout,
        inputs=tuple(row.ref() for row in asked.inputs),
        wanted=OutputRequest(
            output_files=asked.output_files,
            outputs=asked.outputs,
            save_as_artifacts=asked.save_as_artifacts,
            artifact_prefix=asked.artifact_prefix,
            omit_inline=asked.omit_inline_content,
        ),
        limits=limits,
    )


async def _sources(parts: Parts, asked: RunArguments, context: CallContext) -> list[SkillSpec]:
    """Returns the other skills whose files are inputs: a run finds only those that its workspace knows."""
    named = [parse_source(row.source) for row in asked.inputs]
    others = {source.skill for source in named if isinstance(source, SkillSource)}
    return [await parts.runnable(name, context.conversation) for name in sorted(others - {asked.skill})]

"""Calls to programs that were started to be talked to: typed into, looked at, ended."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import anyio

from sandbox_skills.engines.cancellation import finish
from sandbox_skills.errors import ProgramNotFoundError
from sandbox_skills.toolsets.arguments import read_arguments
from sandbox_skills.toolsets.base import ToolResult
from sandbox_skills.toolsets.workspace_tools import names
from sandbox_skills.toolsets.workspace_tools.arguments import (
    KillArguments,
    PollArguments,
    ShellWriteArguments,
    WriteArguments,
)
from sandbox_skills.toolsets.workspace_tools.results import poll_result, shell_poll_result
from sandbox_skills.workspace.interactive.program import POLL_LINES, YIELD_SECONDS

if TYPE_CHECKING:
    from collections.abc import Generator

    from sandbox_skills.toolsets.base import CallContext, Conversation, ToolCall
    from sandbox_skills.toolsets.skill_runs import SkillRuns
    from sandbox_skills.toolsets.workspace_tools.parts import Parts
    from sandbox_skills.workspace.interactive import InteractiveProgram, InteractivePrograms, Poll
    from sandbox_skills.workspace.result import RunResult

SHELL_YIELD_SECONDS = 0.2
"""How long an answer of a shell command is waited for where the caller does not say."""

MAX_YIELD_SECONDS = 60.0
"""A caller that waits longer may as well look again: its own connection would be the first to give up."""

WRITE_SECONDS = 10.0
"""How long a program may take to read what is typed: then it is busy, and the call tells how it is doing."""


_KILLS = (names.SKILL_KILL_SESSION, names.WORKSPACE_KILL_SESSION)


async def write(parts: Parts, call: ToolCall, context: CallContext) -> ToolResult:
    """Answers `skill_write_stdin`."""
    asked = read_arguments(WriteArguments, call)
    program = (await _programs(parts.runs, context.conversation, asked.session_id)).get(asked.session_id)
    await _type(program, asked.chars, submit=asked.submit)
    poll = await program.poll(
        limit=lines(asked.poll_lines), yield_seconds=seconds(asked.yield_ms, YIELD_SECONDS)
    )
    return poll_result(poll, context.call_id, cap=parts.options.output_bytes)


async def poll(parts: Parts, call: ToolCall, context: CallContext) -> ToolResult:
    """Answers `skill_poll_session`."""
    asked = read_arguments(PollArguments, call)
    program = (await _programs(parts.runs, context.conversation, asked.session_id)).get(asked.session_id)
    told = await program.poll(
        limit=lines(asked.poll_lines), yield_seconds=seconds(asked.yield_ms, YIELD_SECONDS)
    )
    return poll_result(told, context.call_id, cap=parts.options.output_bytes)


async def shell_write(parts: Parts, call: ToolCall, context: CallContext) -> ToolResult:
    """Answers `workspace_write_stdin`."""
    asked = read_arguments(ShellWriteArguments, call)
    program = (await _programs(parts.runs, context.conversation, asked.session_id)).get(asked.session_id)
    await _type(program, asked.chars, submit=asked.submit)
    poll = await program.poll(yield_seconds=seconds(asked.yield_time_ms, SHELL_YIELD_SECONDS))
    return shell_poll_result(poll, cap=parts.options.output_bytes)


async def kill(parts: Parts, call: ToolCall, context: CallContext) -> ToolResult:
    """Answers `skill_kill_session` and `workspace_kill_session`."""
    asked = read_arguments(KillArguments, call)
    programs = await _programs(parts.runs, context.conversation, asked.session_id)
    status = await programs.kill(asked.session_id)
    return ToolResult({"ok": True, "session_id": asked.session_id, "status": status}, display=status)


@contextmanager
def heard_meanwhile(context: CallContext) -> Generator[CallContext]:
    """Gives a context whose output is heard until the block is left: nobody listens to a call that was answered."""
    sinks = [context.on_output]

    def heard(stream: Literal["stdout", "stderr"], data: bytes, /) -> None:
        for sink in sinks:
            if sink is not None:
                sink(stream, data)

    try:
        yield replace(context, on_output=heard)
    finally:
        sinks.clear()


async def first_poll(
    program: InteractiveProgram[RunResult], *, yield_seconds: float, limit: int = POLL_LINES
) -> Poll[RunResult]:
    """Polls a program that was just started, and ends it where that is cancelled: nobody would know its id."""
    try:
        return await program.poll(limit=limit, yield_seconds=yield_seconds)
    except asyncio.CancelledError:
        await finish(program.kill())
        raise


async def how_to_end(parts: Parts, conversation: Conversation) -> str:
    """Returns how the programs are ended that keep a conversation's workspace busy, "" where there is no way."""
    found = [
        one for programs in await _of_conversation(parts.runs, conversation) for one in programs.running()
    ]
    tools = [name for name in _KILLS if name in parts.chosen]
    return f"let it end, or call {tools[0]} with session_id {' or '.join(found)}" if found and tools else ""


def seconds(asked_ms: int, usual: float) -> float:
    """Returns how long to wait: what is not positive is the usual time. Pure."""
    # A model's number may be larger than any float.
    return min(asked_ms, int(MAX_YIELD_SECONDS * 1000)) / 1000 if asked_ms > 0 else usual


def lines(asked: int) -> int:
    """Returns how many lines to return: what is not positive is the usual number. Pure."""
    return asked if asked > 0 else POLL_LINES


async def _programs(
    runs: SkillRuns, conversation: Conversation, program_id: str
) -> InteractivePrograms[RunResult]:
    """Returns the programs among which that one is, in whichever workspace of the conversation."""
    for programs in await _of_conversation(runs, conversation):
        if programs.has(program_id):
            return programs
    raise ProgramNotFoundError(
        "no program of that session_id runs here", hint="it was killed, or ended too long ago; start it again"
    )


async def _of_conversation(
    runs: SkillRuns, conversation: Conversation
) -> list[InteractivePrograms[RunResult]]:
    """Returns the programs of each workspace of a conversation; opens none."""
    return [session.programs for session in await runs.workspaces(conversation)]


async def _type(program: InteractiveProgram[RunResult], chars: str, *, submit: bool) -> None:
    if chars or submit:
        with anyio.move_on_after(WRITE_SECONDS):
            await program.write(chars, submit=submit)

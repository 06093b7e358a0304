"""`run` on a daemon: files go there and come back, output is shown as it comes, Ctrl-C ends the run."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from anyio import CancelScope, move_on_after, to_thread

from sandbox_skills.cli.live import shown_live
from sandbox_skills.cli.request import environment, input_of, invocation
from sandbox_skills.cli.server.results import result_of, told_result
from sandbox_skills.cli.terminal import err, working
from sandbox_skills.client import RunFields
from sandbox_skills.errors import CommandError
from sandbox_skills.spec import WORKSPACE, FoundFile
from sandbox_skills.wiring import server_client
from sandbox_skills.workspace.inputs import plan_inputs, planned_chunks
from sandbox_skills.workspace.manager import Argv, Script, Shell
from sandbox_skills.workspace.outputs import DirectorySink

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from sandbox_skills.cli.run import RunOptions
    from sandbox_skills.cli.terminal import Progress
    from sandbox_skills.client import Run, ServerOptions, SkillsClient
    from sandbox_skills.engines.base import OutputSink
    from sandbox_skills.settings import Settings
    from sandbox_skills.workspace.inputs import PlannedInputs
    from sandbox_skills.workspace.manager import Invocation, RunResult

CANCEL_SECONDS = 5.0
"""How long the end of a command that is interrupted waits for the server to hear of it."""


@dataclass(frozen=True, slots=True)
class ServerRun:
    """What is asked of the daemon, checked here as far as that goes."""

    skill: str
    fields: RunFields
    inputs: PlannedInputs
    outputs: tuple[str, ...]
    out_dir: Path | None
    force: bool

    @property
    def needs_files(self) -> bool:
        """Whether files go there or come back, for which the run has a session of its own."""
        return bool(self.inputs.files or self.outputs)


def server_run(settings: Settings, skill: str, wanted: RunOptions, *, engine: str | None) -> ServerRun:
    """Returns what is asked of the daemon; raises RequestError before anything is sent."""
    env, secrets = environment(wanted.env, wanted.env_files)
    if secrets:
        raise CommandError(
            "a daemon is sent no secrets: --env NAME and --env-file are for this machine",
            hint="its operator's policy grants them to a skill; what is no secret goes as --env NAME=VALUE",
        )
    fields = _invoked(invocation(wanted.argv, wanted.command, wanted.script))
    given = {
        "cwd": wanted.cwd,
        "env": env,
        "timeout": wanted.timeout,
        "engine": engine,
        "output_files": wanted.outputs,
    }
    fields.update({name: value for name, value in given.items() if value})  # type: ignore[typeddict-item]  # as named
    planned = plan_inputs(tuple(map(input_of, wanted.inputs)), max_bytes=settings.inputs.max_total_bytes)
    return ServerRun(skill, fields, planned, wanted.outputs, wanted.out_dir, wanted.force)


def _invoked(asked: Invocation) -> RunFields:
    match asked:
        case Shell(text):
            return RunFields(command=text)
        case Script(path, args):
            return RunFields(script=path, args=list(args)) if args else RunFields(script=path)
        case Argv(argv):
            return RunFields(argv=list(argv))


async def run_there(there: ServerOptions, asked: ServerRun, *, as_json: bool) -> RunResult:
    """Runs on a daemon and returns what came of it, its files saved here."""
    with working("asking the server") as progress:
        async with server_client(there) as client, _session(client, asked, progress) as session_id:
            fields = RunFields(**asked.fields)
            if session_id:
                fields["session_id"] = session_id
            run = await _followed(client, asked.skill, fields, progress, as_json=as_json)
            return await _with_files(client, asked, run, session_id)


@asynccontextmanager
async def _session(client: SkillsClient, asked: ServerRun, progress: Progress) -> AsyncGenerator[str]:
    """Gives a session with the inputs in it, "" where no files are needed; it ends with the block."""
    if not asked.needs_files:
        yield ""
        return
    session = await client.sessions.create()
    try:
        for file in asked.inputs.files:
            path = str(file.target.relative_to(WORKSPACE))
            progress.say(f"sending {path}")
            await client.sessions.put_file(session.id, path, partial(planned_chunks, file))
        yield session.id
    finally:
        with CancelScope(shield=True), move_on_after(CANCEL_SECONDS):
            await client.sessions.close(session.id)


async def _followed(
    client: SkillsClient, skill: str, fields: RunFields, progress: Progress, *, as_json: bool
) -> Run:
    begun = await client.runs.create(skill, **fields)
    try:
        if as_json:
            return await client.runs.wait(begun.id)
        await shown_live(partial(_shown, client, begun.id), progress)
        return await client.runs.get(begun.id)
    except BaseException:
        # Nobody waits for it any more.
        with CancelScope(shield=True), move_on_after(CANCEL_SECONDS):
            await client.runs.cancel(begun.id)
        raise


async def _shown(client: SkillsClient, run_id: str, sink: OutputSink) -> None:
    lost = 0
    async for event in client.runs.events(run_id):
        match event.type, event.stream:
            case "output", "stdout" | "stderr" as stream:
                sink(stream, event.text.encode(errors="replace"))
            case "gap", _:
                lost += 1
            case _:
                continue
    if lost:
        err.print("not all output was shown: it came faster than the server keeps it")


async def _with_files(client: SkillsClient, asked: ServerRun, run: Run, session_id: str) -> RunResult:
    result = result_of(run)
    result = replace(result, staged_inputs=asked.inputs.staged, notes=(*asked.inputs.notes, *result.notes))
    if not session_id or asked.out_dir is None or not result.outcome.sandbox_lives:
        return result
    with DirectorySink(asked.out_dir, overwrite=asked.force) as sink:
        for file in told_result(run).output_files:
            found = FoundFile(file.name, file.size_bytes, 0o644, file.truncated)
            await to_thread.run_sync(sink.begin, found)
            async for piece in client.sessions.file(session_id, file.name):
                await to_thread.run_sync(sink.write, piece)
            await to_thread.run_sync(sink.end)
        return replace(result, files=tuple(sink.files), skipped={**result.skipped, **sink.left})

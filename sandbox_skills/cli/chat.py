"""`chat`: a model works with the user's skills: once for a prompt, or in a conversation on the terminal."""

from __future__ import annotations

import secrets
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anyio import to_thread

from sandbox_skills.artifacts import check_name
from sandbox_skills.cli.artifacts import fetched
from sandbox_skills.cli.chat_asking import TerminalQuestions, stdin_is_terminal
from sandbox_skills.cli.chat_state import read_state, state_writer
from sandbox_skills.cli.chat_view import JsonView, TextView
from sandbox_skills.cli.event_loop import first_interrupt, run_async
from sandbox_skills.cli.exits import INTERRUPTED
from sandbox_skills.cli.offered import nothing_offered
from sandbox_skills.cli.request import output_directory
from sandbox_skills.cli.server.target import server_options
from sandbox_skills.cli.terminal import err
from sandbox_skills.cli.text import harmless_line
from sandbox_skills.controller.controller import Decisions
from sandbox_skills.controller.events import Done
from sandbox_skills.controller.hooks import Hooks
from sandbox_skills.controller.state import RunState
from sandbox_skills.errors import ApprovalNeededError, OutputError, RequestError, SandboxSkillsError
from sandbox_skills.spec import LOCAL_TENANT
from sandbox_skills.toolsets.base import Conversation
from sandbox_skills.wiring import artifact_store, controller, model_client
from sandbox_skills.wiring.tools import opened_tools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from pathlib import Path

    from sandbox_skills.artifacts import ArtifactStore
    from sandbox_skills.cli.artifacts import Kept
    from sandbox_skills.cli.chat_view import View
    from sandbox_skills.cli.options import GlobalOptions
    from sandbox_skills.client import ServerOptions
    from sandbox_skills.controller.controller import Controller
    from sandbox_skills.controller.result import RunResult, WaitingCall
    from sandbox_skills.settings import Settings

MAX_PIPED = 1_000_000
"""Characters taken from a pipe, about as many as the longest contexts hold four times over."""

NOBODY_ASKED = "run it on a terminal, or allow every call with --approve"
"""The next step where a call waits for a person and there is none."""


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The options of `chat`, as they were given."""

    prompt: str | None = None
    model: str | None = None
    instructions: str = ""
    toolsets: tuple[str, ...] = ()
    state: Path | None = None
    out_dir: Path | None = None
    approve: bool = False
    server: str | None = None


def chat(options: GlobalOptions, wanted: ChatOptions) -> int:
    """Talks with a model and returns the exit code; everything is checked before anything starts."""
    settings = options.settings({"model.name": wanted.model})
    there = server_options(options, settings, wanted.server)
    if there is not None:
        return _chat_there(options, there, wanted)
    settings.model.controller_options()
    if wanted.out_dir is not None:
        output_directory(wanted.out_dir)
    interactive = is_interactive(options, wanted)
    state = read_state(wanted.state)
    text = said(wanted, interactive=interactive)
    if not text and not interactive and (state is None or state.loop.phase in {"idle", "done"}):
        raise RequestError("nothing is asked", hint="give a prompt, or pipe one in")
    view = JsonView() if options.as_json else TextView()
    return run_async(_chat(settings, wanted, state, text, view))


def _chat_there(options: GlobalOptions, there: ServerOptions, wanted: ChatOptions) -> int:
    from sandbox_skills.cli.server.chat import chat_there  # noqa: PLC0415  # what few conversations need

    if wanted.out_dir is not None:
        output_directory(wanted.out_dir)
    interactive = is_interactive(options, wanted)
    text = said(wanted, interactive=interactive)
    if not text and not interactive:
        raise RequestError("nothing is asked", hint="give a prompt, or pipe one in")
    view = JsonView() if options.as_json else TextView()
    return run_async(chat_there(there, wanted, text, view))


def is_interactive(options: GlobalOptions, wanted: ChatOptions) -> bool:
    """Tells whether it is a conversation on the terminal."""
    return stdin_is_terminal() and wanted.prompt is None and not options.as_json


def said(wanted: ChatOptions, *, interactive: bool) -> str:
    """Returns what the user says first: the prompt, or what is piped in; raises RequestError."""
    if wanted.prompt is not None:
        return wanted.prompt
    if interactive or stdin_is_terminal() or sys.stdin is None:
        return ""
    try:
        text = sys.stdin.read(MAX_PIPED + 1)
    except UnicodeDecodeError as error:
        raise RequestError("what is piped in is not UTF-8 text") from error
    if len(text) > MAX_PIPED:
        raise RequestError(
            f"more than {MAX_PIPED} characters are piped in", hint="give them as a file of a skill"
        )
    return text.strip()


async def _chat(
    settings: Settings, wanted: ChatOptions, state: RunState | None, text: str, view: View
) -> int:
    talk_of = state or RunState(Conversation(secrets.token_hex(8), LOCAL_TENANT))
    hooks = Hooks(save=state_writer(wanted.state) if wanted.state is not None else None)
    async with (
        model_client(settings) as client,
        opened_tools(settings, toolsets=wanted.toolsets) as tools,
    ):
        if missing := await to_thread.run_sync(nothing_offered, tools.skills):
            err.print(harmless_line(f"note: {missing}"))
        made = controller(
            settings, client, toolbox=tools.toolbox, hooks=hooks, instructions=wanted.instructions
        )
        talk = Talk(made, talk_of, view, wanted, artifact_store(settings))
        if talk_of.loop.phase in {"asking", "calling"}:
            # Whatever ended it then: what it had begun comes before anything new.
            result = await talk.turn(Decisions())
            if not text:
                return _code(result)
        if text:
            return _code(await talk.turn(text))
        await converse(talk.questions, talk.turn)
    return 0


async def converse(questions: TerminalQuestions, turn: Callable[[str], Awaitable[object]]) -> None:
    """Takes turns with the user until he ends it. What goes wrong with one turn does not end the conversation."""
    while (text := await questions.next_words()) is not None:
        try:
            await turn(text)
        except SandboxSkillsError as error:
            err.print(harmless_line(f"error: {error.message}"))
            if error.hint:
                err.print(harmless_line(f"hint: {error.hint}"))


class Talk:
    """A conversation as the user sees it."""

    def __init__(
        self, made: Controller, state: RunState, view: View, wanted: ChatOptions, store: ArtifactStore
    ) -> None:
        self.questions = TerminalQuestions()
        self._controller = made
        self._state = state
        self._view = view
        self._wanted = wanted
        self._store = store

    async def turn(self, what: str | Decisions) -> RunResult:
        """Runs until the model is done, asking for approvals meanwhile; Ctrl-C ends the run and answers its calls."""
        result = await self._run(what)
        while result.status == "waiting":
            result = await self._run(await self._decisions(result.waiting))
        self._view.end(result)
        return result

    async def _run(self, what: str | Decisions) -> RunResult:
        result: RunResult | None = None
        async with self._controller.stream(what, self._state) as events:
            with first_interrupt(events.cancel):
                async for event in events:
                    self._view.show(event)
                    if isinstance(event, Done):
                        result = event.result
        assert result is not None
        versions = [(one.name, one.version) for one in result.artifacts]
        await save_artifacts(self._store, versions, self._wanted.out_dir)
        return result

    async def _decisions(self, waiting: Sequence[WaitingCall]) -> Decisions:
        if self._wanted.approve:
            return Decisions(approve=tuple(call.id for call in waiting))
        if not self.questions.can_ask:
            names = ", ".join(dict.fromkeys(call.name for call in waiting))
            hint = NOBODY_ASKED
            if self._wanted.state is not None:
                hint += f"; the conversation goes on with `--state {self._wanted.state} --approve`"
            raise ApprovalNeededError(f"{names} needs the user's approval", hint=hint)
        allowed = [call for call in waiting if await self.questions.allows(call)]
        refused = {call.id: "" for call in waiting if call not in allowed}
        return Decisions(tuple(call.id for call in allowed), refused)


async def save_artifacts(
    store: Kept, versions: Iterable[tuple[str, int | None]], out_dir: Path | None
) -> None:
    """Writes what calls have saved below the directory that was named; a file that is there is left."""
    if out_dir is None:
        return
    directory = output_directory(out_dir)
    for name, version in versions:
        check_name(name)
        path = directory.joinpath(*name.split("/"))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            await fetched(store, name, version, path, force=False)
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror}") from error
        except OutputError as error:
            err.print(harmless_line(f"not saved: {error.message}"))
        else:
            err.print(harmless_line(f"saved {path}"))


def _code(result: RunResult) -> int:
    return INTERRUPTED if result.stop == "cancelled" else 0

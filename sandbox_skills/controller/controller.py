"""The controller: a model, the tools it has, and how a run goes on and ends."""

from __future__ import annotations

import math
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from sandbox_skills.controller import loop
from sandbox_skills.controller.events import Done, RunEvent
from sandbox_skills.controller.history import paired, user_message
from sandbox_skills.controller.hooks import Hooks
from sandbox_skills.controller.session import Session
from sandbox_skills.controller.state import RunState
from sandbox_skills.controller.tools import Tools
from sandbox_skills.errors import ConversationError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence

    from anyio.streams.memory import MemoryObjectReceiveStream

    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.controller.asking import ModelClient
    from sandbox_skills.controller.options import ControllerOptions
    from sandbox_skills.controller.own_tools import OwnTool
    from sandbox_skills.controller.result import RunResult
    from sandbox_skills.toolsets.base import Conversation
    from sandbox_skills.toolsets.toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class Decisions:
    """What is said of calls that wait, by id: to run, why not, or the output of a manual one.

    Calls of which nothing is said go on waiting. Without any, a run goes on where its process ended.
    """

    approve: tuple[str, ...] = ()
    reject: Mapping[str, str] = field(default_factory=dict[str, str])
    outputs: Mapping[str, str] = field(default_factory=dict[str, str])


class Controller:
    """Runs conversations, any number at once. Raises SettingsError for names of tools that cannot be.

    A conversation begins with a `toolsets.Conversation` and goes on from a `RunState`, one run at a time.
    """

    def __init__(
        self,
        client: ModelClient,
        options: ControllerOptions,
        *,
        toolbox: Toolbox | None = None,
        tools: Sequence[OwnTool] = (),
        hooks: Hooks | None = None,
    ) -> None:
        self._client = client
        self._options = options
        self._tools = Tools(toolbox, tools)
        self._hooks = hooks or Hooks()

    async def run(
        self, what: str | Sequence[JsonObject] | Decisions, of: Conversation | RunState
    ) -> RunResult:
        """Runs until the model is done or a call waits: on what the user says, items, or words on waiting calls.

        Raises ModelError, and ConversationError for what cannot be said of this conversation now.
        """
        return await self._session(what, of, _unheard).run()

    def run_sync(
        self, what: str | Sequence[JsonObject] | Decisions, of: Conversation | RunState
    ) -> RunResult:
        """Runs as `run`, for a program without an event loop; only for a client that was not used in one.

        Raises RuntimeError where an event loop runs.
        """

        async def work() -> RunResult:
            try:
                return await self.run(what, of)
            finally:
                await self._client.aclose()

        return anyio.run(work)

    @asynccontextmanager
    async def stream(
        self, what: str | Sequence[JsonObject] | Decisions, of: Conversation | RunState
    ) -> AsyncGenerator[RunStream]:
        """Runs as `run` while the block lasts, and tells everything; leaving it ends the run."""
        send, receive = anyio.create_memory_object_stream[RunEvent](math.inf)
        session = self._session(what, of, send.send_nowait)
        failure: list[Exception] = []

        async def work() -> None:
            with send:
                try:
                    send.send_nowait(Done(await session.run()))
                except Exception as error:  # noqa: BLE001  # raised where events are read, not as a group
                    failure.append(error)

        try:
            with receive:
                async with anyio.create_task_group() as group:
                    group.start_soon(work)
                    yield RunStream(session, receive, failure)
                    group.cancel_scope.cancel()
        except BaseExceptionGroup as errors:
            (error,) = errors.exceptions  # of the caller's block alone
            raise error from error.__cause__

    def _session(
        self,
        what: str | Sequence[JsonObject] | Decisions,
        of: Conversation | RunState,
        emit: Callable[[RunEvent], None],
    ) -> Session:
        state = of if isinstance(of, RunState) else RunState(of)
        rules = self._options.rules()
        if isinstance(what, Decisions):
            state.loop = _decided(state.loop, what, rules)
        else:
            items = [user_message(what)] if isinstance(what, str) else paired(what)
            state.loop = _begun(state.loop, items)
            self._tools.run_started(state.conversation)
        return Session(self._client, self._tools, self._options, self._hooks, state, emit)


class RunStream:
    """The events of one run, to be read once; the last is `Done`. Reading raises what ended the run."""

    def __init__(
        self,
        session: Session,
        events: MemoryObjectReceiveStream[RunEvent],
        failure: list[Exception],
    ) -> None:
        self._session = session
        self._events = events
        self._failure = failure

    @property
    def state(self) -> RunState:
        """The conversation as it stands now; whole when the events have ended."""
        return self._session.state

    def cancel(self) -> None:
        """Stops what is under way: running calls are answered as cancelled, and the run ends as `cancelled`."""
        self._session.cancel()

    async def __aiter__(self) -> AsyncIterator[RunEvent]:
        async for event in self._events:
            yield event
        if self._failure:
            raise self._failure[0]


def _begun(state: loop.LoopState, items: Sequence[JsonObject]) -> loop.LoopState:
    try:
        return loop.begin(state, items)
    except ValueError as error:
        raise ConversationError(
            f"the conversation waits: {error}", hint="Approve or reject the calls first."
        ) from error


def _decided(state: loop.LoopState, words: Decisions, rules: loop.Rules) -> loop.LoopState:
    try:
        state = loop.recovered(state, rules)
        for call_id in words.approve:
            state = loop.decided(state, call_id, rules)
        for call_id, reason in words.reject.items():
            state = loop.decided(
                state, call_id, rules, rejected=f"The user did not allow this call. {reason}".strip()
            )
        for call_id, output in words.outputs.items():
            state = loop.brought(state, call_id, output, rules)
    except ValueError as error:
        raise ConversationError(str(error)) from error
    return state


def _unheard(_event: RunEvent) -> None:
    return None

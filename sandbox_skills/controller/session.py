"""One run of the loop: does what `loop` says, in its order, and keeps the state whole whatever happens."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from sandbox_skills.controller import loop
from sandbox_skills.controller.asking import Asker
from sandbox_skills.controller.calling import Caller
from sandbox_skills.controller.calls import read_turn
from sandbox_skills.controller.defaults import LAST_SECONDS
from sandbox_skills.controller.events import ApprovalNeeded, TurnFinished, TurnStarted
from sandbox_skills.controller.history import without_reasoning
from sandbox_skills.controller.loop import AskModel, AwaitWord, RunCalls, next_action
from sandbox_skills.controller.result import RunResult, WaitingCall
from sandbox_skills.controller.spans import agent_span
from sandbox_skills.errors import ModelAnswerError
from sandbox_skills.toolsets.base import ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.artifacts import Artifact
    from sandbox_skills.controller.asking import ModelClient
    from sandbox_skills.controller.calling import Emit
    from sandbox_skills.controller.hooks import Hooks
    from sandbox_skills.controller.loop import Action, Wait
    from sandbox_skills.controller.options import ControllerOptions
    from sandbox_skills.controller.state import RunState
    from sandbox_skills.controller.tools import Tools
    from sandbox_skills.controller.turn import ModelCall, Turn
    from sandbox_skills.toolsets.base import ToolResult

logger = logging.getLogger(__name__)

LOADED = "Loaded. The instructions of the skill stand in the system prompt now."
"""The output of a call whose result went into the instructions."""


class Session:
    """One run. `state` is current at any time, and whole again when `run` has returned or raised."""

    def __init__(
        self,
        client: ModelClient,
        tools: Tools,
        options: ControllerOptions,
        hooks: Hooks,
        state: RunState,
        emit: Emit,
    ) -> None:
        self.state = state
        self._options = options
        self._rules = options.rules()
        self._hooks = hooks
        self._tools = tools
        self._emit = emit
        self._asker = Asker(client, tools, options, hooks, state.conversation)
        self._caller = Caller(tools, options, hooks, state.conversation, emit)
        self._artifacts: list[Artifact] = []
        self._began = time.monotonic() - state.loop.seconds
        self._scope: anyio.CancelScope | None = None
        self._cancelled = False

    def cancel(self) -> None:
        """Ends the run as soon as what is under way has stopped: its calls are answered, its state is whole."""
        self._cancelled = True
        if self._scope is not None:
            self._scope.cancel()

    async def run(self) -> RunResult:
        """Runs until the model is done, a limit ends it, or a call waits; raises ModelError."""
        with agent_span(self.state.conversation.id, self._options.model):
            try:
                await self._hold()
                while isinstance(action := next_action(self.state.loop), AskModel | RunCalls):
                    await self._act(action)
            except BaseException:
                await self._leave()
                raise
        await self._save()
        return self._result(action)

    async def _hold(self) -> None:
        """Has calls that a saved state says are to be started wait where they would have here."""
        state = self.state.loop
        waits = await self._waits(tuple(one.call for one in state.pending if one.status == "open"))
        self.state.loop = loop.held(state, waits)

    async def _act(self, action: AskModel | RunCalls) -> None:
        with anyio.CancelScope() as self._scope:
            if self._cancelled:
                self._scope.cancel()
            if isinstance(action, AskModel):
                await self._ask(action)
            else:
                await self._call(action)
        self._scope = None
        if self._cancelled:
            self.state.loop = loop.cancelled(self.state.loop)

    async def _leave(self) -> None:
        """Answers calls that were under way when the run was torn off, so that the conversation can go on."""
        if self.state.loop.phase == "calling":
            self.state.loop = loop.cancelled(self.state.loop)
        with anyio.CancelScope(shield=True):
            await self._save()

    async def _ask(self, action: AskModel) -> None:
        state = self.state.loop
        self._emit(TurnStarted(state.steps + 1))
        if self._hooks.turn_started is not None:
            await self._hooks.turn_started(loop.progress_of(state))
        with anyio.move_on_after(self._left(last=action.tools == "none")) as time_is_over:
            mended, answer = await self._asker.ask(state, action.tools, self._emit)
            if self.state.model not in {"", answer.model}:
                # Reasoning can be read by what made it alone; another model's would be refused.
                mended = replace(mended, items=tuple(without_reasoning(mended.items)))
            self.state.model = answer.model
            await self._take(mended, read_turn(answer, mended.items))
        if time_is_over.cancelled_caught:
            self.state.loop = loop.limited(self.state.loop, "max_seconds", self._rules)

    async def _take(self, state: loop.LoopState, turn: Turn) -> None:
        if self._hooks.after_model is not None:
            await self._hooks.after_model(turn)
        waits = await self._waits(turn.calls)
        state = replace(state, seconds=self._seconds())
        self.state.loop = loop.answered(state, turn, self._rules, waits)
        await self._save()
        finished = TurnFinished(
            self.state.loop.steps, turn.text, len(turn.calls), turn.answer.model, turn.answer.usage
        )
        self._emit(finished)
        if self._hooks.turn_finished is not None:
            await self._hooks.turn_finished(finished)

    async def _waits(self, calls: tuple[ModelCall, ...]) -> Mapping[str, Wait]:
        waits: dict[str, Wait] = {}
        for call in calls:
            made = ToolCall(call.name, call.arguments, call.id)
            if not call.fault and (wait := await self._tools.waits(made, self.state.conversation)):
                waits[call.id] = wait
        return waits

    async def _call(self, action: RunCalls) -> None:
        slots = anyio.CapacityLimiter(self._options.concurrency)
        failures: list[Exception] = []

        async def one(call: ModelCall) -> None:
            async with slots:
                if failures:
                    return
                try:
                    await self._call_one(call, approved=call.id in action.approved)
                except Exception as error:  # noqa: BLE001  # raised below, by itself
                    failures.append(error)

        with anyio.move_on_after(self._left()) as time_is_over:
            async with anyio.create_task_group() as group:
                for call in action.calls:
                    group.start_soon(one, call)
        if failures:
            raise failures[0]
        if time_is_over.cancelled_caught:
            self.state.loop = loop.limited(self.state.loop, "max_seconds", self._rules)

    async def _call_one(self, call: ModelCall, *, approved: bool) -> None:
        self.state.loop = loop.started(self.state.loop, [call.id])
        await self._save()
        result = await self._caller.run(call, approved=approved)
        self._artifacts += result.artifacts
        self._take_result(call, result)
        await self._save()

    def _take_result(self, call: ModelCall, result: ToolResult) -> None:
        text, options = result.text, self._options
        state = replace(self.state.loop, seconds=self._seconds())
        if result.instructions and options.inject_instructions:
            state, text = loop.instructed(state, result.instructions), LOADED
        self.state.loop = loop.call_done(
            state,
            call.id,
            text,
            self._rules,
            remember=result.remember or not options.forget,
            instructions=result.instructions,
        )

    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _left(self, *, last: bool = False) -> float | None:
        most = self._options.max_seconds
        return None if most is None else max(LAST_SECONDS if last else 0.0, most - self._seconds())

    async def _save(self) -> None:
        if self._hooks.save is not None:
            await self._hooks.save(self.state)

    def _result(self, action: Action) -> RunResult:
        state = self.state.loop
        waiting = _waiting(action)
        for call in waiting:
            self._emit(ApprovalNeeded(call.id, call.name, call.arguments, call.kind))
        if (
            self._options.strict_final
            and not waiting
            and state.stop == "completed"
            and not state.text.strip()
        ):
            raise ModelAnswerError("the model's last answer is empty")
        return RunResult(
            status="waiting" if waiting else "done",
            stop=state.stop,
            text=state.text,
            steps=state.steps,
            usage=state.usage,
            total=state.earlier + state.usage,
            state=self.state,
            waiting=waiting,
            artifacts=tuple(self._artifacts),
        )


def _waiting(action: Action) -> tuple[WaitingCall, ...]:
    if not isinstance(action, AwaitWord):
        return ()
    return tuple(
        WaitingCall(
            one.call.id, one.call.name, one.call.arguments, "manual" if one.status == "manual" else "approval"
        )
        for one in action.calls
    )

"""The tool loop as a state machine: what the model and the calls came to goes in, what to do next comes out. Pure.

    asking ── an answer ──▶ done
      ▲           │ calls
      └── outputs ┴─▶ calling ◀── a person's word ── (waiting calls)

Whatever happens, every call gets exactly one output, in call order, and none is started twice: `next_action` starts
only calls that are `open`, and `started` makes them `running` before anything else is done. Limits do not end a run at
once: the model answers once more, without tools.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Literal

from sandbox_skills.controller.defaults import DEFAULT_STEPS
from sandbox_skills.controller.history import call_output, user_message, without_calls
from sandbox_skills.controller.stops import Progress, after_steps, first_reason
from sandbox_skills.controller.turn import ModelCall, Usage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.controller.stops import StopCondition
    from sandbox_skills.controller.turn import Turn

Phase = Literal["idle", "asking", "calling", "done"]
CallStatus = Literal["open", "running", "approval", "manual", "approved", "done"]
"""`approval` waits for a person's word, `manual` for an output that the caller brings."""
Wait = Literal["approval", "manual"]
Offer = Literal["first", "auto", "none"]
"""Which tool choice a request has: the caller's own, the model's, or no tools."""

CANCELLED = "The user cancelled this call; whether it changed anything is not known."
INTERRUPTED = "The program was interrupted while this call ran; whether it changed anything is not known."
TOO_LATE = "There are no tools any more; this call was not run."
TIMED_OUT = "This call was stopped, because the time for the whole task is over."
AS_TEXT = (
    "Your last answer had a tool call written as text, which is not run. Call the tool itself, or use words."
)
TEXT_CALL = re.compile(r"<(?:tool_call|function_call|invoke|\|?tool_calls?[_a-z]*\|?)[\s>|]|<function=")
"""How models write calls as text that were trained on other forms."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How the loop behaves. `stops` are joined by or; `corrections` bounds answers with calls that cannot be read.

    `repeats` is how often the same call may have the same result in a row; 0 for ever. `final_turn` False ends a run at
    a limit without another answer.
    """

    stops: tuple[StopCondition, ...] = (after_steps(DEFAULT_STEPS),)
    corrections: int = 2
    repeats: int = 4
    final_turn: bool = True


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call of the last answer, and what became of it so far."""

    call: ModelCall
    status: CallStatus = "open"
    output: str = ""


@dataclass(frozen=True, slots=True)
class LoopState:
    """Where a conversation stands. `limit` is why no more tools are offered, `stop` why the run is over."""

    phase: Phase = "idle"
    items: tuple[JsonObject, ...] = field(default=(), hash=False)
    pending: tuple[PendingCall, ...] = ()
    steps: int = 0
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)
    earlier: Usage = field(default_factory=Usage)
    limit: str = ""
    stop: str = ""
    text: str = ""
    called: tuple[str, ...] = ()
    corrections: int = 0
    asked_again: bool = False
    streaks: tuple[tuple[str, int], ...] = ()
    forget: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    instructions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AskModel:
    """Ask the model. `tools` says how it may use them."""

    tools: Offer


@dataclass(frozen=True, slots=True)
class RunCalls:
    """Start these calls, each once."""

    calls: tuple[ModelCall, ...]
    approved: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class AwaitCalls:
    """Wait for calls that are under way."""


@dataclass(frozen=True, slots=True)
class AwaitWord:
    """Nothing more can be done before somebody says something of these calls."""

    calls: tuple[PendingCall, ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """The run is over."""

    stop: str


Action = AskModel | RunCalls | AwaitCalls | AwaitWord | Finish


def next_action(state: LoopState) -> Action:
    """Returns what is to be done now."""
    if state.phase == "asking":
        return AskModel("none" if state.limit else "auto" if state.called else "first")
    if state.phase == "calling":
        ready = [one for one in state.pending if one.status in {"open", "approved"}]
        if ready:
            approved = frozenset(one.call.id for one in ready if one.status == "approved")
            return RunCalls(tuple(one.call for one in ready), approved)
        if any(one.status == "running" for one in state.pending):
            return AwaitCalls()
        return AwaitWord(tuple(one for one in state.pending if one.status != "done"))
    return Finish(state.stop)


def begin(state: LoopState, items: Sequence[JsonObject]) -> LoopState:
    """Starts a run with what the user says. What earlier runs were not to remember is gone from the history."""
    if state.phase == "calling":
        raise ValueError("calls of the last answer have no output yet")
    return LoopState(
        phase="asking",
        items=(*without_calls(state.items, state.forget), *items),
        earlier=state.earlier + state.usage,
        pinned=tuple(one for one in state.pinned if one not in state.forget),
        instructions=state.instructions,
    )


def answered(
    state: LoopState, turn: Turn, rules: Rules, waits: Mapping[str, Wait] | None = None
) -> LoopState:
    """Takes an answer. `waits` tells of its calls which are not to be started yet, by id."""
    state = replace(state, steps=state.steps + 1, usage=state.usage + turn.answer.usage, text=turn.text)
    if not turn.calls:
        return _final(state, turn)
    state = replace(state, items=state.items + turn.items)
    if state.limit:
        outputs = tuple(call_output(call.id, TOO_LATE) for call in turn.calls)
        return replace(state, items=state.items + outputs, phase="done", stop=state.limit)
    pending = tuple(_pending(call, waits or {}) for call in turn.calls)
    faults = any(call.fault for call in turn.calls)
    return _next(
        replace(
            state,
            phase="calling",
            pending=pending,
            called=tuple(call.name for call in turn.calls),
            corrections=state.corrections + 1 if faults else 0,
        ),
        rules,
    )


def started(state: LoopState, ids: Collection[str]) -> LoopState:
    """Says that these calls are being started now; raises ValueError for one that was before."""
    found = [one for one in state.pending if one.call.id in ids and one.status in {"open", "approved"}]
    if len(found) != len(ids):
        raise ValueError("a call is started once")
    return _changed(state, {one.call.id: replace(one, status="running") for one in found})


def call_done(
    state: LoopState,
    call_id: str,
    output: str,
    rules: Rules,
    *,
    remember: bool = True,
    instructions: str = "",
) -> LoopState:
    """Takes the output of a call that was running. A call that has one already keeps it."""
    found = next((one for one in state.pending if one.call.id == call_id), None)
    if found is None or found.status == "done":
        return state
    state = _changed(state, {call_id: replace(found, status="done", output=output)})
    if not remember:
        state = replace(state, forget=(*state.forget, call_id))
    if instructions:
        state = replace(state, pinned=(*state.pinned, call_id))
    return _next(state, rules)


def instructed(state: LoopState, text: str) -> LoopState:
    """Takes instructions that stand in the system prompt from now on, each once."""
    return state if text in state.instructions else replace(state, instructions=(*state.instructions, text))


def decided(state: LoopState, call_id: str, rules: Rules, *, rejected: str | None = None) -> LoopState:
    """Takes a person's word on a call that waits for it: it may run, or `rejected` is its output.

    Raises ValueError where no such call waits.
    """
    found = next((one for one in state.pending if one.call.id == call_id and one.status == "approval"), None)
    if found is None:
        raise ValueError(f"no call {call_id} waits for approval")
    if rejected is not None:
        return call_done(state, call_id, rejected, rules)
    return _changed(state, {call_id: replace(found, status="approved")})


def brought(state: LoopState, call_id: str, output: str, rules: Rules) -> LoopState:
    """Takes the output of a manual call; raises ValueError where no such call waits."""
    if not any(one.call.id == call_id and one.status == "manual" for one in state.pending):
        raise ValueError(f"no call {call_id} waits for an output")
    return call_done(state, call_id, output, rules)


def held(state: LoopState, waits: Mapping[str, Wait]) -> LoopState:
    """Has calls wait that were to be started: a saved state may come from where others wait, or from a stranger."""
    found = {one.call.id: one for one in state.pending if one.status == "open"}
    return _changed(
        state, {key: replace(found[key], status=wait) for key, wait in waits.items() if key in found}
    )


def limited(state: LoopState, reason: str, rules: Rules) -> LoopState:
    """Ends what was under way, which was stopped, for a limit: the model answers once more, without tools.

    Where it was that answer which did not come in time, or none is wanted, the run is over.
    """
    closed = _closed(replace(state, limit=state.limit or reason), TIMED_OUT)
    if closed.phase == "asking" and (state.limit or not rules.final_turn):
        return replace(closed, phase="done", stop=closed.limit)
    return _next(closed, rules)


def cancelled(state: LoopState, output: str = CANCELLED) -> LoopState:
    """Ends the run; calls without an output get `output`."""
    return replace(_with_outputs(_closed(state, output)), phase="done", stop="cancelled")


def recovered(state: LoopState, rules: Rules) -> LoopState:
    """Returns a state that was saved while calls ran, in a process that is gone: they are not run again."""
    lost = {
        one.call.id: replace(one, status="done", output=INTERRUPTED)
        for one in state.pending
        if one.status == "running"
    }
    return _next(_changed(state, lost), rules)


def progress_of(state: LoopState) -> Progress:
    """Returns what the run has come to."""
    return Progress(state.steps, state.usage, state.seconds, state.called)


def _pending(call: ModelCall, waits: Mapping[str, Wait]) -> PendingCall:
    if call.fault:
        return PendingCall(call, "done", f"Error: {call.fault}")
    return PendingCall(call, waits.get(call.id, "open"))


def _final(state: LoopState, turn: Turn) -> LoopState:
    """Takes an answer without calls: the last one, or one that is asked for again, once."""
    stop = state.limit or turn.answer.incomplete or ("refusal" if turn.refused else "completed")
    if stop == "completed" and not state.asked_again:
        if not turn.text.strip():
            return replace(state, phase="asking", asked_again=True)
        if TEXT_CALL.search(turn.text):
            items = (*state.items, user_message(AS_TEXT))
            return replace(state, phase="asking", asked_again=True, items=items)
    return replace(state, phase="done", stop=stop, items=state.items + turn.items)


def _changed(state: LoopState, changes: Mapping[str, PendingCall]) -> LoopState:
    return replace(state, pending=tuple(changes.get(one.call.id, one) for one in state.pending))


def _closed(state: LoopState, output: str) -> LoopState:
    undone = (one for one in state.pending if one.status != "done")
    return _changed(state, {one.call.id: replace(one, status="done", output=output) for one in undone})


def _with_outputs(state: LoopState) -> LoopState:
    outputs = tuple(call_output(one.call.id, one.output) for one in state.pending)
    return replace(state, items=state.items + outputs, pending=())


def _next(state: LoopState, rules: Rules) -> LoopState:
    """Goes on to the next request when every call has its output."""
    if state.phase != "calling" or any(one.status != "done" for one in state.pending):
        return state
    streaks = _streaks(dict(state.streaks), state.pending)
    limit = (
        state.limit
        or ("malformed_calls" if state.corrections > rules.corrections else "")
        or ("repeated_calls" if rules.repeats and max(streaks.values(), default=0) >= rules.repeats else "")
        or first_reason(rules.stops, progress_of(state))
    )
    state = replace(_with_outputs(state), limit=limit, streaks=tuple(streaks.items()))
    if limit and not rules.final_turn:
        return replace(state, phase="done", stop=limit)
    return replace(state, phase="asking")


def _streaks(before: Mapping[str, int], calls: Iterable[PendingCall]) -> Counter[str]:
    """Counts rounds in a row that had the same call with the same result; twice in one round is once."""
    now = {_sign(one) for one in calls}
    return Counter({sign: before.get(sign, 0) + 1 for sign in now})


def _sign(one: PendingCall) -> str:
    text = json.dumps([one.call.name, one.call.arguments, one.output], sort_keys=True)
    return sha256(text.encode()).hexdigest()

"""`chat` on a daemon: the model works there, what it does is shown here, and a person is asked here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, cast

from sandbox_skills.artifacts import parse_ref
from sandbox_skills.cli.chat import NOBODY_ASKED, converse, save_artifacts
from sandbox_skills.cli.chat_asking import TerminalQuestions
from sandbox_skills.cli.chat_view import JsonView
from sandbox_skills.cli.event_loop import first_interrupt
from sandbox_skills.cli.exits import INTERRUPTED
from sandbox_skills.cli.server.artifacts import ServerArtifacts
from sandbox_skills.client import ServerAnswerError, ServerUnavailableError
from sandbox_skills.client.problems import outcome_error
from sandbox_skills.controller.events import TextDelta, ToolFinished, ToolOutput, ToolStarted, TurnRestarted
from sandbox_skills.controller.result import WaitingCall
from sandbox_skills.controller.turn import Usage
from sandbox_skills.errors import ApprovalNeededError, CommandError
from sandbox_skills.wiring import server_client

if TYPE_CHECKING:
    from sandbox_skills.cli.chat import ChatOptions
    from sandbox_skills.cli.chat_view import Told, View
    from sandbox_skills.client import Event, ServerOptions, SkillsClient

Json = Mapping[str, object]

SERVERS_OWN = frozenset({"queued", "started", "cancel_requested", "released", "gap", "finished"})
"""Kinds of events that tell of the server's work and not of the model's."""

_SHOWN: Mapping[str, Callable[..., Told]] = {
    kind.event: kind for kind in (TextDelta, TurnRestarted, ToolStarted, ToolOutput, ToolFinished)
}
_NAMES: Mapping[str, frozenset[str]] = {
    kind.event: frozenset(one.name for one in fields(kind)) - {"artifacts"}
    for kind in (TextDelta, TurnRestarted, ToolStarted, ToolOutput, ToolFinished)
}
_HEAD = frozenset({"seq", "run_id", "type", "at"})


@dataclass(frozen=True, slots=True)
class JsonEvent:
    """An event as it was told."""

    told: dict[str, object]

    def as_dict(self) -> dict[str, object]:
        """Returns the event for JSON."""
        return self.told


@dataclass(frozen=True, slots=True)
class Answer:
    """What a leg of the conversation came to."""

    state: str
    stop: str
    steps: int
    usage: Usage
    waiting: tuple[WaitingCall, ...]
    artifacts: tuple[str, ...]


async def chat_there(there: ServerOptions, wanted: ChatOptions, text: str, view: View) -> int:
    """Talks with a model on a daemon and returns the exit code."""
    if wanted.state is not None:
        raise CommandError(
            "--state keeps a conversation of this machine; a daemon keeps its own",
            hint="go on with it there, by POST /v1/agents/runs/{id}/resume",
        )
    async with server_client(there) as client:
        talk = ServerTalk(client, wanted, view)
        if text:
            answer = await talk.turn(text)
            return INTERRUPTED if answer.stop == "cancelled" else 0
        await converse(talk.questions, talk.turn)
    return 0


class ServerTalk:
    """A conversation on a daemon as the user sees it."""

    def __init__(self, client: SkillsClient, wanted: ChatOptions, view: View) -> None:
        self.questions = TerminalQuestions()
        self._client = client
        self._wanted = wanted
        self._view = view
        self._id = ""
        self._heard = 0

    async def turn(self, text: str) -> Answer:
        """Says something and follows the model until it is done, asking for approvals meanwhile."""
        await self._say(text)
        answer = await self._followed()
        while answer.state == "waiting":
            await self._decide(answer.waiting)
            answer = await self._followed()
        self._view.end(answer)
        versions = map(parse_ref, answer.artifacts)
        await save_artifacts(ServerArtifacts(self._client), versions, self._wanted.out_dir)
        return answer

    async def _say(self, text: str) -> None:
        if self._id:
            await self._client.agents.resume(self._id, {"input": text})
            return
        wanted = self._wanted
        given: dict[str, object] = {"input": text, "approvals": "never" if wanted.approve else "ask"}
        given |= {"model": wanted.model} if wanted.model else {}
        given |= {"toolset": list(wanted.toolsets)} if wanted.toolsets else {}
        given |= {"instructions": wanted.instructions} if wanted.instructions else {}
        begun = await self._client.agents.create(given)
        self._id = str(begun.get("id", ""))

    async def _followed(self) -> Answer:
        """Shows what happens until the model is done or waits; Ctrl-C ends its work there. Raises what ended it."""
        cancels: list[asyncio.Task[object]] = []

        def cancel() -> None:
            cancels.append(asyncio.ensure_future(self._client.agents.cancel(self._id)))

        with first_interrupt(cancel):
            async for event in self._client.agents.events(self._id, after=self._heard):
                self._heard = event.seq
                if event.type not in SERVERS_OWN:
                    as_json = isinstance(self._view, JsonView)
                    self._view.show(JsonEvent(told_event(event)) if as_json else shown_event(event))
        await asyncio.gather(*cancels)
        return answer_of(await self._client.agents.get(self._id))

    async def _decide(self, waiting: tuple[WaitingCall, ...]) -> None:
        """Gives the user's word on the first call that waits; the model goes on with that, and may wait again."""
        call = waiting[0]
        if not self.questions.can_ask:
            raise ApprovalNeededError(f"{call.name} needs the user's approval", hint=NOBODY_ASKED)
        allowed = await self.questions.allows(call)
        await self._client.agents.decide(self._id, call.id, "approve" if allowed else "refuse")


def told_event(event: Event) -> dict[str, object]:
    """Returns an event for JSON, as the controller of this machine spells it. Pure."""
    return {"event": event.type, **{name: value for name, value in event.data.items() if name not in _HEAD}}


def shown_event(event: Event) -> Told:
    """Returns an event as people see it; raises ServerAnswerError for one of another form. Pure."""
    told = told_event(event)
    kind = _SHOWN.get(event.type)
    if kind is None:
        return JsonEvent(told)
    try:
        return kind(**{name: value for name, value in told.items() if name in _NAMES[event.type]})
    except TypeError as error:
        raise ServerAnswerError(f"the server tells an event {event.type} of another form") from error


def answer_of(told: Json) -> Answer:
    """Returns what a conversation came to; raises the error that ended it. Pure."""
    fault = _object(told.get("error"))
    if fault:
        code, message, hint = (str(fault.get(name, "")) for name in ("code", "message", "hint"))
        raise outcome_error(code, message, hint, otherwise=ServerUnavailableError)
    usage = _object(told.get("usage"))
    numbers = {
        name: value for name, value in usage.items() if isinstance(value, int | float) and name in _USAGE
    }
    waiting = told.get("waiting")
    calls = [_object(one) for one in cast("list[object]", waiting)] if isinstance(waiting, list) else []
    refs = told.get("artifacts")
    return Answer(
        state=str(told.get("state", "")),
        stop=str(told.get("stop", "")),
        steps=int(str(told.get("steps", 0))),
        usage=Usage(**numbers),  # type: ignore[arg-type]  # figures, by name
        waiting=tuple(_call(one) for one in calls),
        artifacts=tuple(map(str, cast("list[object]", refs))) if isinstance(refs, list) else (),
    )


_USAGE = frozenset(Usage().as_dict())


def _call(told: Json) -> WaitingCall:
    arguments = dict(_object(told.get("arguments")))
    return WaitingCall(str(told.get("id", "")), str(told.get("name", "")), arguments, "approval")  # type: ignore[arg-type]  # JSON


def _object(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}

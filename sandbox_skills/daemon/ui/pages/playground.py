"""The playground: a tenant talks with a model that uses its skills, sees what its tools print, and allows its calls."""

from __future__ import annotations

from contextlib import aclosing
from http import HTTPStatus
from typing import TYPE_CHECKING

from pydantic import ValidationError
from starlette.exceptions import HTTPException

from sandbox_skills.daemon.api.agent_values import AgentGiven
from sandbox_skills.daemon.errors import EventsLostError
from sandbox_skills.daemon.truth.agents import Word
from sandbox_skills.daemon.truth.ids import is_id
from sandbox_skills.daemon.ui.streams import after_of, follow
from sandbox_skills.daemon.ui.views.conversations import TranscriptReader, transcript
from sandbox_skills.daemon.ui.views.playground import Playground, said_by_user, talk_page, talk_row
from sandbox_skills.errors import SandboxSkillsError
from sandbox_skills.wiring.tools import TOOLSETS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from starlette.responses import Response

    from sandbox_skills.daemon.service.agents import AgentRun
    from sandbox_skills.daemon.truth.run import RunEvent
    from sandbox_skills.daemon.ui.views.updates import Append, Renew
    from sandbox_skills.daemon.ui.visits import Visit

PAGE = 30


async def playground(visit: Visit) -> Response:
    """Shows the form that begins a conversation, and those that were."""
    before = visit.text("before")
    found = await visit.daemon.agents.list(
        before=before if is_id(before) else None, limit=PAGE + 1, tenant=visit.tenant
    )
    settings = visit.daemon.settings
    view = Playground(
        notes=tuple(_missing(visit)),
        model=settings.model.name or "",
        toolsets=tuple(TOOLSETS),
        rows=tuple(talk_row(run, visit.now) for run in found[:PAGE]),
        next=f"/playground?before={found[PAGE - 1].agent.id}" if len(found) > PAGE else "",
    )
    return visit.page("playground.html", here="/playground", title="Playground", view=view)


async def talk(visit: Visit) -> Response:
    """Shows one conversation, as far as it has come."""
    run = await _talk(visit)
    events, complete = await _events_so_far(visit, run)
    turns = transcript(said_by_user(run.agent), events)
    shown = events[-1].seq if events else 0
    view = talk_page(run, turns, shown=shown, complete=complete, base=visit.base)
    return visit.page("conversation.html", here="/playground", title="Conversation", view=view)


async def stream(visit: Visit) -> Response:
    """Sends what a model says and its tools print, as they do."""
    reader, after = TranscriptReader(), after_of(visit)

    async def behind() -> AsyncGenerator[RunEvent]:
        # What is on the page already says to which of its elements text is added.
        events = await visit.daemon.agents.follow(visit.part("talk_id"), tenant=visit.tenant)
        return _behind(events, reader, after)

    def update(event: RunEvent) -> Append | Renew | None:
        return reader.take(event)

    return await follow(behind(), update)


async def begin(visit: Visit) -> Response:
    """Begins a conversation."""
    visit.admit()
    fields = {name: text for name, text in visit.fields.items() if name != "csrf" and text}
    try:
        given = AgentGiven.model_validate(fields)
    except ValidationError as error:
        fault = error.errors()[0]
        words = f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, words) from error
    run = await visit.daemon.agents.create(
        given.kept(), given.input, tenant=visit.tenant, actor=visit.who.actor
    )
    return visit.to(f"/playground/{run.agent.id}")


async def speak(visit: Visit) -> Response:
    """Goes on with what the user says, or, without words, where the model was cut off."""
    visit.admit()
    talk_id, words = visit.part("talk_id"), visit.fields.get("input", "").strip()
    await visit.daemon.agents.resume(talk_id, words or None, tenant=visit.tenant, actor=visit.who.actor)
    return visit.to(f"/playground/{talk_id}")


async def decide(visit: Visit) -> Response:
    """Allows or refuses a call that waits."""
    visit.daemon.check_taking()
    talk_id, decision = visit.part("talk_id"), visit.fields.get("decision", "")
    if decision not in {"approve", "refuse"}:
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, "Approve the call, or refuse it.")
    word = Word(visit.fields.get("call_id", ""), approved=decision == "approve")
    await visit.daemon.agents.decide(talk_id, word, tenant=visit.tenant, actor=visit.who.actor)
    return visit.to(f"/playground/{talk_id}")


async def cancel(visit: Visit) -> Response:
    """Stops what is under way."""
    await visit.daemon.agents.cancel(visit.part("talk_id"), tenant=visit.tenant)
    return visit.to(f"/playground/{visit.part('talk_id')}")


async def _talk(visit: Visit) -> AgentRun:
    return await visit.daemon.agents.get(visit.part("talk_id"), tenant=visit.tenant)


async def _events_so_far(visit: Visit, run: AgentRun) -> tuple[list[RunEvent], bool]:
    """Returns the events that there are, without waiting for more, and whether they are all."""
    if run.leg is None or not run.agent.legs:
        return [], False
    last = run.agent.legs[-1].base + run.leg.event_last
    found: list[RunEvent] = []
    try:
        events = await visit.daemon.agents.follow(run.agent.id, tenant=visit.tenant)
        async with aclosing(events):
            async for event in events:
                found.append(event)
                if event.seq >= last:
                    break
    except EventsLostError:
        return found, False
    return found, True


async def _behind(
    events: AsyncGenerator[RunEvent], reader: TranscriptReader, after: int
) -> AsyncGenerator[RunEvent]:
    async with aclosing(events):
        async for event in events:
            if event.seq > after:
                yield event
            else:
                reader.take(event)


def _missing(visit: Visit) -> list[str]:
    """Returns what this server lacks for a conversation."""
    try:
        visit.daemon.settings.model.controller_options()
    except SandboxSkillsError as error:
        return [f"{error.message}. {error.hint}".strip()]
    return []

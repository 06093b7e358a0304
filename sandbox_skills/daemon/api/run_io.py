"""Talking to the program of a run, over a WebSocket.

Binary frames are input, as it is. Text frames are JSON: `{"resize": [columns, rows]}`, `{"eof": true}`. What the
program writes comes back as binary frames in its order, and how it ended as the last text frame, `{"outcome": …}`.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, WebSocket
from fastapi.websockets import WebSocketDisconnect
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sandbox_skills.daemon.access.keys import KEY_HINT
from sandbox_skills.daemon.access.scopes import Scope
from sandbox_skills.daemon.api import streams
from sandbox_skills.daemon.api.auth import Caller, identified, token_in
from sandbox_skills.daemon.api.dependencies import daemon_of
from sandbox_skills.daemon.api.problems import answer_of
from sandbox_skills.daemon.api.request_ids import request_id_of
from sandbox_skills.daemon.errors import KeyInvalidError, RunNotInteractiveError
from sandbox_skills.daemon.service.run_order import RunOrder
from sandbox_skills.daemon.truth.run import FINISHED, OUTPUT, RunKind, RunState
from sandbox_skills.errors import CommandError, SandboxSkillsError
from sandbox_skills.spec import TerminalSize

if TYPE_CHECKING:
    from sandbox_skills.daemon.working.daemon import Daemon
    from sandbox_skills.workspace.interactive import InteractiveProgram
    from sandbox_skills.workspace.result import RunResult

router = APIRouter(prefix="/v1/runs", tags=["runs"])

TURN_SECONDS = 600.0
"""How long a client waits here for the run's turn: it may come back as often as it likes."""


class Control(BaseModel):
    """What a text frame says."""

    model_config = ConfigDict(extra="forbid")

    resize: tuple[int, int] | None = Field(default=None, description="Columns and rows.")
    eof: bool = False


@router.websocket("/{run_id}/io")
async def talk(run_id: str, websocket: WebSocket) -> None:
    """Connects a client with the program of its run, once that has begun; hanging up ends nothing."""
    daemon = daemon_of(websocket)
    try:
        who = await identified(daemon, token_in(websocket.headers))
        who.need(Scope.RUN)
        await _check(daemon, run_id, who)
    except SandboxSkillsError as error:
        await websocket.send_denial_response(answer_of(error, request_id=request_id_of(websocket.scope)))
        return
    await websocket.accept()
    with suppress(WebSocketDisconnect):
        try:
            await _connected(daemon, run_id, websocket, who)
        except SandboxSkillsError as error:
            await websocket.send_text(json.dumps({"error": {"code": error.code, "message": error.message}}))
            await websocket.close()


async def _check(daemon: Daemon, run_id: str, who: Caller) -> None:
    run = await daemon.runs.get(run_id, tenant=who.tenant_id)
    is_ours = run.kind is RunKind.SKILL and RunOrder.model_validate(run.request).talks
    if not is_ours or run.state is RunState.FINISHED:
        raise RunNotInteractiveError(
            f"nobody can talk to run {run_id}",
            hint="ask for it with interactive or tty, and before it has ended",
        )


async def _connected(daemon: Daemon, run_id: str, websocket: WebSocket, who: Caller) -> None:
    """Passes on what either side says until one of them ends; a run may end before its program has begun."""
    sides = [
        asyncio.create_task(_hear(daemon, run_id, websocket)),
        asyncio.create_task(_say(daemon, run_id, websocket)),
        asyncio.create_task(_watch(who)),
    ]
    try:
        done, _ = await asyncio.wait(sides, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in sides:
            task.cancel()
        await asyncio.wait(sides)


async def _watch(who: Caller) -> None:
    """Ends, by KeyInvalidError, when the key counts no more: nobody else may type into the program."""
    while await who.counts():  # noqa: ASYNC110  # a key that expires tells nobody
        await asyncio.sleep(streams.LOOK_SECONDS)
    raise KeyInvalidError("the key does not count any more", hint=KEY_HINT)


async def _hear(daemon: Daemon, run_id: str, websocket: WebSocket) -> None:
    async with aclosing(daemon.events.follow(run_id)) as events:
        async for event in events:
            if event.kind == OUTPUT:
                await websocket.send_bytes(str(event.data["text"]).encode(errors="replace"))
            elif event.kind == FINISHED:
                await websocket.send_text(json.dumps({"outcome": event.data["outcome"]}))
                await websocket.close()


async def _say(daemon: Daemon, run_id: str, websocket: WebSocket) -> None:
    program = await daemon.talks.program(run_id, wait_seconds=TURN_SECONDS)
    while True:
        frame: dict[str, Any] = dict(await websocket.receive())
        if frame["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(frame.get("code", 1000))
        if frame.get("bytes") is not None:
            await program.feed(frame["bytes"])
        else:
            _obey(program, frame.get("text") or "")


def _obey(program: InteractiveProgram[RunResult], text: str) -> None:
    """Does what a text frame says; raises CommandError for one that says nothing that is known."""
    try:
        control = Control.model_validate_json(text)
    except ValidationError as error:
        raise CommandError(
            "the frame is not understood", hint='{"resize": [80, 24]} or {"eof": true}'
        ) from error
    if control.resize is not None:
        cols, rows = control.resize
        program.resize(TerminalSize(rows, cols))
    if control.eof:
        program.close_stdin()

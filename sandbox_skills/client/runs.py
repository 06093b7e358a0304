"""Runs of a daemon: begun, followed, waited for, cancelled."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, TypedDict, Unpack

import anyio

from sandbox_skills.client.connection import IDEMPOTENCY_KEY, Connection, Request, path_of
from sandbox_skills.client.events import follow
from sandbox_skills.client.json_values import read
from sandbox_skills.client.paging import pages
from sandbox_skills.client.values import Event, Run

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from sandbox_skills.client.json_values import JsonObject

MAX_WAIT = 60.0
"""Seconds that a server may be asked to hold an answer back."""


class RunFields(TypedDict, total=False):
    """What a run is asked for, as `skill_run` has it: one of `command`, `script` and `argv` says what to run.

    `output_files` are patterns of files to tell of, `outputs` a manifest with limits; `timeout` is seconds. `limits`
    and `engine` are within what the server allows. An `interactive` run's input stays open for others to write to.
    """

    version: str
    command: str
    script: str
    args: Sequence[str]
    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    stdin: str
    editor_text: str
    timeout: float
    inputs: Sequence[JsonObject]
    output_files: Sequence[str]
    outputs: JsonObject
    save_as_artifacts: bool
    artifact_prefix: str
    omit_inline_content: bool
    session_id: str
    engine: str
    limits: JsonObject
    interactive: bool
    tty: bool | JsonObject


class Runs:
    """The runs of the key's tenant."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(
        self, skill: str, *, wait: float = 0.0, idempotency_key: str = "", **fields: Unpack[RunFields]
    ) -> Run:
        """Begins a run, and returns it as it is after `wait` seconds at most, 60 being the server's most.

        A request whose answer was lost is made again without a second run: each has a key, a new one where none is
        given. A run that could not start is a value, its outcome `Rejected`; raises the server's error for a request
        that is none.
        """
        seconds = min(max(wait, 0.0), MAX_WAIT)
        request = Request(
            "POST",
            path_of("runs"),
            query={"wait": f"{seconds:g}"} if seconds else {},
            json={"skill": skill, **fields},
            headers={IDEMPOTENCY_KEY: idempotency_key or secrets.token_hex(16)},
            seconds=seconds,
        )
        return read(Run, await self._connection.json(request))

    async def run(self, skill: str, *, seconds: float | None = None, **fields: Unpack[RunFields]) -> Run:
        """Begins a run and returns it when it is over. Raises TimeoutError after `seconds`, which ends no run."""
        with anyio.fail_after(seconds):
            begun = await self.create(skill, wait=MAX_WAIT, **fields)
            return begun if begun.finished else await self.wait(begun.id)

    async def get(self, run_id: str) -> Run:
        """Returns a run as it is now; raises the server's error where there is none of that id."""
        return read(Run, await self._connection.json(Request("GET", path_of("runs", run_id))))

    def list(
        self, *, state: str | None = None, skill: str | None = None, session_id: str | None = None
    ) -> AsyncGenerator[Run]:
        """Yields runs, the newest first; a filter that is None passes everything."""
        query = {"state": state, "skill": skill, "session_id": session_id}
        return pages(self._connection, path_of("runs"), Run, query)

    async def cancel(self, run_id: str) -> Run:
        """Asks for the end of a run, and returns it as it is; one that is over stays as it was."""
        return read(Run, await self._connection.json(Request("POST", path_of("runs", run_id, "cancel"))))

    def events(self, run_id: str, *, after: int | None = None) -> AsyncGenerator[Event]:
        """Yields what happens to a run, up to its end; see `events.follow`."""
        return follow(self._connection, path_of("runs", run_id, "events"), after=after)

    async def wait(self, run_id: str, *, seconds: float | None = None) -> Run:
        """Returns a run when it is over. Raises TimeoutError after `seconds`, which ends no run."""
        with anyio.fail_after(seconds):
            async for _ in self.events(run_id):
                pass
            return await self.get(run_id)

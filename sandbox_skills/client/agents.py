"""Runs of a model on a daemon, which works with the tenant's skills there."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Literal

from sandbox_skills.client.connection import IDEMPOTENCY_KEY, Connection, Request, path_of
from sandbox_skills.client.events import follow

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sandbox_skills.client.json_values import JsonObject
    from sandbox_skills.client.values import Event


class Agents:
    """The runs of models of the key's tenant."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def create(self, given: JsonObject, *, idempotency_key: str = "") -> JsonObject:
        """Lets a model work on `input`; `given` is the body of POST /v1/agents/runs.

        A request whose answer was lost is made again without a second run: each has a key, a new one where none is
        given.
        """
        headers = {IDEMPOTENCY_KEY: idempotency_key or secrets.token_hex(16)}
        return await self._connection.json(
            Request("POST", path_of("agents", "runs"), json=given, headers=headers)
        )

    async def get(self, run_id: str) -> JsonObject:
        """Returns a run as it is now."""
        return await self._connection.json(Request("GET", path_of("agents", "runs", run_id)))

    def events(self, run_id: str, *, after: int | None = None) -> AsyncGenerator[Event]:
        """Yields what happens in all legs of a conversation, until the model is done or waits for somebody."""
        return follow(self._connection, path_of("agents", "runs", run_id, "events"), after=after, legs=True)

    async def decide(
        self, run_id: str, call_id: str, decision: Literal["approve", "refuse"], reason: str = ""
    ) -> JsonObject:
        """Says whether a call that waits may run; the model is told the `reason` of a refusal."""
        body = {"call_id": call_id, "decision": decision, "reason": reason}
        return await self._connection.json(
            Request("POST", path_of("agents", "runs", run_id, "approvals"), json=body)
        )

    async def resume(self, run_id: str, given: JsonObject) -> JsonObject:
        """Goes on with a conversation; `given` has the next `input`, or nothing where it broke off."""
        return await self._connection.json(
            Request("POST", path_of("agents", "runs", run_id, "resume"), json=given)
        )

    async def cancel(self, run_id: str) -> JsonObject:
        """Asks for the end of a run."""
        return await self._connection.json(Request("POST", path_of("agents", "runs", run_id, "cancel")))

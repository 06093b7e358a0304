"""Tools of a daemon: told to a model in its provider's words, its calls answered in the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.client.connection import Connection, Request, path_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_skills.client.json_values import JsonObject


class Tools:
    """What models are offered."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(
        self, *, toolset: str | None = None, wire_format: str | None = None, session_id: str | None = None
    ) -> JsonObject:
        """Returns the tools of a toolset, those of the server's settings by default, as `wire_format` spells them.

        A session has those that were made in it besides.
        """
        given = {"toolset": toolset, "format": wire_format, "session_id": session_id}
        query = {name: value for name, value in given.items() if value is not None}
        return await self._connection.json(Request("GET", path_of("tools"), query=query))

    async def call(
        self,
        call: JsonObject | Sequence[JsonObject],
        *,
        toolset: str | Sequence[str] | None = None,
        session_id: str | None = None,
        wire_format: str | None = None,
        approved: bool | Sequence[str] = False,
    ) -> JsonObject:
        """Answers a call of a model's as its provider wants the result, or several. Never made again by itself.

        `approved` are the calls that a person has allowed: all, or those of some ids.
        """
        one = isinstance(call, dict)
        given = {
            "toolset": toolset,
            "session_id": session_id,
            "format": wire_format,
            "approved": approved or None,
            "call" if one else "calls": call if one else list(call),
        }
        body = {name: value for name, value in given.items() if value is not None}
        return await self._connection.json(Request("POST", path_of("tool-calls"), json=body))

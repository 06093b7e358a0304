"""The client of a daemon: one object, with a part for each subject of the API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.client.agents import Agents
from sandbox_skills.client.artifacts import Artifacts
from sandbox_skills.client.connection import Connection, Request, path_of
from sandbox_skills.client.options import ServerOptions
from sandbox_skills.client.runs import Runs
from sandbox_skills.client.sessions import Sessions
from sandbox_skills.client.skills import Skills
from sandbox_skills.client.tools import Tools

if TYPE_CHECKING:
    from typing import Self

    from sandbox_skills.client.json_values import JsonObject


class SkillsClient:
    """Talks to a daemon as `sandbox-skills serve` starts one. Leaving the block ends the connections, and no run.

    Many calls may be under way at once. Raises SettingsError for an address that no key may be sent to.
    """

    def __init__(self, options: ServerOptions | None = None) -> None:
        self._connection = Connection(options or ServerOptions())
        self.runs = Runs(self._connection)
        self.skills = Skills(self._connection)
        self.sessions = Sessions(self._connection)
        self.artifacts = Artifacts(self._connection)
        self.tools = Tools(self._connection)
        self.agents = Agents(self._connection)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends the connections."""
        await self._connection.aclose()

    async def capabilities(self) -> JsonObject:
        """Returns what the server can do: engines with their guarantees, limits, toolsets."""
        return await self._connection.json(Request("GET", path_of("capabilities")))

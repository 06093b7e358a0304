"""The server over the user's skills, as the settings say."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from sandbox_skills.mcp.resources import Resources
from sandbox_skills.mcp.server import SkillServer
from sandbox_skills.spec import LOCAL_TENANT
from sandbox_skills.wiring import artifact_store
from sandbox_skills.wiring.tools import opened_tools

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from sandbox_skills.settings import Settings


@asynccontextmanager
async def opened_server(settings: Settings, *, toolsets: Sequence[str] = ()) -> AsyncGenerator[SkillServer]:
    """Gives a server; leaving ends every sandbox of its clients. Raises as `opened_tools` does."""
    async with opened_tools(settings, toolsets=toolsets, reply=True) as tools:
        resources = Resources(tools.skills, artifact_store(settings), LOCAL_TENANT)
        yield SkillServer(tools.toolbox, resources, LOCAL_TENANT)

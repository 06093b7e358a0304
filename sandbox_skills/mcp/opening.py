"""The server over the user's skills, as the settings say."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from sandbox_skills.mcp.resources import Resources
from sandbox_skills.mcp.server import SkillServer
from sandbox_skills.spec import LOCAL_TENANT
from sandbox_skills.wiring import artifact_store, catalog
from sandbox_skills.wiring.tools import offered_skills, opened_toolbox

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from sandbox_skills.settings import Settings


@asynccontextmanager
async def opened_server(settings: Settings, *, toolsets: Sequence[str] = ()) -> AsyncGenerator[SkillServer]:
    """Gives a server; leaving ends every sandbox of its clients. Raises as `opened_toolbox` does."""
    chosen = settings.tools
    offered = offered_skills(
        settings, catalog(settings), include=chosen.include, exclude=chosen.exclude, tenant=LOCAL_TENANT
    )
    async with opened_toolbox(settings, toolsets=toolsets, reply=True) as toolbox:
        resources = Resources(offered, artifact_store(settings), LOCAL_TENANT)
        yield SkillServer(toolbox, resources, LOCAL_TENANT)

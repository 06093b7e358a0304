"""What the calls of the workspace tools work with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.errors import SkillNotLoadedError
from sandbox_skills.toolsets.workspace_tools import names
from sandbox_skills.toolsets.workspace_tools.state import LoadedSkills

if TYPE_CHECKING:
    from sandbox_skills.artifacts import ArtifactStore
    from sandbox_skills.catalog import SkillSpec
    from sandbox_skills.toolsets.base import Conversation
    from sandbox_skills.toolsets.skill_runs import SkillRuns
    from sandbox_skills.toolsets.workspace_tools.options import WorkspaceToolsOptions


@dataclass(frozen=True, slots=True)
class Parts:
    """Runs, choices, the names of the tools that are offered, and where files are saved, None for nowhere."""

    runs: SkillRuns
    options: WorkspaceToolsOptions
    chosen: tuple[str, ...]
    artifacts: ArtifactStore | None = None

    def loaded(self, conversation: Conversation) -> LoadedSkills:
        """Returns what the conversation's agent has loaded."""
        return LoadedSkills(conversation.state, conversation.agent, self.options.max_loaded)

    async def runnable(self, name: str, conversation: Conversation) -> SkillSpec:
        """Returns the skill of that name; raises SkillNotFoundError, and SkillNotLoadedError where that is asked."""
        spec = await self.runs.find(name)
        asked = self.options.require_loaded and names.SKILL_LOAD in self.chosen
        if asked and not self.loaded(conversation).may_run(spec.name):
            raise SkillNotLoadedError(
                f"the skill {spec.name!r} is not loaded",
                hint=f"call {names.SKILL_LOAD} with it, read its instructions, then run it",
            )
        return spec

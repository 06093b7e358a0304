"""What the host remembers of one workspace. It lies here and not in the box, where a run could forge it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox_skills.workspace.grants import BoxGrants
from sandbox_skills.workspace.input_plan import Pins, SkillPlace
from sandbox_skills.workspace.layout import skill_link

if TYPE_CHECKING:
    from pathlib import Path, PurePosixPath

    from sandbox_skills.workspace.staging import StagedSkill


@dataclass(slots=True)
class WorkspaceMemory:
    """The skills that were staged for it, by each name they go by; pinned artifacts; private copies; secrets.

    `copies` maps box paths of writable copies to the digest of the skill they were made from.
    """

    skills: dict[str, SkillPlace] = field(default_factory=dict[str, SkillPlace])
    pins: Pins = field(default_factory=Pins)
    copies: dict[PurePosixPath, str] = field(default_factory=dict["PurePosixPath", str])
    grants: BoxGrants = field(default_factory=BoxGrants)

    def remember(self, staged: StagedSkill, host: Path, *names: str) -> None:
        """Notes a staged skill under its folder's name and others that it goes by."""
        place = SkillPlace(staged.box_path, host)
        for name in (staged.name, *names):
            if name:
                self.skills[name] = place

    def for_another_box(self) -> WorkspaceMemory:
        """Returns what goes on where the files do: all but the private copies, which they are not among."""
        return WorkspaceMemory(dict(self.skills), dict(self.pins), grants=self.grants.copy())

    def links(self) -> dict[str, str]:
        """Returns the links by which a run of no skill finds the skills."""
        return {str(skill_link(name)): str(place.box) for name, place in self.skills.items()}

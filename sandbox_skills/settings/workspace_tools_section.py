"""The section `workspace_tools`: what is chosen of the toolset `workspace`."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from sandbox_skills.settings.section import Section
from sandbox_skills.toolsets.workspace_tools.options import (
    STREAM_BYTES,
    Lifetime,
    Place,
    WorkspaceToolsOptions,
)

if TYPE_CHECKING:
    from sandbox_skills.settings.kinds import Count, Profile, Size
    from sandbox_skills.spec import Limits

_DEFAULT = WorkspaceToolsOptions()


class WorkspaceToolsSettings(Section):
    """As `workspace_tools.options.WorkspaceToolsOptions`; `stream_bytes` is what a model sees of each stream."""

    profile: Profile = _DEFAULT.profile
    allowed: tuple[str, ...] | None = None
    lifetime: Lifetime = _DEFAULT.lifetime
    place: Place = _DEFAULT.place
    require_loaded: bool = _DEFAULT.require_loaded
    max_loaded: Count | None = _DEFAULT.max_loaded
    overview_limit: Count | None = _DEFAULT.overview_limit
    guidance: str | None = _DEFAULT.guidance
    stream_bytes: Size = STREAM_BYTES
    output_bytes: Size = _DEFAULT.output_bytes
    artifact_bytes: Size = _DEFAULT.artifact_bytes

    def options(self, run: Limits) -> WorkspaceToolsOptions:
        """Returns what is chosen, with the limits of a usual `run` but for its streams."""
        chosen = asdict(self)
        del chosen["stream_bytes"]
        limits = replace(run, stdout_bytes=self.stream_bytes, stderr_bytes=self.stream_bytes)
        return WorkspaceToolsOptions(**chosen, limits=limits)

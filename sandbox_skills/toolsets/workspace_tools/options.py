"""What an operator chooses of the workspace tools."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sandbox_skills.errors import SettingsError
from sandbox_skills.spec import KIB, MIB, Limits

if TYPE_CHECKING:
    from collections.abc import Collection

    from sandbox_skills.toolsets.workspace_tools.names import Profile

STREAM_BYTES = 16 * KIB
"""Of each stream of a run: what a model reads of a log, and about 4,000 tokens."""

OUTPUT_BYTES = 2 * STREAM_BYTES
"""Of both streams of `workspace_exec` together, and of one poll."""

ARTIFACT_BYTES = 64 * MIB
"""Of one file that is saved on request: as much as a whole collection."""

Lifetime = Literal["turn", "once", "session"]
"""How long a loaded skill stands in the prompt: a turn of the user's, one request, or as long as the conversation."""

Place = Literal["system", "tool_result", "reply"]
"""Where what is loaded stands: in the system prompt, in place of the results that loaded it, or only in that result."""

_LIMITS = Limits(stdout_bytes=STREAM_BYTES, stderr_bytes=STREAM_BYTES)


@dataclass(frozen=True, slots=True)
class WorkspaceToolsOptions:
    """Raises SettingsError for what makes no sense.

    `allowed` names tools in place of the `profile`. `require_loaded`: a skill is loaded before it is run. `max_loaded`
    and `overview_limit` count skills, None has no limit. `guidance` None is our own, "" none. `place` "reply" is for
    callers who send results on and build no prompt: then a skill stays in the history, and `lifetime` and `max_loaded`
    only say what may be run.
    """

    profile: Profile = "full"
    allowed: Collection[str] | None = None
    lifetime: Lifetime = "turn"
    place: Place = "system"
    require_loaded: bool = True
    max_loaded: int | None = None
    overview_limit: int | None = None
    guidance: str | None = None
    limits: Limits = field(default_factory=lambda: _LIMITS)
    output_bytes: int = OUTPUT_BYTES
    artifact_bytes: int = ARTIFACT_BYTES

    def __post_init__(self) -> None:
        for name in ("max_loaded", "overview_limit", "output_bytes", "artifact_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingsError(f"{name} of the workspace tools is {value}", hint="it is at least 1")

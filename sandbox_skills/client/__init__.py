"""The client of the daemon: everything that `sandbox-skills serve` offers, over HTTP, from any machine.

It needs nothing of the rest but errors and plain values: no Docker, no engine, no settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.lazy_names import lazy_names

if TYPE_CHECKING:
    from sandbox_skills.client.blocking import BlockingSkillsClient
    from sandbox_skills.client.client import SkillsClient
    from sandbox_skills.client.errors import ServerAnswerError, ServerRefusedError, ServerUnavailableError
    from sandbox_skills.client.options import ServerOptions
    from sandbox_skills.client.runs import RunFields
    from sandbox_skills.client.values import (
        ArtifactInfo,
        Event,
        FileInfo,
        Rejected,
        Run,
        RunOutcome,
        SandboxFailed,
        SessionInfo,
        SkillInfo,
        SkillVersion,
    )

_HOMES = {
    "blocking": ("BlockingSkillsClient",),
    "client": ("SkillsClient",),
    "errors": ("ServerAnswerError", "ServerRefusedError", "ServerUnavailableError"),
    "options": ("ServerOptions",),
    "runs": ("RunFields",),
    "values": (
        "ArtifactInfo",
        "Event",
        "FileInfo",
        "Rejected",
        "Run",
        "RunOutcome",
        "SandboxFailed",
        "SessionInfo",
        "SkillInfo",
        "SkillVersion",
    ),
}

__all__ = [
    "ArtifactInfo",
    "BlockingSkillsClient",
    "Event",
    "FileInfo",
    "Rejected",
    "Run",
    "RunFields",
    "RunOutcome",
    "SandboxFailed",
    "ServerAnswerError",
    "ServerOptions",
    "ServerRefusedError",
    "ServerUnavailableError",
    "SessionInfo",
    "SkillInfo",
    "SkillVersion",
    "SkillsClient",
]

__getattr__ = lazy_names(__name__, _HOMES)

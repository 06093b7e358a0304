"""The sandbox failed, as opposed to the program in it; CLI exit 125."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.errors.base import SandboxSkillsError

if TYPE_CHECKING:
    from collections.abc import Sequence


class EngineError(SandboxSkillsError):
    """The sandbox failed, as opposed to the program in it."""

    code = "engine_error"


class EngineUnavailableError(EngineError):
    """No engine answers, or it does not let us in; the hint is the fix."""

    code = "engine_unavailable"


class ImageError(EngineError):
    """The runner image is missing, was built by another version, or is unfit; says why."""

    code = "image_unfit"


class GuaranteeError(EngineError):
    """The engine cannot enforce guarantees that the spec demands; nothing was run."""

    code = "guarantee_missing"

    def __init__(self, message: str, *, hint: str = "", lost: Sequence[str] = ()) -> None:
        super().__init__(message, hint=hint)
        self.lost = tuple(lost)


class RecorderError(EngineError):
    """Runs of this sandbox cannot be recorded, as was asked for; nothing was run."""

    code = "recorder_unavailable"


class ArtifactStoreError(EngineError):
    """The artifact store is damaged, busy, or cannot be read or written; says where and why."""

    code = "artifact_store_unusable"


class WorkspaceFullError(EngineError):
    """The workspace has no bytes or inodes left for a file that the host puts there."""

    code = "workspace_full"


class SandboxLostError(EngineError):
    """The box, its daemon or the way to it is gone; what the program did by then is unknown."""

    code = "sandbox_lost"


class SessionLostError(SandboxLostError):
    """The session's box is gone and its files with it; a snapshot can go on in a new one."""

    code = "session_lost"


class RunnerProtocolError(EngineError):
    """The box broke the protocol and was killed."""

    code = "runner_protocol"

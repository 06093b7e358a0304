"""Run Agent Skills written by strangers in a hardened, network-disabled container.

The names below are the library; they are imported when first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_skills.errors import (
        EngineError,
        GuaranteeError,
        RequestError,
        SandboxLostError,
        SandboxSkillsError,
    )
    from sandbox_skills.settings import Settings, load_settings
    from sandbox_skills.spec import (
        CollectLimits,
        Command,
        Exited,
        Limits,
        Outcome,
        SandboxLimits,
        SandboxSpec,
        Signalled,
        Stopped,
    )
    from sandbox_skills.wiring import Live, opened
    from sandbox_skills.workspace.inputs import Input
    from sandbox_skills.workspace.manager import (
        Argv,
        RunRequest,
        RunResult,
        Script,
        Session,
        Shell,
        WorkspaceManager,
    )

_HOMES = {
    "errors": ("EngineError", "GuaranteeError", "RequestError", "SandboxLostError", "SandboxSkillsError"),
    "settings": ("Settings", "load_settings"),
    "spec": (
        "CollectLimits",
        "Command",
        "Exited",
        "Limits",
        "Outcome",
        "SandboxLimits",
        "SandboxSpec",
        "Signalled",
        "Stopped",
    ),
    "wiring": ("Live", "opened"),
    "workspace.inputs": ("Input",),
    "workspace.manager": (
        "Argv",
        "RunRequest",
        "RunResult",
        "Script",
        "Session",
        "Shell",
        "WorkspaceManager",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Argv",
    "CollectLimits",
    "Command",
    "EngineError",
    "Exited",
    "GuaranteeError",
    "Input",
    "Limits",
    "Live",
    "Outcome",
    "RequestError",
    "RunRequest",
    "RunResult",
    "SandboxLimits",
    "SandboxLostError",
    "SandboxSkillsError",
    "SandboxSpec",
    "Script",
    "Session",
    "Settings",
    "Shell",
    "Signalled",
    "Stopped",
    "WorkspaceManager",
    "load_settings",
    "opened",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)

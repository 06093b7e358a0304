"""Run Agent Skills written by strangers in a hardened, network-disabled container.

The names below are the library; they are imported when first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.lazy_names import lazy_names

if TYPE_CHECKING:
    from sandbox_skills.client.blocking import BlockingSkillsClient
    from sandbox_skills.client.client import SkillsClient
    from sandbox_skills.client.options import ServerOptions
    from sandbox_skills.controller.client_options import ClientOptions
    from sandbox_skills.controller.controller import Controller, Decisions
    from sandbox_skills.controller.hooks import Hooks
    from sandbox_skills.controller.openrouter import OpenRouterClient
    from sandbox_skills.controller.options import ControllerOptions
    from sandbox_skills.controller.own_tools import OwnTool, function_tool
    from sandbox_skills.controller.state import RunState
    from sandbox_skills.errors import (
        EngineError,
        GuaranteeError,
        RequestError,
        SandboxLostError,
        SandboxSkillsError,
    )
    from sandbox_skills.outgoing.retry_policy import RetryPolicy
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
        TerminalSize,
    )
    from sandbox_skills.toolsets.base import Conversation, ToolCall, ToolResult
    from sandbox_skills.toolsets.blocking import BlockingSkillsProvider
    from sandbox_skills.toolsets.provider import SdkTool, SkillsProvider
    from sandbox_skills.wiring import Live, opened
    from sandbox_skills.wiring.tools import create_skills_provider
    from sandbox_skills.workspace.choices import SessionPolicy
    from sandbox_skills.workspace.input_refs import InputRef
    from sandbox_skills.workspace.inputs import Input
    from sandbox_skills.workspace.interactive import (
        Interaction,
        InteractiveProgram,
        InteractivePrograms,
        Poll,
    )
    from sandbox_skills.workspace.live_output import LiveOutput, OutputChunk, OutputGap
    from sandbox_skills.workspace.live_session import LiveSession
    from sandbox_skills.workspace.manager import (
        Argv,
        RunRequest,
        RunResult,
        RunRules,
        Script,
        Services,
        Session,
        Shell,
        WorkspaceManager,
    )
    from sandbox_skills.workspace.output_spec import OutputRequest, OutputSpec
    from sandbox_skills.workspace.sessions import SessionManager
    from sandbox_skills.workspace.snapshot import Snapshot

_HOMES = {
    "client.blocking": ("BlockingSkillsClient",),
    "client.client": ("SkillsClient",),
    "client.options": ("ServerOptions",),
    "controller.client_options": ("ClientOptions",),
    "controller.controller": ("Controller", "Decisions"),
    "controller.hooks": ("Hooks",),
    "controller.openrouter": ("OpenRouterClient",),
    "controller.options": ("ControllerOptions",),
    "controller.own_tools": ("OwnTool", "function_tool"),
    "controller.state": ("RunState",),
    "errors": ("EngineError", "GuaranteeError", "RequestError", "SandboxLostError", "SandboxSkillsError"),
    "outgoing.retry_policy": ("RetryPolicy",),
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
        "TerminalSize",
    ),
    "toolsets.base": ("Conversation", "ToolCall", "ToolResult"),
    "toolsets.blocking": ("BlockingSkillsProvider",),
    "toolsets.provider": ("SdkTool", "SkillsProvider"),
    "wiring": ("Live", "opened"),
    "wiring.tools": ("create_skills_provider",),
    "workspace.input_refs": ("InputRef",),
    "workspace.inputs": ("Input",),
    "workspace.interactive": ("Interaction", "InteractiveProgram", "InteractivePrograms", "Poll"),
    "workspace.choices": ("SessionPolicy",),
    "workspace.live_output": ("LiveOutput", "OutputChunk", "OutputGap"),
    "workspace.live_session": ("LiveSession",),
    "workspace.manager": (
        "Argv",
        "RunRequest",
        "RunResult",
        "RunRules",
        "Script",
        "Services",
        "Session",
        "Shell",
        "WorkspaceManager",
    ),
    "workspace.output_spec": ("OutputRequest", "OutputSpec"),
    "workspace.sessions": ("SessionManager",),
    "workspace.snapshot": ("Snapshot",),
}
__all__ = [
    "Argv",
    "BlockingSkillsClient",
    "BlockingSkillsProvider",
    "ClientOptions",
    "CollectLimits",
    "Command",
    "Controller",
    "ControllerOptions",
    "Conversation",
    "Decisions",
    "EngineError",
    "Exited",
    "GuaranteeError",
    "Hooks",
    "Input",
    "InputRef",
    "Interaction",
    "InteractiveProgram",
    "InteractivePrograms",
    "Limits",
    "Live",
    "LiveOutput",
    "LiveSession",
    "OpenRouterClient",
    "Outcome",
    "OutputChunk",
    "OutputGap",
    "OutputRequest",
    "OutputSpec",
    "OwnTool",
    "Poll",
    "RequestError",
    "RetryPolicy",
    "RunRequest",
    "RunResult",
    "RunRules",
    "RunState",
    "SandboxLimits",
    "SandboxLostError",
    "SandboxSkillsError",
    "SandboxSpec",
    "Script",
    "SdkTool",
    "ServerOptions",
    "Services",
    "Session",
    "SessionManager",
    "SessionPolicy",
    "Settings",
    "Shell",
    "Signalled",
    "SkillsClient",
    "SkillsProvider",
    "Snapshot",
    "Stopped",
    "TerminalSize",
    "ToolCall",
    "ToolResult",
    "WorkspaceManager",
    "create_skills_provider",
    "function_tool",
    "load_settings",
    "opened",
]

__getattr__ = lazy_names(__name__, _HOMES)

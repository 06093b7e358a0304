"""Plain values that cross borders: what a sandbox is, what runs in it, how that ended.

Sizes are bytes, times are seconds, everywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.lazy_names import lazy_names

if TYPE_CHECKING:
    from sandbox_skills.spec.box import (
        HANDLERS,
        LOCAL_TENANT,
        SKILLS,
        UNSTAGED_FOLDERS,
        WORKSPACE,
        SandboxId,
        SandboxSpec,
    )
    from sandbox_skills.spec.command import (
        Command,
        Places,
        SignalName,
        TerminalSize,
    )
    from sandbox_skills.spec.exit_codes import (
        SIGNAL_BASE,
        STOPPED_CODES,
        StopReason,
    )
    from sandbox_skills.spec.limits import (
        BASE_GUARANTEES,
        KIB,
        MIB,
        CollectLimits,
        Guarantee,
        Limits,
        SandboxLimits,
    )
    from sandbox_skills.spec.outcome import (
        Collection,
        Ending,
        Exited,
        FoundFile,
        LimitName,
        Outcome,
        Signalled,
        Stopped,
        ending_dict,
        exit_code,
    )

_HOMES = {
    "box": (
        "HANDLERS",
        "LOCAL_TENANT",
        "SKILLS",
        "SandboxId",
        "SandboxSpec",
        "UNSTAGED_FOLDERS",
        "WORKSPACE",
    ),
    "command": (
        "Command",
        "Places",
        "SignalName",
        "TerminalSize",
    ),
    "exit_codes": (
        "SIGNAL_BASE",
        "STOPPED_CODES",
        "StopReason",
    ),
    "limits": (
        "BASE_GUARANTEES",
        "CollectLimits",
        "Guarantee",
        "KIB",
        "Limits",
        "MIB",
        "SandboxLimits",
    ),
    "outcome": (
        "Collection",
        "Ending",
        "Exited",
        "FoundFile",
        "LimitName",
        "Outcome",
        "Signalled",
        "Stopped",
        "ending_dict",
        "exit_code",
    ),
}

__all__ = [
    "BASE_GUARANTEES",
    "HANDLERS",
    "KIB",
    "LOCAL_TENANT",
    "MIB",
    "SIGNAL_BASE",
    "SKILLS",
    "STOPPED_CODES",
    "UNSTAGED_FOLDERS",
    "WORKSPACE",
    "CollectLimits",
    "Collection",
    "Command",
    "Ending",
    "Exited",
    "FoundFile",
    "Guarantee",
    "LimitName",
    "Limits",
    "Outcome",
    "Places",
    "SandboxId",
    "SandboxLimits",
    "SandboxSpec",
    "SignalName",
    "Signalled",
    "StopReason",
    "Stopped",
    "TerminalSize",
    "ending_dict",
    "exit_code",
]

__getattr__ = lazy_names(__name__, _HOMES)

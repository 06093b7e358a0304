"""What is kept of each run for whoever must answer for it: one event, whatever became of the run."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

RunStatus = Literal["ended", "refused", "sandbox_error", "cancelled", "failed"]
"""`ended`: the command ran to its ending. `refused`: the request; nothing ran. `failed`: none of the others."""


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One run: who ran what of which skill with which files, and how it ended.

    `command` and `env` are redacted. `outputs` are the names of collected files, `artifacts` the references of those
    that were saved. `ending` is as `spec.ending_dict` spells it, None where nothing ended. `code` is an error's.
    `seccomp` is the SHA-256 of the filter of system calls that the program ran under, empty where there was none.
    `interactive` tells a program that was talked to, so that what it did is not in `command` alone.
    """

    tenant: str
    status: RunStatus
    session: str = ""
    run_id: str = ""
    skill: str = ""
    digest: str = ""
    seccomp: str = ""
    command: tuple[str, ...] = ()
    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    interactive: bool = False
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    limits_hit: tuple[str, ...] = ()
    ending: Mapping[str, object] | None = None
    code: str = ""
    seconds: float = 0.0
    time: float = field(default_factory=time.time)

    def as_dict(self) -> dict[str, object]:
        """Returns the event for JSON; `time` is seconds since the epoch."""
        return {"event": "run", **{name: getattr(self, name) for name in _FIELDS}}


_FIELDS = tuple(each.name for each in fields(AuditEvent))


class AuditLog(Protocol):
    """Keeps audit events."""

    def record(self, event: AuditEvent, /) -> None:
        """Keeps one event. Called on the event loop: returns at once, and never raises."""
        ...

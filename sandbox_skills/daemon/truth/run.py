"""What a run is, as values that can be serialised: every mapping is JSON, times are UTC seconds since the epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, cast

from sandbox_skills.spec import KIB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class RunState(StrEnum):
    """Where a run stands; it goes forward only, but a running one may be given back to the queue."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"


class RunKind(StrEnum):
    """A command of a skill, or a conversation of the controller with a model."""

    SKILL = "skill"
    AGENT = "agent"


@dataclass(frozen=True, slots=True)
class SkillRef:
    """Which skill a run uses. `version` is empty for the server's own, `source` is "tenant" or "server"."""

    name: str = ""
    version: str = ""
    digest: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """What a client calls a request, and the digest of its body; remembered for `ttl_seconds`."""

    key: str
    body_digest: str
    ttl_seconds: float = 86_400.0


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to be queued. `request` is what the API read; a node needs every capability of `needs` to take it."""

    tenant_id: str
    request: Mapping[str, Any]
    skill: SkillRef = SkillRef()
    kind: RunKind = RunKind.SKILL
    session_id: str | None = None
    needs: frozenset[str] = frozenset()
    idempotency: IdempotencyKey | None = None
    actor: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    """How a run ended. `outcome` is discriminated by `type`; `result` is what the API shows, None where nothing ran."""

    outcome: Mapping[str, Any]
    result: Mapping[str, Any] | None = None
    limits_hit: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """A run as the database has it. `event_last` is the number of its newest event."""

    id: str
    tenant_id: str
    kind: RunKind
    session_id: str | None
    skill: SkillRef
    state: RunState
    request: Mapping[str, Any]
    needs: frozenset[str]
    attempt: int
    node: str | None
    outcome: Mapping[str, Any] | None
    limits_hit: tuple[str, ...]
    result: Mapping[str, Any] | None
    created_at: float
    started_at: float | None
    finished_at: float | None
    cancel_requested_at: float | None
    event_last: int


@dataclass(frozen=True, slots=True)
class NewEvent:
    """Something that happened in a run: `kind` is `output` or the like, `data` what the API shows beside it."""

    kind: str
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class RunEvent:
    """An event that was kept. `seq` counts from 1 in its run, without a hole."""

    run_id: str
    seq: int
    kind: str
    data: Mapping[str, Any]
    at: float


QUEUED = "queued"
STARTED = "started"
OUTPUT = "output"
RELEASED = "released"
CANCEL_REQUESTED = "cancel_requested"
FINISHED = "finished"
"""The kinds that the queue itself writes, but OUTPUT. FINISHED is the last of every run and holds its outcome."""


def restarted() -> Finished:
    """Returns how a run ended that was going when the daemon's process ended."""
    return sandbox_failed(
        "sandbox_lost",
        "the daemon was restarted while the run was going; what it did by then is unknown",
        reason="restarted",
    )


def sandbox_failed(code: str, message: str, *, reason: str, hint: str = "") -> Finished:
    """Returns how a run ended whose sandbox failed, as opposed to the program in it."""
    return Finished(
        {
            "type": "sandbox_error",
            "code": code,
            "message": message,
            "hint": hint,
            "reason": reason,
        }
    )


def cancelled_while_queued() -> Finished:
    """Returns how a run ended that nobody had begun."""
    return Finished({"type": "stopped", "reason": "cancelled"})


BRIEF_CHARS = 64 * KIB
"""Of texts in what is written down: JSON and the database take a fifth of a millisecond for so much."""


def is_brief(*told: object) -> bool:
    """Tells whether values of JSON have few characters, so that to write them down holds nobody up. Pure."""
    return sum(map(_chars, told)) <= BRIEF_CHARS


def _chars(value: object) -> int:
    match value:
        case str():
            return len(value)
        case dict():  # a Mapping is looked for five times as long
            return sum(map(_chars, cast("dict[str, object]", value).values()))
        case list() | tuple():
            return sum(map(_chars, cast("Sequence[object]", value)))
        case _:
            return 0

"""What a daemon tells: runs and how they ended, their events, skills, sessions, artifacts. Immutable.

Times are aware datetimes, sizes bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime  # noqa: TC003  # pydantic reads annotations when the program runs
from typing import TYPE_CHECKING, Annotated, Literal, cast

from pydantic import BeforeValidator

from sandbox_skills.client.json_values import JsonObject, number_at, object_of, text_at
from sandbox_skills.client.problems import outcome_error
from sandbox_skills.errors import RequestError, SandboxLostError
from sandbox_skills.spec import Exited, Signalled, Stopped, StopReason

if TYPE_CHECKING:
    from sandbox_skills.errors import SandboxSkillsError


@dataclass(frozen=True, slots=True)
class SandboxFailed:
    """The sandbox failed, not the program: what that did by then is unknown. `reason` is such as `restarted`."""

    code: str
    message: str = ""
    hint: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Nothing was started, and `hint` is what to do about it."""

    code: str
    message: str = ""
    hint: str = ""


RunOutcome = Exited | Signalled | Stopped | SandboxFailed | Rejected


def outcome_of(value: object) -> RunOutcome | None:
    """Returns how a run ended, None where it has not; raises ValueError for a kind that is not known here."""
    if value is None or isinstance(value, RunOutcome):
        return value
    given = object_of(value)
    match given.get("type"):
        case "exited":
            return Exited(number_at(given, "code") or 0)
        case "signalled":
            return Signalled(number_at(given, "signal") or 0)
        case "stopped":
            return Stopped(cast("StopReason", text_at(given, "reason")))
        case "sandbox_error":
            return SandboxFailed(*(text_at(given, name) for name in ("code", "message", "hint", "reason")))
        case "rejected":
            return Rejected(*(text_at(given, name) for name in ("code", "message", "hint")))
        case other:
            raise ValueError(f"no outcome that is known here: {other!r}")


@dataclass(frozen=True, slots=True)
class SkillUsed:
    """Which content of which skill a run is of; `source` is `server` for one that every tenant has."""

    name: str = ""
    version: int | str | None = None
    digest: str = ""
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One run. `result` is what the command line prints with `--json`, None before the end."""

    id: str
    state: Literal["queued", "running", "finished"]
    skill: SkillUsed | None = None
    session_id: str | None = None
    request: JsonObject = field(default_factory=dict["str", "object"])
    outcome: Annotated[RunOutcome | None, BeforeValidator(outcome_of)] = None
    limits_hit: tuple[str, ...] = ()
    result: JsonObject | None = None
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    attempt: int = 0

    @property
    def finished(self) -> bool:
        """Whether it is over."""
        return self.state == "finished"

    @property
    def ok(self) -> bool:
        """Whether the program ended by itself with 0."""
        return self.outcome == Exited(0)

    @property
    def error(self) -> SandboxSkillsError | None:
        """What kept it from running, or what its sandbox had; None where a program ran, however it ended."""
        match self.outcome:
            case Rejected(code, message, hint):
                return outcome_error(code, message, hint, otherwise=RequestError)
            case SandboxFailed(code, message, hint):
                return outcome_error(code, message, hint, otherwise=SandboxLostError)
            case _:
                return None

    @property
    def stdout(self) -> str:
        """What was kept of the program's output, "" before the end."""
        return text_at(self.result or {}, "stdout")

    @property
    def stderr(self) -> str:
        """What was kept of the program's messages, "" before the end."""
        return text_at(self.result or {}, "stderr")


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a run; `seq` grows by each. `data` is all of it, with what its type has besides."""

    seq: int
    type: str
    data: JsonObject

    @property
    def text(self) -> str:
        """The piece of a program's output, "" for other events."""
        return text_at(self.data, "text")

    @property
    def stream(self) -> str:
        """`stdout` or `stderr` for a piece of output, "" for other events."""
        return text_at(self.data, "stream")


@dataclass(frozen=True, slots=True)
class SkillInfo:
    """A skill; `latest` is the version that is meant where none is named."""

    name: str
    description: str = ""
    latest: int | str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class SkillVersion:
    """One version of a skill, with what is to be said of it."""

    version: int | str
    name: str = ""
    digest: str = ""
    size: int = 0
    files: int | None = None
    diagnostics: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A workspace that is kept over many runs. An idle one has no sandbox, and gets one with the next call.

    It closes when nobody used it for `ttl_seconds`; `end` is why it is closed.
    """

    id: str
    state: Literal["active", "idle", "closed"]
    name: str | None = None
    end: str | None = None
    ttl_seconds: float = 0.0
    expires_at: datetime | None = None
    created_at: datetime | None = None
    last_used_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file of a session's workspace."""

    path: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class ArtifactInfo:
    """One version of a kept file."""

    name: str
    version: int
    mime_type: str = "application/octet-stream"
    size: int = 0
    sha256: str = ""
    ref: str = ""
    skill: str = ""
    skill_digest: str = ""
    run_id: str = ""
    created_at: datetime | None = None

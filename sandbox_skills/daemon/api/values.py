"""The forms of what goes over the wire that more than one kind of resource has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Generic, Literal, TypeVar

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")

Id = Annotated[str, Path(description="An id as it was told.", examples=["01JDZ6V7Z3M9QHTR4W8YB2C5KD"])]
"""An id in a path. Whatever is none finds nothing."""

Words = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]*$")]
"""A line that people read: without what moves a terminal's cursor, and without the NUL that not every database has."""

DEFAULT_PAGE = 50
MAX_PAGE = 200
"""Rows of a list: with a result in each, more would be megabytes that nobody reads at once."""


class Given(BaseModel):
    """Something that a client sends: a name that it does not have is a mistake, and told."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Told(BaseModel):
    """Something that the server answers. Clients are to ignore names that they do not know."""

    model_config = ConfigDict(frozen=True)


class Page(Told, Generic[T]):
    """Some rows of a list."""

    items: list[T]
    next_cursor: str | None = Field(description="What `after` is to be for the next page; null at the end.")


class Exited(Told, json_schema_extra={"examples": [{"type": "exited", "code": 0}]}):
    """The program ended by itself."""

    type: Literal["exited"] = "exited"
    code: int


class Signalled(Told, json_schema_extra={"examples": [{"type": "signalled", "signal": 11}]}):
    """The program died by a signal that no limit explains."""

    type: Literal["signalled"] = "signalled"
    signal: int


class Stopped(Told, json_schema_extra={"examples": [{"type": "stopped", "reason": "wall_time"}]}):
    """A limit or the caller ended the program."""

    type: Literal["stopped"] = "stopped"
    reason: Literal["wall_time", "cpu_time", "memory", "output", "cancelled"]


class SandboxFailed(
    Told,
    json_schema_extra={
        "examples": [
            {
                "type": "sandbox_error",
                "code": "sandbox_lost",
                "message": "the daemon was restarted while the run was going; what it did by then is unknown",
                "hint": "",
                "reason": "restarted",
            }
        ]
    },
):
    """The sandbox failed, not the program in it; what it did by then is unknown. It is not run again by itself."""

    type: Literal["sandbox_error"] = "sandbox_error"
    code: str
    message: str
    hint: str = ""
    reason: str = Field(default="", description="`restarted` where the server ended meanwhile; else empty.")


class Rejected(
    Told,
    json_schema_extra={
        "examples": [
            {
                "type": "rejected",
                "code": "policy_denied",
                "message": "the policy does not allow this skill",
                "hint": "ask the operator",
            }
        ]
    },
):
    """Nothing was started."""

    type: Literal["rejected"] = "rejected"
    code: str
    message: str
    hint: str = ""


Outcome = Annotated[Exited | Signalled | Stopped | SandboxFailed | Rejected, Field(discriminator="type")]
"""How a run ended."""


def rfc3339(seconds: float) -> str:
    """Returns a moment, in seconds since the epoch, as RFC 3339 says it in UTC. Pure."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def rfc3339_or_none(seconds: float | None) -> str | None:
    """Returns what `rfc3339` does, None for a moment that has not come."""
    return None if seconds is None else rfc3339(seconds)

"""How a run ended, what it did, and what was collected after it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal

from sandbox_skills.spec.exit_codes import SIGNAL_BASE, STOPPED_CODES, StopReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.recording import Recording

LimitName = Literal[
    "pids",
    "disk",
    "inodes",
    "open_files",
    "file_size",
    "memory",
    "cpu_time",
    "stdout",
    "stderr",
    "collected_files",
    "collected_bytes",
]


@dataclass(frozen=True, slots=True)
class Exited:
    """The program ended by itself; 127 is a command not found, 126 one that cannot be executed."""

    code: int


@dataclass(frozen=True, slots=True)
class Signalled:
    """The program died by a signal that no limit of ours explains."""

    signal: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """A limit or the caller ended the program."""

    reason: StopReason


Ending = Exited | Signalled | Stopped


def exit_code(ending: Ending) -> int:
    """Returns the exit code that mirrors how a program ended."""
    match ending:
        case Exited(code):
            return code
        case Signalled(signal):
            return SIGNAL_BASE + signal
        case Stopped(reason):
            return STOPPED_CODES[reason]


def ending_dict(ending: Ending) -> dict[str, object]:
    """Returns the one spelling of an ending: its kind, and what that kind has."""
    match ending:
        case Exited(code):
            return {"kind": "exited", "code": code}
        case Signalled(number):
            return {"kind": "signalled", "signal": number}
        case Stopped(reason):
            return {"kind": "stopped", "reason": reason}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run did. `stdout` and `stderr` are heads, cut at a UTF-8 character where they are text.

    `limits_guessed` is the part of `limits_hit` that no counter shows: read from a message or a full disk.
    `sandbox_lives` is False where the run took the whole box with it (memory), so that the next call on the
    same sandbox raises `SandboxLostError`. `unprepared` is why a place of the command could not be made: the program
    ran all the same, as it may be the one to make room. `recording` is there where the command asked for one.
    `found_nothing` says that the directory which it said to look into was empty when it ended, or not there; where that
    is not known it is False.
    """

    ending: Ending
    limits_hit: frozenset[LimitName] = frozenset()
    limits_guessed: frozenset[LimitName] = frozenset()
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    max_rss: int = 0
    sandbox_lives: bool = True
    unprepared: str = ""
    recording: Recording | None = None
    found_nothing: bool = False

    @property
    def ok(self) -> bool:
        """Whether the program ended by itself with 0."""
        return self.ending == Exited(0)

    def as_dict(self) -> dict[str, object]:
        """Returns the one spelling of an outcome, for JSON. Bytes that are not UTF-8 are shown in hex."""
        return {
            "ending": ending_dict(self.ending),
            "limits_hit": sorted(self.limits_hit),
            "limits_guessed": sorted(self.limits_guessed),
            "stdout": self.stdout.decode(errors="backslashreplace"),
            "stderr": self.stderr.decode(errors="backslashreplace"),
            "stdout_truncated": self.stdout_truncated,
            "stderr_truncated": self.stderr_truncated,
            "stdout_bytes": self.stdout_bytes,
            "stderr_bytes": self.stderr_bytes,
            "wall_seconds": round(self.wall_seconds, 6),
            "cpu_seconds": round(self.cpu_seconds, 6),
            "max_rss": self.max_rss,
            "sandbox_lives": self.sandbox_lives,
            **({} if self.recording is None else {"recording": self.recording.as_dict()}),
        }


@dataclass(frozen=True, slots=True)
class FoundFile:
    """One file of a collection. `name` is its path relative to the workspace, already checked by the host.

    `size` is what the file has, `truncated` that fewer bytes were taken. There may be thousands: a path object is made
    of a name when one is asked for.
    """

    name: str
    size: int
    mode: int
    truncated: bool = False

    @property
    def path(self) -> PurePosixPath:
        """The name as a path."""
        return PurePosixPath(self.name)


@dataclass(frozen=True, slots=True)
class Collection:
    """What a collection took, sorted by path. `skipped` maps paths that matched to why they were left."""

    files: tuple[FoundFile, ...] = ()
    limits_hit: frozenset[LimitName] = frozenset()
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])

"""Plain values that cross borders: what a sandbox is, what runs in it, how that ended.

Sizes are bytes, times are seconds, everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NewType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.recording import Recorded, Recording

SandboxId = NewType("SandboxId", str)

LOCAL_TENANT = "local"
"""Whoever sits at the command line, or calls the library for nobody else, owns what that makes."""

KIB = 1024
MIB = 1024 * KIB

WORKSPACE = PurePosixPath("/workspace")
"""Where every box has its writable, size-limited workspace."""

SKILLS = PurePosixPath("/skills")
"""Where every box has the read-only store of staged skills."""


HANDLERS = PurePosixPath("/opt/sandbox-skills/handlers")
"""Where every box has what calls the handlers of tools, read-only and outside of every skill."""

UNSTAGED_FOLDERS = frozenset({".git", "__pycache__"})
"""Left out of every copy of a skill: history that no run reads, and bytecode of another Python.

`node_modules` stays, a skill may ship it.
"""


class Guarantee(StrEnum):
    """What an engine enforces. A spec demands; an engine that cannot enforce refuses."""

    NO_NETWORK = "no_network"
    READONLY_ROOT = "readonly_root"
    READONLY_SKILLS = "readonly_skills"
    NO_CAPABILITIES = "no_capabilities"
    NO_NEW_PRIVILEGES = "no_new_privileges"
    OWN_UID = "own_uid"
    PROTECTED_RUNNER = "protected_runner"
    SECCOMP = "seccomp"
    APPARMOR = "apparmor"
    MEMORY = "memory"
    CPU = "cpu"
    PIDS = "pids"
    DISK = "disk"
    INODES = "inodes"
    OPEN_FILES = "open_files"
    FILE_SIZE = "file_size"
    KERNEL_BOUNDARY = "kernel_boundary"


BASE_GUARANTEES = frozenset(Guarantee) - {Guarantee.APPARMOR, Guarantee.KERNEL_BOUNDARY}
"""What a sandbox means here. AppArmor depends on the host, a kernel boundary on the runtime."""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """Ceilings of one box for its whole life; an engine sets them before the box starts."""

    memory: int = 512 * MIB
    cpus: float = 1.0
    pids: int = 128
    workspace_bytes: int = 256 * MIB
    workspace_inodes: int = 16 * KIB
    tmp_bytes: int = 64 * MIB
    shm_bytes: int = 16 * MIB
    open_files: int = 1024
    file_bytes: int = 256 * MIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Ceilings of one run. `cpu_seconds` None means that only the wall clock counts."""

    wall_seconds: float = 300.0
    cpu_seconds: float | None = None
    stdout_bytes: int = MIB
    stderr_bytes: int = MIB
    output_bytes: int = 64 * MIB


@dataclass(frozen=True, slots=True)
class CollectLimits:
    """Ceilings of one collection.

    A file over `file_bytes` is cut there and said to be truncated; one that what is left of `total_bytes` does not
    hold is left out.
    """

    files: int = 100
    file_bytes: int = 4 * MIB
    total_bytes: int = 64 * MIB


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """One box to be made. `needs` is a demand: an engine enforces all of it or starts nothing.

    `tenant` and `run` only label the box. `ttl_seconds` is when it may be reaped whatever its owner says.
    """

    tenant: str = ""
    run: str = ""
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    needs: frozenset[Guarantee] = BASE_GUARANTEES
    network: Literal["none"] = "none"
    ttl_seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class Places:
    """What a program finds in its workspace: directories, and links (path → target); what is there is left.

    Paths of the box as text: each run has some of its own, and to make one of pathlib's took 30 us (measured cold).
    """

    dirs: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Command:
    """One program to run, as an argument list; no shell reads it.

    `env` is added to the box's fixed minimal environment and wins over it. `stdin` None is an empty,
    closed input; a program that is started rather than run gets it first. `argv[0]` without a slash is
    looked up in PATH. `places` are made just before it starts. `record` is what is to be seen of it: a demand, which
    a box that cannot record refuses (RecorderError); ordinary runs have none. `fork` is no demand: a Python program may
    be a fork of an interpreter that is up in the box, which it could tell, as `runner-image/fork_server/` says.
    `look_into` is a directory of the workspace of which the outcome may tell that it holds nothing.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: PurePosixPath = WORKSPACE
    stdin: bytes | None = None
    places: Places = Places()
    record: frozenset[Recorded] = frozenset()
    fork: bool = False
    look_into: PurePosixPath | None = None

    def finding(self, places: Places) -> Command:
        """Returns the command with other places."""
        return Command(
            self.argv, self.env, self.cwd, self.stdin, places, self.record, self.fork, self.look_into
        )


@dataclass(frozen=True, slots=True)
class TerminalSize:
    """Rows and columns of a terminal, 1 to 1,000 each; the default is that of every terminal since the VT100."""

    rows: int = 24
    cols: int = 80


SignalName = Literal["INT", "TERM"]
"""What a program can be sent: to interrupt it, and to ask for its end."""

StopReason = Literal["wall_time", "cpu_time", "memory", "output", "cancelled"]

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

SIGNAL_BASE = 128
"""What a shell adds to the number of a signal that ended a program."""

STOPPED_CODES: Mapping[StopReason, int] = MappingProxyType(
    {
        "wall_time": 124,  # as `timeout` says it
        "cpu_time": 124,
        "memory": 137,  # as a shell says it of a program that the kernel killed
        "output": 141,  # as a shell says it of a program that died of SIGPIPE
        "cancelled": 130,  # as a shell says it of a program that was interrupted
    }
)
"""The exit codes that shells and users know for what stopped a program."""


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
    """One file of a collection. `path` is relative to the workspace and already checked by the host.

    `size` is what the file has, `truncated` that fewer bytes were taken.
    """

    path: PurePosixPath
    size: int
    mode: int
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Collection:
    """What a collection took, sorted by path. `skipped` maps paths that matched to why they were left."""

    files: tuple[FoundFile, ...] = ()
    limits_hit: frozenset[LimitName] = frozenset()
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])

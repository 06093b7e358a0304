"""What runs in a box."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sandbox_skills.spec.box import WORKSPACE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import PurePosixPath

    from sandbox_skills.recording import Recorded


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

"""What an engine is: read this first. Every engine makes boxes; every box has the runner; the rest is messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import PurePosixPath

    from sandbox_skills.spec import Collection as Collected
    from sandbox_skills.spec import (
        CollectLimits,
        Command,
        FoundFile,
        Guarantee,
        Limits,
        Outcome,
        SandboxId,
        SandboxSpec,
        SignalName,
        TerminalSize,
    )


class OutputSink(Protocol):
    """Takes output while a program runs. Called on the event loop: must return at once and not raise."""

    def __call__(self, stream: Literal["stdout", "stderr"], data: bytes, /) -> None: ...


class FileSink(Protocol):
    """Takes the files of a collection one after another, each as begin, write…, end.

    `blocking` is whether it may wait, for a disk: such a sink is called in a worker thread, by one at a time.
    """

    blocking: bool

    def begin(self, file: FoundFile, /) -> None: ...

    def write(self, data: bytes, /) -> None: ...

    def end(self) -> None: ...


class WholeFileSink(FileSink, Protocol):
    """Takes a file whose bytes are all there in one call as well: most of a collection of many small ones."""

    def whole(self, file: FoundFile, data: bytes, /) -> None: ...


def whole_of(sink: FileSink) -> Callable[[FoundFile, bytes], None] | None:
    """Returns what takes a whole file where the sink has it; to ask by isinstance takes a tenth of a millisecond."""
    return cast("WholeFileSink", sink).whole if hasattr(sink, "whole") else None


@dataclass(frozen=True, slots=True)
class EngineReport:
    """What a probe saw. `lost` maps guarantees this engine cannot give here to the reason."""

    engine: str
    version: str
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    lost: Mapping[str, str] = field(default_factory=dict[str, str])


class Process(Protocol):
    """One program under way, as `Sandbox.start` yields it."""

    async def write(self, data: bytes) -> bool:
        """Gives the program input, no faster than it reads; whole, however many write at once.

        Returns False where it reads no more: it has ended, or has closed its input. A cancel may have given a part.
        """
        ...

    def close_stdin(self) -> None:
        """Ends the input behind what was written. On a terminal that is ^D, which a program may read as it likes."""
        ...

    def resize(self, size: TerminalSize) -> None:
        """Changes the size of the terminal, of which the program hears by SIGWINCH; nothing without a terminal.

        Raises CommandError for a size that no terminal has.
        """
        ...

    def signal(self, name: SignalName) -> None:
        """Sends a signal to the program's process group, and to the one in the foreground of its terminal."""
        ...

    def kill(self) -> None:
        """Ends the program and all that came of it, whatever they do about it; `wait` tells when they are gone."""
        ...

    async def wait(self) -> Outcome:
        """Waits for the end and returns it, to each who asks. A cancel ends the waiting and not the program.

        Raises SandboxLostError and RunnerProtocolError as the sandbox does.
        """
        ...


class Sandbox(Protocol):
    """One running box. Calls may overlap unless a method says otherwise; the box takes them up as they began.

    Every method raises SandboxLostError when the box or its daemon is gone, and RunnerProtocolError (after
    which the box is gone too) when the box breaks the protocol.
    """

    @property
    def id(self) -> SandboxId: ...

    @property
    def alive(self) -> bool:
        """Whether the box was there when last heard of; False never becomes True again."""
        ...

    @property
    def seccomp(self) -> str:
        """The SHA-256 of our filter of system calls over its programs, in hexadecimal; empty where there is none."""
        ...

    async def ping(self) -> float:
        """Returns the seconds a message there and back took."""
        ...

    async def run(
        self, command: Command, *, limits: Limits | None = None, on_output: OutputSink | None = None
    ) -> Outcome:
        """Runs one program to its end; whatever ends it, no process of it is alive afterwards.

        A program that fails, is killed or hits a limit is an Outcome. Never retried. A cancel kills the
        program, waits until it is gone, and raises; the box stays usable. One program at a time unless the
        engine was told otherwise: an overlapping one raises EngineError.
        """
        ...

    def start(
        self,
        command: Command,
        *,
        limits: Limits | None = None,
        tty: TerminalSize | None = None,
        on_output: OutputSink | None = None,
    ) -> AbstractAsyncContextManager[Process]:
        """Starts one program to talk to; its input is open until `close_stdin`. Counts as a run, with a run's limits.

        With `tty` it has a controlling terminal of that size, whose output comes as stdout. Leaving the block
        kills the program if it has not ended, and returns when nothing of it is alive.
        """
        ...

    async def prepare(
        self,
        *,
        dirs: Sequence[PurePosixPath] = (),
        links: Mapping[PurePosixPath, PurePosixPath] | None = None,
    ) -> None:
        """Makes directories and symlinks (path → target) in the workspace; what exists is left or relinked."""
        ...

    async def put(self, path: PurePosixPath, chunks: AsyncIterator[bytes], *, mode: int = 0o644) -> int:
        """Writes one file below the workspace, making its directories; returns its size.

        The file appears whole or not at all. Raises PathEscapeError, WorkspaceFullError.
        """
        ...

    def get(
        self, path: PurePosixPath, *, max_bytes: int
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Opens one regular file below the workspace for reading, at most `max_bytes` of it.

        Raises InputError where there is no such regular file. Links are not followed.
        """
        ...

    async def collect(self, patterns: Sequence[str], limits: CollectLimits, sink: FileSink) -> Collected:
        """Gives every regular file below the workspace that matches a pattern to `sink`, sorted by path.

        Patterns are relative to the workspace: `*`, `?`, `[…]` within a name, `**` for any directories.
        Links are not followed out of the workspace, special files never opened. No pattern, no message.
        """
        ...


class Engine(Protocol):
    """Makes sandboxes."""

    @property
    def guarantees(self) -> frozenset[Guarantee]:
        """What this engine enforces; a spec that needs more raises GuaranteeError from `open`."""
        ...

    async def probe(self) -> EngineReport:
        """Returns what this engine is and lacks; raises EngineUnavailableError with the fix as its hint."""
        ...

    def open(self, spec: SandboxSpec) -> AbstractAsyncContextManager[Sandbox]:
        """Makes one box and ends it on leaving, on a cancel too: container, files and descriptors gone.

        Entering raises EngineUnavailableError, ImageError, GuaranteeError, SandboxLostError.
        """
        ...

    async def reap(self, keep: Collection[SandboxId]) -> list[SandboxId]:
        """Ends boxes whose owner is dead or whose time is over, never one in `keep`; returns their ids."""
        ...

    async def aclose(self) -> None:
        """Ends what the engine itself holds. Boxes that are open must have been left before."""
        ...

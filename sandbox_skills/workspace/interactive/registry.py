"""The interactive programs of one session: found by their ids, and ended with it."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from sandbox_skills.engines.cancellation import finish
from sandbox_skills.errors import ProgramNotFoundError, QuotaError
from sandbox_skills.workspace.interactive.program import InteractiveProgram

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine
    from types import TracebackType

    from sandbox_skills.engines.base import OutputSink, Sandbox
    from sandbox_skills.spec import Command, Limits, Outcome, TerminalSize
    from sandbox_skills.workspace.interactive.program import Status

T = TypeVar("T")

MAX_PROGRAMS = 16
"""Programs of one session, those that ended and are remembered included: each may hold 16 MiB of text, and a result."""

KEPT_SECONDS = 1800.0
"""How long a program that ended can still be polled: a conversation may have gone elsewhere and come back."""

ID_BYTES = 16
"""128 bits: an id is all that is needed to talk to a program, and nobody guesses that."""


@dataclass(frozen=True, slots=True)
class _Owned(Generic[T]):
    """A program, and the task that sees it through."""

    program: InteractiveProgram[T]
    task: asyncio.Task[T]


class InteractivePrograms(Generic[T]):
    """Starts programs in one sandbox and keeps them. Leaving its block kills those that run.

    T is what the session makes of a program that ended, such as its collected outputs.
    """

    def __init__(
        self, sandbox: Sandbox, *, max_programs: int = MAX_PROGRAMS, kept_seconds: float = KEPT_SECONDS
    ) -> None:
        self._sandbox = sandbox
        self._max_programs = max_programs
        self._kept_seconds = kept_seconds
        self._owned: dict[str, _Owned[T]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def start(
        self,
        command: Command,
        *,
        on_exit: Callable[[Outcome], Awaitable[T]],
        limits: Limits | None = None,
        tty: TerminalSize | None = None,
        sink: OutputSink | None = None,
    ) -> InteractiveProgram[T]:
        """Starts a program and returns it. `on_exit` is called once, when it has ended or was killed.

        Raises CommandError, EngineError for more than the sandbox runs at once, and as `launch` does.
        """

        async def life(program: InteractiveProgram[T]) -> T:
            return await on_exit(await program.run_in(self._sandbox, command, limits=limits))

        return await self.launch(life, tty=tty, sink=sink)

    async def launch(
        self,
        life: Callable[[InteractiveProgram[T]], Coroutine[object, object, T]],
        *,
        tty: TerminalSize | None = None,
        sink: OutputSink | None = None,
    ) -> InteractiveProgram[T]:
        """Returns a program once it has begun. `life` is all that it goes through, `InteractiveProgram.run_in` in it.

        A task of its own runs `life`, so that what it enters it leaves again, and is cancelled with the session.
        `sink` hears the output live. Raises QuotaError for more programs than a session has, and what `life` raises
        before the program has begun. A cancel ends the program.
        """
        self._make_room()
        program = InteractiveProgram[T](secrets.token_hex(ID_BYTES), tty=tty, sink=sink)
        task = asyncio.create_task(life(program), name=f"interactive {program.id}")
        task.add_done_callback(program.settle)
        self._owned[program.id] = _Owned(program, task)
        try:
            await program.begun()
        except BaseException:
            self._owned.pop(program.id, None)
            await finish(_cancelled([task]))
            raise
        return program

    def get(self, program_id: str) -> InteractiveProgram[T]:
        """Returns a program of this session; raises ProgramNotFoundError, also for one that ended too long ago."""
        self._reap()
        try:
            return self._owned[program_id].program
        except KeyError:
            raise ProgramNotFoundError(
                "no program of that id", hint="it was killed, or ended too long ago, or is of another session"
            ) from None

    def has(self, program_id: str) -> bool:
        """Whether this session has a program of that id."""
        self._reap()
        return program_id in self._owned

    def running(self) -> tuple[str, ...]:
        """Returns the ids of those that have not ended."""
        return tuple(key for key, owned in self._owned.items() if owned.program.running)

    async def kill(self, program_id: str) -> Status:
        """Ends a program and forgets it, unless it had ended by itself; raises ProgramNotFoundError."""
        status = await self.get(program_id).kill()
        if status == "killed":
            self._owned.pop(program_id, None)
        return status

    async def aclose(self) -> None:
        """Kills every program that runs and waits until it is gone; `on_exit` of those is not called."""
        tasks = [owned.task for owned in self._owned.values()]
        self._owned.clear()
        await finish(_cancelled(tasks))

    def _make_room(self) -> None:
        self._reap()
        if len(self._owned) < self._max_programs:
            return
        settled = [key for key, owned in self._owned.items() if owned.program.settled_at is not None]
        if not settled:
            raise QuotaError(
                f"{len(self._owned)} programs run in this session, which is all it may have",
                hint="kill one of them",
            )
        del self._owned[settled[0]]

    def _reap(self) -> None:
        due = time.monotonic() - self._kept_seconds
        for program in [owned.program for owned in self._owned.values()]:
            if program.settled_at is not None and program.settled_at <= due:
                del self._owned[program.id]


async def _cancelled(tasks: Collection[asyncio.Task[T]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)

"""What users of a session hold: runs one after another, interactive programs, snapshots, and the end."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from sandbox_skills.errors import SandboxLostError
from sandbox_skills.workspace.execution import unattended
from sandbox_skills.workspace.run_audit import audited

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from sandbox_skills.catalog.pins import Pin
    from sandbox_skills.engines.base import OutputSink
    from sandbox_skills.spec import TerminalSize
    from sandbox_skills.telemetry import AuditLog
    from sandbox_skills.workspace.choices import SnapshotLimits
    from sandbox_skills.workspace.execution import Execution
    from sandbox_skills.workspace.interactive import InteractiveProgram, InteractivePrograms
    from sandbox_skills.workspace.kept_session import KeptSession, SessionInfo
    from sandbox_skills.workspace.request import RunRequest
    from sandbox_skills.workspace.result import RunResult
    from sandbox_skills.workspace.session import Session
    from sandbox_skills.workspace.snapshot import Snapshot
    from sandbox_skills.workspace.staging import StagedSkill


class LiveSession:
    """A session that others may use as well. It needs no closing: it expires when nobody uses it.

    Every method but `stage` raises SessionExpiredError, SessionLostError or SessionClosedError once it has ended.
    """

    def __init__(
        self, session: Session, kept: KeptSession, audit: AuditLog | None, limits: SnapshotLimits
    ) -> None:
        self._session = session
        self._kept = kept
        self._audit = audit
        self._limits = limits

    @property
    def id(self) -> str:
        """What its users call it."""
        return self._kept.id

    @property
    def info(self) -> SessionInfo:
        """How old it is, and how long nobody has used it."""
        return self._kept.info()

    async def stage(self, skill_dir: Path, *, pin: Pin | None = None, name: str = "") -> StagedSkill:
        """Copies a skill into the store as `Session.stage` does."""
        return await self._session.stage(skill_dir, pin=pin, name=name)

    async def run(
        self, staged: StagedSkill | None, request: RunRequest, *, on_output: OutputSink | None = None
    ) -> RunResult:
        """Runs one command as `Session.run` does, when it is its turn; raises SessionBusyError where none wait.

        A box that is lost meanwhile is a SessionLostError.
        """
        execution = unattended(self._session.sandbox, on_output)
        return await self._run_by(execution, staged, request, turn=self._kept.turn(self._session))

    async def start_program(
        self,
        staged: StagedSkill | None,
        request: RunRequest,
        *,
        tty: TerminalSize | None = None,
        sink: OutputSink | None = None,
    ) -> InteractiveProgram[RunResult]:
        """Starts a command to talk to as `Session.start_program` does, when it is its turn.

        The session is not idle while it lives. Unless runs are parallel, others are refused by SessionBusyError until
        it has ended: it may be waiting for whoever would wait for it.
        """

        async def life(program: InteractiveProgram[RunResult]) -> RunResult:
            execution = partial(program.run_in, self._session.sandbox)
            turn = self._kept.conversation(self._session)
            return await self._run_by(execution, staged, request, turn=turn, interactive=True)

        return await self._session.programs.launch(life, tty=tty, sink=sink)

    @property
    def programs(self) -> InteractivePrograms[RunResult]:
        """The interactive programs of all who use the session, by their ids; `start_program` adds to them."""
        self._kept.check(self._session)
        return self._session.programs

    async def _run_by(
        self,
        execution: Execution,
        staged: StagedSkill | None,
        request: RunRequest,
        *,
        turn: AbstractAsyncContextManager[None],
        interactive: bool = False,
    ) -> RunResult:
        tenant = self._kept.tenant
        with audited(self._audit, request, tenant=tenant, session=self.id, interactive=interactive) as run:
            run.staged = staged
            async with turn:
                run.elsewhere = True
                try:
                    result = await self._session.run_by(execution, staged, request, interactive=interactive)
                except SandboxLostError as error:
                    self._kept.end("lost")
                    raise self._kept.error() from error
                if not result.outcome.sandbox_lives:
                    self._kept.end("lost")
                return result

    @contextmanager
    def held(self) -> Generator[Session]:
        """Gives the session for something that is no run, such as work on its files.

        It is not idle meanwhile, but takes runs, closes and grows old as ever.
        """
        with self._kept.held(self._session):
            yield self._session

    async def snapshot(self, path: Path) -> Snapshot:
        """Writes the files of `work/` and `out/` to a tar at `path`, which is the caller's to remove."""
        async with self._kept.turn(self._session):
            return await self._session.snapshot(path, limits=self._limits)

    async def close(self) -> None:
        """Ends the session and what runs in it, for all who use it."""
        await self._kept.close()

"""One audit event for each run, whatever becomes of it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from sandbox_skills.errors import EngineError, RequestError, SandboxSkillsError
from sandbox_skills.spec import ending_dict
from sandbox_skills.telemetry import AuditEvent, Redaction, redacted_argv, redacted_env
from sandbox_skills.workspace.input_refs import InputRef
from sandbox_skills.workspace.request import Argv, Script, Shell

if TYPE_CHECKING:
    from types import TracebackType

    from sandbox_skills.spec import Outcome
    from sandbox_skills.telemetry import AuditLog, RunStatus
    from sandbox_skills.workspace.input_plan import AnyInput
    from sandbox_skills.workspace.ready import ReadyRun
    from sandbox_skills.workspace.request import Invocation, RunRequest
    from sandbox_skills.workspace.result import RunResult
    from sandbox_skills.workspace.staging import StagedSkill


@dataclass(slots=True)
class AuditedRun:
    """What is known of a run so far. `elsewhere` is set where another record has become responsible for it.

    A context: leaving it writes one event to `log`. A class, since each run is one and a generator's context costs it
    twice as much.
    """

    log: AuditLog | None
    request: RunRequest
    tenant: str
    session: str = ""
    skill: str = ""
    interactive: bool = False
    started: float = field(default_factory=time.monotonic)
    staged: StagedSkill | None = None
    seccomp: str = ""
    ready: ReadyRun | None = None
    outcome: Outcome | None = None
    result: RunResult | None = None
    elsewhere: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.log is not None and not self.elsewhere:
            self.log.record(_event(self, failure, seconds=time.monotonic() - self.started))


def audited(
    log: AuditLog | None,
    request: RunRequest,
    *,
    tenant: str,
    session: str = "",
    skill: str = "",
    interactive: bool = False,
) -> AuditedRun:
    """Writes down one event when the block is left, however it is; none where `elsewhere` was set by then."""
    return AuditedRun(log, request, tenant, session, request.skill_name or skill, interactive)


def _event(run: AuditedRun, failure: BaseException | None, *, seconds: float) -> AuditEvent:
    request, ready, staged, result = run.request, run.ready, run.staged, run.result
    hide = (ready.redaction if ready is not None else Redaction(request.grants.values())).text
    env = {**request.env, **request.grants}
    argv = ready.command.argv if ready is not None else _words(request.invocation)
    hit = result.limits_hit if result is not None else run.outcome.limits_hit if run.outcome else ()
    return AuditEvent(
        tenant=run.tenant,
        status=_status(failure, run.outcome),
        session=run.session,
        run_id=ready.run_id if ready is not None else "",
        skill=ready.skill if ready is not None else run.skill or (staged.name if staged is not None else ""),
        digest=staged.digest if staged is not None else "",
        seccomp=run.seccomp,
        command=redacted_argv(tuple(map(hide, argv)), env, frozenset(request.grants)),
        cwd=hide(str(ready.command.cwd) if ready is not None else request.cwd),
        env=redacted_env({name: hide(value) for name, value in env.items()}, frozenset(request.grants)),
        interactive=run.interactive,
        inputs=tuple(hide(_named(one)) for one in request.inputs),
        outputs=tuple(str(file.path) for file in result.files) if result is not None else (),
        artifacts=_artifacts(result),
        limits_hit=tuple(sorted(hit)),
        ending=ending_dict(run.outcome.ending) if run.outcome is not None else None,
        code=_code(failure),
        seconds=round(seconds, 6),
    )


def _status(failure: BaseException | None, outcome: Outcome | None) -> RunStatus:
    match failure:
        case None:
            return "ended"
        case asyncio.CancelledError():
            return "cancelled"
        case RequestError():
            # An output that cannot be saved is found out when all is done.
            return "refused" if outcome is None else "ended"
        case EngineError():
            return "sandbox_error"
        case _:
            return "failed"


def _code(failure: BaseException | None) -> str:
    match failure:
        case None:
            return ""
        case SandboxSkillsError():
            return failure.code
        case _:
            return type(failure).__name__


def _words(invocation: Invocation) -> tuple[str, ...]:
    match invocation:
        case Argv(argv):
            return argv
        case Shell(text):
            return ("bash", "-c", text)
        case Script(path, args):
            return (path, *args)


def _named(one: AnyInput) -> str:
    return one.source if isinstance(one, InputRef) else str(Path(one.source))


def _artifacts(result: RunResult | None) -> tuple[str, ...]:
    if result is None or result.report is None:
        return ()
    return tuple(artifact.ref for artifact in result.report.artifacts)

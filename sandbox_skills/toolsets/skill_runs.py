"""Where every toolset's calls become runs: the skill found, its content as pinned, allowed, granted, staged and run."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from anyio import to_thread

from sandbox_skills.catalog import made_at_run_time
from sandbox_skills.errors import PolicyError, QuotaError, SessionExpiredError, SessionLostError
from sandbox_skills.policy import NO_CEILINGS, Manner, Policy, RunLimits, decide, lowest
from sandbox_skills.workspace.layout import SYSTEM_PATH
from sandbox_skills.workspace.request import Script, Shell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sandbox_skills.catalog import Pin, SkillSpec
    from sandbox_skills.policy import Decision
    from sandbox_skills.spec import TerminalSize
    from sandbox_skills.toolsets.base import CallContext, Conversation
    from sandbox_skills.toolsets.offered import OfferedSkills
    from sandbox_skills.workspace.interactive import InteractiveProgram
    from sandbox_skills.workspace.live_session import LiveSession
    from sandbox_skills.workspace.request import RunRequest
    from sandbox_skills.workspace.result import RunResult
    from sandbox_skills.workspace.sessions import SessionManager
    from sandbox_skills.workspace.staging import StagedSkill


EMPTIED = "the workspace was lost or its time was over: files of earlier calls are gone"
"""What a result begins with where it was made in a new workspace in place of an old one."""


MAX_EMPTIED = 1_000
"""Workspaces of which that is still to be told: a conversation may never come back, and then nobody is told."""


class Demand(Protocol):
    """Returns the pin that a skill's copy must meet, as `install.Trust.demanded`. Blocking."""

    def __call__(self, spec: SkillSpec, *, asked: str = "") -> Pin | None: ...


def _no_demand(spec: SkillSpec, *, asked: str = "") -> Pin | None:  # noqa: ARG001  # a Demand takes both
    return None


@dataclass(frozen=True, slots=True)
class Started:
    """A program that was started to be talked to; `notes` are to be told with its first words."""

    program: InteractiveProgram[RunResult]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Call:
    """Which tool asks, what it calls the skill, and the other skills whose files are inputs."""

    tool: str
    asked: str
    sources: Sequence[SkillSpec]


@dataclass(frozen=True, slots=True)
class _Ready:
    """A workspace, the skill as it lies in its store, and the request as the policy has it."""

    session: LiveSession
    staged: StagedSkill | None
    request: RunRequest


@dataclass(frozen=True, slots=True)
class SkillRuns:
    """Runs skills in the workspaces of conversations. Owns neither the sessions nor the catalog.

    `secrets` are the values that the operator keeps, by name; a skill gets those that the policy grants it, and only
    where it is trusted; one that is just what `define_tool` wrote needs a pin for that. One that a tenant uploaded may
    have any name, and gets them where the policy's rule holds for its content alone. No run has more than `ceilings`.
    """

    skills: OfferedSkills
    sessions: SessionManager
    policy: Policy = field(default_factory=Policy)
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    demanded: Demand = _no_demand
    ceilings: RunLimits = NO_CEILINGS
    _emptied: dict[tuple[str, str], None] = field(default_factory=dict[tuple[str, str], None], repr=False)

    async def find(self, name: str) -> SkillSpec:
        """Returns an offered skill; raises SkillNotFoundError with near names."""
        return await to_thread.run_sync(self.skills.require, name)

    async def run(
        self,
        spec: SkillSpec | None,
        request: RunRequest,
        context: CallContext,
        *,
        tool: str,
        asked: str = "",
        sources: Sequence[SkillSpec] = (),
    ) -> RunResult:
        """Runs one command of a skill, or of none, in the conversation's workspace and collects what was asked for.

        `asked` is what the model called the skill, `sources` are the other skills whose files are inputs. Raises
        PolicyError for what the policy refuses, SkillChangedError for a skill that is not what was pinned, and as
        `LiveSession.run` does.
        """
        ready = await self._ready(spec, request, context, _Call(tool, asked, sources))
        result = await ready.session.run(ready.staged, ready.request, on_output=context.on_output)
        return _with_news(result, self._news(context, ready.session))

    async def start(
        self,
        spec: SkillSpec | None,
        request: RunRequest,
        context: CallContext,
        *,
        tool: str,
        asked: str = "",
        sources: Sequence[SkillSpec] = (),
        tty: TerminalSize | None = None,
    ) -> Started:
        """Starts one command of a skill, or of none, to talk to. Raises as `run` and `LiveSession.start_program` do."""
        ready = await self._ready(spec, request, context, _Call(tool, asked, sources))
        program = await ready.session.start_program(
            ready.staged, ready.request, tty=tty, sink=context.on_output
        )
        return Started(program, self._news(context, ready.session))

    async def _ready(
        self, spec: SkillSpec | None, request: RunRequest, context: CallContext, call: _Call
    ) -> _Ready:
        """Returns all that a run needs, in the workspace that is the skill's; sources are staged in that one, too."""
        spec = await self._vouched(spec)
        granted = self.granted(spec, request, tenant=context.conversation.tenant, tool=call.tool)
        session = await self.workspace(context.conversation, spec, granted)
        for source in call.sources:
            await self.stage(session, source)
        staged = None if spec is None else await self.stage(session, spec, asked=call.asked)
        return _Ready(session, staged, granted)

    def _news(self, context: CallContext, session: LiveSession) -> tuple[str, ...]:
        """Returns what is to be told, once, of a workspace that is not the one of earlier calls."""
        workspace = (context.conversation.tenant, session.id)
        if workspace not in self._emptied:
            return ()
        del self._emptied[workspace]
        return (EMPTIED,)

    async def _vouched(self, spec: SkillSpec | None) -> SkillSpec | None:
        """Returns the skill as it may be given secrets: what a model wrote needs a pin, whatever its root is."""
        if spec is None or not self.secrets or spec.accepted:
            return spec
        made = await to_thread.run_sync(made_at_run_time, Path(spec.dir))
        return replace(spec, accepted=False) if made else spec

    def granted(
        self,
        spec: SkillSpec | None,
        request: RunRequest,
        *,
        tenant: str,
        tool: str,
        asked: RunLimits = NO_CEILINGS,
    ) -> RunRequest:
        """Returns the request with what the policy gives and takes, and the lowest ceilings; raises PolicyError. Pure.

        `spec` is None for a command of no skill. The policy's `env` wins over that of the call, so that a model cannot
        point a skill's service elsewhere. Where its command was judged, the names of programs mean those of the
        image: a workspace may hold others. `asked` are limits that the caller wants to be lower.
        """
        name = "" if spec is None else spec.name
        manner = Manner(tuple(request.env), request.cwd, request.writable_skill)
        decision = decide(
            self.policy, tenant=tenant, tool=tool, skill=name, manner=manner, **_judged(request)
        )
        if not decision.allowed:
            raise PolicyError(decision.reason, hint="Use another way, or ask the user to change the policy.")
        path = {"PATH": SYSTEM_PATH} if decision.judged else {}
        return replace(
            request,
            skill_name=request.skill_name or name,
            digest=decision.digest,
            env={**request.env, **path, **decision.env},
            grants={**request.grants, **self._secrets(spec, decision)},
            ceilings=lowest(decision.limits, self.ceilings, asked),
        )

    def _secrets(self, spec: SkillSpec | None, decision: Decision) -> dict[str, str]:
        if spec is None or not spec.trusted or (spec.uploaded and not decision.digest):
            return {}
        missing = [name for name in decision.secrets if name not in self.secrets]
        if missing:
            raise PolicyError(
                f"the policy grants secrets that are not there: {', '.join(missing)}",
                hint="Tell the user to set them as environment variables or in secrets.file.",
            )
        return {name: self.secrets[name] for name in decision.secrets}

    async def stage(self, session: LiveSession, spec: SkillSpec, *, asked: str = "") -> StagedSkill:
        """Copies a skill into the store, unless it is there; raises SkillChangedError, SkillUnsafeError."""
        # One visit to a thread for both: each is a fiftieth of a call.
        folder, pin = await to_thread.run_sync(self._place, spec, asked)
        return await session.stage(folder, pin=pin, name=spec.name)

    def _place(self, spec: SkillSpec, asked: str) -> tuple[Path, Pin | None]:
        return Path(spec.dir).resolve(), self.demanded(spec, asked=asked)

    async def workspace(
        self, conversation: Conversation, spec: SkillSpec | None = None, request: RunRequest | None = None
    ) -> LiveSession:
        """Returns the conversation's workspace; a skill with secrets has one of its own.

        One that expired or was lost goes on from its files where they are still there, else with nothing, which the
        next run's result tells. Where there are too many, that of another conversation expires which has been at rest
        longest; raises QuotaError where none is.
        """
        alone = spec is not None and request is not None and bool(request.grants)
        name = workspace_name(conversation, spec.id if alone and spec is not None else "")
        tenant = conversation.tenant
        while True:
            try:
                return await self._open(name, tenant)
            except QuotaError:
                if not await self.sessions.make_room(tenant=tenant):
                    raise

    async def _open(self, name: str, tenant: str) -> LiveSession:
        try:
            return await self.sessions.open(name, tenant=tenant)
        except (SessionExpiredError, SessionLostError):
            left = self.sessions.snapshot_of(name, tenant=tenant)
            session = await self.sessions.open(name, tenant=tenant, restore=left, anew=left is None)
            if left is None:
                self._note_emptied(tenant, name)
            return session

    def emptied(self, conversation: Conversation) -> None:
        """Says that an earlier program had the conversation's workspace: the next run's result tells that it is new."""
        self._note_emptied(conversation.tenant, workspace_name(conversation))

    def _note_emptied(self, tenant: str, workspace: str) -> None:
        self._emptied[tenant, workspace] = None
        while len(self._emptied) > MAX_EMPTIED:
            del self._emptied[next(iter(self._emptied))]

    async def workspaces(self, conversation: Conversation) -> list[LiveSession]:
        """Returns the workspaces of a conversation that live; makes none."""
        name = workspace_name(conversation)
        live = [info.id for info in self.sessions.sessions(tenant=conversation.tenant)]
        own = [one for one in live if one == name or one.startswith(f"{name}/")]
        return [await self.sessions.open(one, tenant=conversation.tenant) for one in own]


def _with_news(result: RunResult, news: tuple[str, ...]) -> RunResult:
    if not news:
        return result
    report = result.report
    told = None if report is None else replace(report, warnings=(*news, *report.warnings))
    return replace(result, notes=(*news, *result.notes), report=told)


def workspace_name(conversation: Conversation, skill: str = "") -> str:
    """Returns the name of a conversation's session, or of the one that a skill with secrets has in it. Pure.

    No two conversations have one in common, whatever they are called.
    """
    name = quote(conversation.id, safe="", errors="surrogatepass")
    return f"{name}/{skill}" if skill else name


def _judged(request: RunRequest) -> dict[str, str]:
    match request.invocation:
        case Script(path):
            return {"script": path}
        case Shell(text):
            return {"command": text}
        case argv:
            return {"command": shlex.join(argv.argv)}

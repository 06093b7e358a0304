"""What is told of runs: one audit event each, whatever becomes of it, and spans that cost nothing unasked."""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sandbox_skills.artifacts import LocalArtifactStore
from sandbox_skills.engines.fake import FakeEngine, FakeSandbox
from sandbox_skills.errors import (
    CommandError,
    GuaranteeError,
    OutputError,
    SandboxLostError,
    SandboxSkillsError,
    SkillNotFoundError,
)
from sandbox_skills.spec import SandboxSpec
from sandbox_skills.telemetry import AuditFile, span
from sandbox_skills.workspace.input_refs import InputRef
from sandbox_skills.workspace.manager import Argv, RunRequest, Services, Shell, WorkspaceManager
from sandbox_skills.workspace.output_spec import OutputRequest
from sandbox_skills.workspace.outputs import DirectorySink
from sandbox_skills.workspace.staging import SkillStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from sandbox_skills.telemetry import AuditEvent

pytestmark = pytest.mark.anyio

TRUE = RunRequest(Argv(("true",)))


class Audit:
    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


@pytest.fixture
def audit() -> Audit:
    return Audit()


@pytest.fixture
def manager(tmp_path: Path, audit: Audit) -> WorkspaceManager:
    return WorkspaceManager(
        FakeEngine(),
        SkillStore(tmp_path / "store"),
        spec=SandboxSpec(needs=frozenset()),
        services=Services(LocalArtifactStore(tmp_path / "artifacts"), audit),
    )


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    (tmp_path / "skill").mkdir()
    (tmp_path / "skill" / "SKILL.md").write_text("x")
    return tmp_path / "skill"


class TestOneEvent:
    @pytest.mark.parametrize(
        ("request_", "kind"),
        [
            (RunRequest(Argv(())), CommandError),
            (replace(TRUE, inputs=(InputRef("workspace://out/x"),)), SandboxSkillsError),
            (replace(TRUE, inputs=(InputRef("artifact://x"),)), SandboxSkillsError),
        ],
    )
    async def test_a_refused_run(
        self,
        manager: WorkspaceManager,
        audit: Audit,
        skill: Path,
        request_: RunRequest,
        kind: type[SandboxSkillsError],
    ) -> None:
        with pytest.raises(kind) as raised:
            await manager.run(skill, request_, tenant="t")
        (event,) = audit.events
        assert (event.status, event.code, event.ending) == ("refused", raised.value.code, None)
        assert (event.tenant, event.skill) == ("t", "skill")

    async def test_a_skill_that_is_not_there(
        self, manager: WorkspaceManager, audit: Audit, tmp_path: Path
    ) -> None:
        request = RunRequest(Shell("tool --token hidden"), cwd="work")
        with pytest.raises(SkillNotFoundError):
            await manager.run(tmp_path / "nothing", request, tenant="t")
        (event,) = audit.events
        assert (event.status, event.code, event.skill) == ("refused", "skill_not_found", "nothing")
        assert event.command == ("bash", "-c", "tool --token [redacted]")

    async def test_a_sandbox_that_cannot_be_made(self, tmp_path: Path, audit: Audit, skill: Path) -> None:
        manager = WorkspaceManager(FakeEngine(), SkillStore(tmp_path / "s"), services=Services(audit=audit))
        with pytest.raises(GuaranteeError):
            await manager.run(skill, TRUE, tenant="t")
        assert [event.status for event in audit.events] == ["sandbox_error"]
        assert audit.events[0].digest

    async def test_a_sandbox_that_is_lost(
        self, manager: WorkspaceManager, audit: Audit, skill: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def lose(self: FakeSandbox, *given: object, **named: object) -> None:
            raise SandboxLostError("gone")

        monkeypatch.setattr(FakeSandbox, "run", lose)
        with pytest.raises(SandboxLostError):
            await manager.run(skill, TRUE, tenant="t")
        assert [(event.status, event.code) for event in audit.events] == [("sandbox_error", "sandbox_lost")]

    async def test_a_cancelled_run(self, manager: WorkspaceManager, audit: Audit, skill: Path) -> None:
        run = asyncio.ensure_future(manager.run(skill, RunRequest(Argv(("sleep", "9"))), tenant="t"))
        await asyncio.sleep(0.1)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert [(event.status, event.ending) for event in audit.events] == [("cancelled", None)]

    async def test_outputs_that_cannot_be_saved(
        self,
        manager: WorkspaceManager,
        audit: Audit,
        skill: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def fail(self: DirectorySink, data: bytes) -> None:
            raise OutputError("no room")

        monkeypatch.setattr(DirectorySink, "write", fail)
        request = RunRequest(
            Argv(("tee", "/workspace/out/a")), outputs=("out/*",), out_dir=tmp_path / "host", stdin=b"x"
        )
        with pytest.raises(OutputError):
            await manager.run(skill, request, tenant="t")
        (event,) = audit.events
        assert (event.status, event.code) == ("ended", "output_invalid")
        assert event.ending == {"kind": "exited", "code": 0}

    async def test_a_bug_of_ours(
        self, manager: WorkspaceManager, audit: Audit, skill: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def fail(self: FakeSandbox, *given: object, **named: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(FakeSandbox, "run", fail)
        with pytest.raises(ZeroDivisionError):
            await manager.run(skill, TRUE, tenant="t")
        assert [(event.status, event.code) for event in audit.events] == [("failed", "ZeroDivisionError")]

    async def test_one_that_was_checked_before_its_session_was_opened(
        self, manager: WorkspaceManager, audit: Audit, skill: Path
    ) -> None:
        staged = await manager.stage(skill, tenant="t")
        ready = await manager.prepare(staged, TRUE, tenant="t")
        with pytest.raises(CommandError):
            await manager.prepare(staged, RunRequest(Argv(())), tenant="t")
        async with manager.session(tenant="t", name="s") as session:
            result = await session.run_ready(ready)
        assert [event.status for event in audit.events] == ["refused", "ended"]
        assert (audit.events[1].run_id, audit.events[1].session) == (result.run_id, "s")

    async def test_granted_secrets_are_never_in_it(
        self, manager: WorkspaceManager, audit: Audit, skill: Path
    ) -> None:
        request = RunRequest(Argv(("echo", "with-s3cret-in")), grants={"PLAIN": "s3cret"})
        await manager.run(skill, request, tenant="t")
        assert "s3cret" not in str(audit.events)
        assert audit.events[0].env == {"PLAIN": "[redacted]"}


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


class TestSpans:
    async def test_each_part_of_a_run_is_a_span_with_what_it_is_about(
        self, manager: WorkspaceManager, skill: Path, exported: InMemorySpanExporter, tmp_path: Path
    ) -> None:
        (tmp_path / "in").write_text("1234")
        request = RunRequest(
            Argv(("tee", "/workspace/out/a")),
            stdin=b"12345",
            inputs=(InputRef("skill://skill/SKILL.md"),),
            wanted=OutputRequest(("out/*",), save_as_artifacts=True),
        )
        result = await manager.run(skill, request, tenant="t")
        spans = {one.name: dict(one.attributes or {}) for one in exported.get_finished_spans()}
        about = {"sandbox_skills.skill": "skill", "sandbox_skills.digest": result.digest}
        assert spans == {
            "workspace.stage.skill": {**about, "sandbox_skills.bytes": 1},
            "workspace.create": {},
            "workspace.stage.inputs": {**about, "sandbox_skills.bytes": 1},
            "workspace.run": {**about, "sandbox_skills.ending": "exited 0", "sandbox_skills.bytes": 5},
            "workspace.collect": {**about, "sandbox_skills.bytes": 5, "sandbox_skills.files": 1},
            "workspace.inline": {
                **about,
                "sandbox_skills.files": 1,
                "sandbox_skills.saved": 1,
                "sandbox_skills.bytes": 5,
            },
            "workspace.cleanup": {},
        }

    async def test_a_run_that_needs_none_of_it_has_no_spans_for_it(
        self, manager: WorkspaceManager, skill: Path, exported: InMemorySpanExporter
    ) -> None:
        await manager.run(skill, TRUE, tenant="t")
        assert [one.name for one in exported.get_finished_spans()] == [
            "workspace.stage.skill",
            "workspace.create",
            "workspace.run",
            "workspace.cleanup",
        ]

    def test_without_an_sdk_seven_spans_cost_less_than_a_tenth_of_a_millisecond(self) -> None:
        def seven() -> float:
            started = time.perf_counter()
            for _ in range(7):
                with span("workspace.run", skill="x", digest="y"):
                    pass
            return time.perf_counter() - started

        assert statistics.median(seven() for _ in range(500)) < 0.0001  # 7 µs on a quiet machine


async def test_the_host_needs_half_a_millisecond_for_a_warm_run_that_is_written_down(
    manager: WorkspaceManager, skill: Path, tmp_path: Path
) -> None:
    manager.services = Services(audit=AuditFile(tmp_path / "audit" / "runs.jsonl"))
    runs: list[float] = []
    yardsticks: list[float] = []
    for _ in range(300):
        yardsticks.append(await processor_seconds(twenty_tasks))
        runs.append(await processor_seconds(lambda: manager.run(skill, TRUE, tenant="t")))
    # The best ones, in processor time, beside work of the same kind: others use its caches too.
    run, yardstick = (statistics.quantiles(samples, n=10)[0] for samples in (runs, yardsticks))
    print(f"{run * 1000:.2f} ms, {run / yardstick:.1f} times twenty tasks")
    # 0.45 ms on a quiet machine, which is 3 to 4 times; 6 where two more programs wanted the processors.
    assert run < 10 * yardstick


async def processor_seconds(work: Callable[[], Awaitable[object]]) -> float:
    started = time.process_time()
    await work()
    return time.process_time() - started


async def twenty_tasks() -> None:
    for _ in range(20):
        await asyncio.create_task(asyncio.sleep(0))

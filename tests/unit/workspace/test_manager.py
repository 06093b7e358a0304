"""The manager over the fake engine: what is asked is what is run, and what cannot be run starts nothing."""

from __future__ import annotations

import asyncio
import inspect
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, cast

import pytest

from sandbox_skills.engines.fake import FakeEngine, FakeSandbox
from sandbox_skills.errors import (
    CommandError,
    EngineError,
    InputError,
    OutputError,
    PathEscapeError,
    PatternError,
    RequestError,
    SandboxLostError,
    ScriptNotFoundError,
    SkillNotFoundError,
)
from sandbox_skills.spec import (
    MIB,
    WORKSPACE,
    CollectLimits,
    Exited,
    Limits,
    Outcome,
    SandboxLimits,
    SandboxSpec,
    Stopped,
)
from sandbox_skills.workspace import manager as module
from sandbox_skills.workspace.inputs import Input
from sandbox_skills.workspace.layout import DIRECTORIES
from sandbox_skills.workspace.manager import Argv, RunRequest, RunResult, Script, Shell, WorkspaceManager
from sandbox_skills.workspace.output_spec import OutputRequest
from sandbox_skills.workspace.staging import SkillStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from sandbox_skills.engines.base import Engine, Sandbox
    from sandbox_skills.engines.fake_programs import Running
    from sandbox_skills.spec import Collection, Command

pytestmark = pytest.mark.anyio

SPEC = SandboxSpec(needs=frozenset())
TRUE = RunRequest(Argv(("true",)))


@dataclass
class Seen:
    """What reached the boxes, in order."""

    commands: list[Command] = field(default_factory=list)
    dirs: list[Sequence[str]] = field(default_factory=list)
    links: list[Mapping[str, str]] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    specs: list[SandboxSpec] = field(default_factory=list)


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def engine(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """A fake engine that writes down what it is told; `record` is a program, and so are the interpreters."""

    async def record(run: Running) -> int:
        seen.commands.append(run.command)
        return 0

    run, put = FakeSandbox.run, FakeSandbox.put

    async def seen_run(self: FakeSandbox, command: Command, **given: object) -> Outcome:
        seen.order.append("run")
        seen.dirs.append(command.places.dirs)
        seen.links.append(command.places.links)
        return await run(self, command, **given)  # type: ignore[arg-type]

    async def seen_put(self: FakeSandbox, path: PurePosixPath, *given: object, **named: object) -> int:
        seen.order.append("put")
        return await put(self, path, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(FakeSandbox, "run", seen_run)
    monkeypatch.setattr(FakeSandbox, "put", seen_put)
    programs = dict.fromkeys(("record", "python3", "bash", "node"), record)
    fake = FakeEngine(programs)

    class Engine(FakeEngine):
        @asynccontextmanager
        async def open(self, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
            seen.specs.append(spec)
            async with fake.open(spec) as sandbox:
                yield sandbox

    return Engine()


@pytest.fixture
def store(tmp_path: Path) -> SkillStore:
    return SkillStore(tmp_path / "store")


@pytest.fixture
def manager(engine: Engine, store: SkillStore) -> WorkspaceManager:
    return WorkspaceManager(engine, store, spec=SPEC)


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    root = tmp_path / "my-skill"
    (root / "scripts").mkdir(parents=True)
    (root / "SKILL.md").write_text("---\nname: my-skill\ndescription: Tests.\n---\n")
    (root / "scripts" / "main.py").write_text("print(1)\n")
    (root / "scripts" / "tool").write_text("#!/usr/bin/env bash\n")
    return root


@pytest.fixture
def closed(store: SkillStore) -> WorkspaceManager:
    """A manager whose engine may not be asked for a box."""

    class Closed(FakeEngine):
        def open(self, spec: SandboxSpec) -> object:  # type: ignore[override]
            pytest.fail("a box was started")

    return WorkspaceManager(cast("Engine", Closed()), store, spec=SPEC)


class TestInvocation:
    @pytest.mark.parametrize(
        ("invocation", "expected"),
        [
            (Argv(("record", "a b", "$HOME", "")), ["record", "a b", "$HOME", ""]),
            (Shell("echo 'a b' > out/x; exit 3"), ["bash", "-c", "echo 'a b' > out/x; exit 3"]),
            (Script("scripts/main.py", ("--n", "1")), ["python3", "{skill}/scripts/main.py", "--n", "1"]),
            (Script("./scripts/tool"), ["bash", "{skill}/scripts/tool"]),
        ],
    )
    async def test_each_form_is_one_argument_list(
        self,
        manager: WorkspaceManager,
        seen: Seen,
        skill: Path,
        invocation: Argv | Shell | Script,
        expected: list[str],
    ) -> None:
        staged = await manager.stage(skill, tenant="t")
        result = await manager.run(skill, RunRequest(invocation), tenant="t")
        assert result.outcome.ok
        assert list(seen.commands[0].argv) == [word.format(skill=staged.box_path) for word in expected]

    @pytest.mark.parametrize(
        "name", ["", "other", "a/b", "../../x", "naïve \N{SNOWMAN}", "-rf", "x" * 300, "a\nb"]
    )
    async def test_any_name_of_a_skill_is_told_as_it_is_and_linked_in_one_place(
        self, manager: WorkspaceManager, seen: Seen, skill: Path, name: str
    ) -> None:
        request = RunRequest(Argv(("record",)), skill_name=name)
        result = await manager.run(skill, request, tenant="t")
        assert result.skill == seen.commands[0].env["SKILL_NAME"] == (name or "my-skill")
        ((link, target),) = [map(PurePosixPath, both) for both in seen.links[0].items()]
        assert (link.parent, target.parent) == (WORKSPACE / "skills", PurePosixPath("/skills"))
        assert ".." not in link.parts

    @pytest.mark.parametrize(
        ("cwd", "expected"),
        [
            ("", "{skill}"),
            ("scripts", "{skill}/scripts"),
            ("$WORK_DIR", "/workspace/work"),
            ("${OUTPUT_DIR}/x", "/workspace/out/x"),
            ("$RUN_DIR", "/workspace/runs/{run}"),
            ("/", "/workspace"),
            ("/workspace/work", "/workspace/work"),
            ("/work", "/workspace/work"),
        ],
    )
    async def test_the_directory_is_the_skills_or_the_workspaces(
        self, manager: WorkspaceManager, seen: Seen, skill: Path, cwd: str, expected: str
    ) -> None:
        staged = await manager.stage(skill, tenant="t")
        result = await manager.run(skill, RunRequest(Argv(("record",)), cwd=cwd), tenant="t")
        assert str(seen.commands[0].cwd) == expected.format(skill=staged.box_path, run=result.run_id)

    async def test_environment_and_input_are_handed_on(
        self, manager: WorkspaceManager, seen: Seen, skill: Path
    ) -> None:
        request = RunRequest(Argv(("record",)), env={"A": "1 2", "LANG": "C"}, stdin=b"\0data")
        result = await manager.run(skill, request, tenant="t")
        (command,) = seen.commands
        assert command.stdin == b"\0data"
        assert (command.env["A"], command.env["LANG"]) == ("1 2", "C")
        assert command.env["RUN_DIR"] == f"/workspace/runs/{result.run_id}"
        assert command.env["WORK_DIR"] == "/workspace/work"

    async def test_output_is_kept_and_streamed(self, manager: WorkspaceManager, skill: Path) -> None:
        live: list[bytes] = []
        result = await manager.run(
            skill,
            RunRequest(Argv(("echo", "hi"))),
            tenant="t",
            on_output=lambda _, data: live.append(data),
        )
        assert (result.outcome.stdout, b"".join(live)) == (b"hi\n", b"hi\n")

    async def test_limits_are_the_requests_else_the_managers(
        self, engine: Engine, store: SkillStore, skill: Path
    ) -> None:
        manager = WorkspaceManager(engine, store, spec=SPEC, limits=Limits(wall_seconds=0.1))
        sleep = RunRequest(Argv(("sleep", "0.3")))
        assert (await manager.run(skill, sleep, tenant="t")).outcome.ending == Stopped("wall_time")
        longer = replace(sleep, limits=Limits(wall_seconds=5))
        assert (await manager.run(skill, longer, tenant="t")).outcome.ending == Exited(0)


class TestPlaces:
    async def test_every_run_finds_its_directories_whatever_the_last_one_did(
        self, manager: WorkspaceManager, seen: Seen, skill: Path
    ) -> None:
        async with manager.session(tenant="t") as session:
            staged = await session.stage(skill)
            results = [await session.run(staged, TRUE) for _ in range(2)]
        own = [f"{WORKSPACE}/runs/{result.run_id}" for result in results]
        # A box that has run nothing yet has the others from its start.
        assert list(map(tuple, seen.dirs)) == [(own[0],), (own[1], *map(str, DIRECTORIES))]
        assert seen.links[0] == {f"{WORKSPACE}/skills/my-skill": str(staged.box_path)}

    async def test_they_are_asked_for_with_the_command_and_after_the_inputs(
        self, manager: WorkspaceManager, seen: Seen, skill: Path
    ) -> None:
        request = replace(TRUE, inputs=(Input(skill / "SKILL.md"),))
        await manager.run(skill, request, tenant="t")
        assert seen.order == ["put", "run"]

    async def test_an_earlier_run_in_the_way_is_noted_and_no_reason_to_refuse(
        self, manager: WorkspaceManager, skill: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = FakeSandbox.run

        async def full(self: FakeSandbox, command: Command, **given: object) -> Outcome:
            outcome = await run(self, command, **given)  # type: ignore[arg-type]
            return replace(outcome, unprepared="no inodes left")

        monkeypatch.setattr(FakeSandbox, "run", full)
        result = await manager.run(skill, RunRequest(Argv(("echo", "hi"))), tenant="t")
        assert (result.outcome.ok, result.outcome.stdout) == (True, b"hi\n")
        assert result.notes == ("the workspace could not be made ready: no inodes left",)

    async def test_a_cancel_ends_it(self, manager: WorkspaceManager, skill: Path) -> None:
        async with manager.session(tenant="t") as session:
            staged = await session.stage(skill)
            run = asyncio.ensure_future(session.run(staged, RunRequest(Argv(("sleep", "60")))))
            await asyncio.sleep(0.1)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            assert (await session.run(staged, TRUE)).outcome.ok


BAD_REQUESTS: list[tuple[RunRequest, type[RequestError], str]] = [
    (RunRequest(Argv(())), CommandError, "empty"),
    (RunRequest(Argv(("",))), CommandError, "empty"),
    (RunRequest(Argv(("a", "b\0"))), CommandError, "NUL"),
    (RunRequest(Argv(("a", "\udcff"))), CommandError, "UTF-8"),
    (RunRequest(Shell("")), CommandError, "empty"),
    (RunRequest(Shell(" \n\t")), CommandError, "empty"),
    (RunRequest(Shell("a\0")), CommandError, "NUL"),
    (RunRequest(Shell("x" * 131_072)), CommandError, "longer"),
    (RunRequest(Script("")), PathEscapeError, "empty"),
    (RunRequest(Script("scripts/missing.py")), ScriptNotFoundError, "no script"),
    (RunRequest(Script("scripts")), ScriptNotFoundError, "not a file"),
    (RunRequest(Script("../my-skill/scripts/main.py")), PathEscapeError, "leaves"),
    (RunRequest(Script("/etc/passwd")), PathEscapeError, "absolute"),
    (RunRequest(Script("SKILL.md")), CommandError, "shebang"),
    (RunRequest(Script("scripts/main.py", ("\0",))), CommandError, "NUL"),
    (replace(TRUE, cwd="../.."), PathEscapeError, "leaves"),
    (replace(TRUE, cwd="/etc"), PathEscapeError, "leaves"),
    (replace(TRUE, env={"A=B": "c"}), CommandError, "variable"),
    (replace(TRUE, env={"A": "\0"}), CommandError, "NUL"),
    (replace(TRUE, skill_name="a\0b"), CommandError, "SKILL_NAME"),
    (replace(TRUE, inputs=(Input(Path("/no/such/file")),)), InputError, "cannot be read"),
    (replace(TRUE, inputs=(Input(Path("/dev/null")),)), InputError, "neither"),
    (replace(TRUE, inputs=(Input(Path("/etc/hostname"), "../x"),)), PathEscapeError, "leaves"),
    (replace(TRUE, inputs=(Input(Path("/etc/hostname"), "skills/x"),)), InputError, "skills"),
    (replace(TRUE, outputs=("../*",)), PathEscapeError, r"\.\."),
    (replace(TRUE, outputs=("/etc/*",)), PathEscapeError, "outside"),
    (replace(TRUE, outputs=("out/[a",)), PatternError, r"\["),
    (replace(TRUE, outputs=("out/*",), out_dir=Path("/dev/null")), OutputError, "not a directory"),
]


class TestBadRequests:
    @pytest.mark.parametrize(("request_", "kind", "reason"), BAD_REQUESTS)
    async def test_it_is_said_before_a_box_is_started(
        self,
        closed: WorkspaceManager,
        skill: Path,
        request_: RunRequest,
        kind: type[RequestError],
        reason: str,
    ) -> None:
        with pytest.raises(kind, match=reason):
            await closed.run(skill, request_, tenant="t")

    async def test_a_skill_that_is_not_there_starts_no_box(
        self, closed: WorkspaceManager, tmp_path: Path
    ) -> None:
        with pytest.raises(SkillNotFoundError):
            await closed.run(tmp_path / "nothing", TRUE, tenant="t")

    async def test_a_missing_script_is_told_with_those_that_exist(
        self, closed: WorkspaceManager, skill: Path
    ) -> None:
        with pytest.raises(ScriptNotFoundError) as raised:
            await closed.run(skill, RunRequest(Script("scripts/man.py")), tenant="t")
        assert raised.value.hint == "the skill has 'scripts/main.py', 'scripts/tool'"

    async def test_an_output_directory_without_outputs_is_not_looked_at(
        self, manager: WorkspaceManager, skill: Path
    ) -> None:
        request = replace(TRUE, out_dir=Path("/dev/null"))
        assert (await manager.run(skill, request, tenant="t")).outcome.ok

    async def test_inputs_for_a_larger_workspace_are_refused_by_its_size(
        self, store: SkillStore, skill: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "big").write_bytes(bytes(MIB + 1))
        spec = replace(SPEC, limits=SandboxLimits(workspace_bytes=MIB))
        manager = WorkspaceManager(FakeEngine(), store, spec=spec)
        with pytest.raises(InputError, match="1 MiB"):
            await manager.run(skill, replace(TRUE, inputs=(Input(tmp_path / "big"),)), tenant="t")

    async def test_a_run_beside_another_is_refused(self, manager: WorkspaceManager, skill: Path) -> None:
        async with manager.session(tenant="t") as session:
            staged = await session.stage(skill)
            first = await session.start_program(staged, RunRequest(Argv(("cat",))))
            with pytest.raises(EngineError, match="runs another command"):
                await session.run(staged, TRUE)
            first.close_stdin()
            assert (await first.result()).outcome.ok


class TestOutputs:
    WRITE = RunRequest(Argv(("tee", "/workspace/out/a.txt")), stdin=b"hello")

    async def test_outputs_are_in_memory_or_saved_as_asked(
        self, manager: WorkspaceManager, skill: Path, tmp_path: Path
    ) -> None:
        request = replace(self.WRITE, outputs=("$OUTPUT_DIR/*", "out/a.txt"))
        kept = await manager.run(skill, request, tenant="t")
        assert [(str(file.path), file.data, file.saved) for file in kept.files] == [
            ("out/a.txt", b"hello", None)
        ]
        saved = await manager.run(skill, replace(request, out_dir=tmp_path / "host"), tenant="t")
        assert [(file.data, file.saved) for file in saved.files] == [(None, tmp_path / "host/out/a.txt")]
        assert (tmp_path / "host/out/a.txt").read_bytes() == b"hello"

    async def test_no_pattern_collects_nothing_and_makes_no_directory(
        self, manager: WorkspaceManager, skill: Path, tmp_path: Path
    ) -> None:
        result = await manager.run(skill, replace(self.WRITE, out_dir=tmp_path / "host"), tenant="t")
        assert result.files == ()
        assert not (tmp_path / "host").exists()

    @pytest.mark.parametrize(
        ("request_", "visits"),
        [
            (RunRequest(Argv(("true",)), outputs=("out/**", "out/a.txt")), 0),
            (RunRequest(Argv(("true",)), wanted=OutputRequest()), 0),
            (RunRequest(Argv(("true",)), outputs=("out/**", "work/**")), 1),
            (RunRequest(Argv(("true",)), outputs=("out*/**",)), 1),
            (replace(WRITE, outputs=("out/**",)), 1),
        ],
    )
    async def test_a_box_is_visited_for_outputs_only_where_there_may_be_some(
        self,
        manager: WorkspaceManager,
        skill: Path,
        monkeypatch: pytest.MonkeyPatch,
        request_: RunRequest,
        visits: int,
    ) -> None:
        collect, collected = FakeSandbox.collect, list[tuple[object, ...]]()

        async def seen(self: FakeSandbox, *given: object) -> Collection:
            collected.append(given)
            return await collect(self, *given)  # type: ignore[arg-type]  # handed on

        monkeypatch.setattr(FakeSandbox, "collect", seen)
        result = await manager.run(skill, request_, tenant="t")
        assert len(collected) == visits
        assert (len(result.files), result.skipped) == (int(request_.stdin is not None), {})

    async def test_a_failed_program_is_a_result_with_its_outputs(
        self, engine: Engine, store: SkillStore, skill: Path
    ) -> None:
        async def failing(run: Running) -> int:
            run.files[PurePosixPath("out/part")] = b"x"
            return 3

        manager = WorkspaceManager(FakeEngine({"failing": failing}), store, spec=SPEC)
        result = await manager.run(skill, RunRequest(Argv(("failing",)), outputs=("out/*",)), tenant="t")
        assert result.outcome.ending == Exited(3)
        assert [str(file.path) for file in result.files] == ["out/part"]

    async def test_limits_of_the_run_and_of_the_collection_are_told_together(
        self, manager: WorkspaceManager, skill: Path
    ) -> None:
        request = replace(
            self.WRITE,
            outputs=("out/*",),
            limits=Limits(stdout_bytes=2),
            collect=CollectLimits(file_bytes=2),
        )
        result = await manager.run(skill, request, tenant="t")
        assert result.limits_hit == {"stdout", "collected_bytes"}
        assert [(file.data, file.truncated, file.size) for file in result.files] == [(b"he", True, 5)]
        told = json.loads(json.dumps(result.as_dict()))
        assert told["limits_hit"] == ["collected_bytes", "stdout"]
        assert told["files"] == [
            {"path": "out/a.txt", "size": 5, "truncated": True, "executable": False, "saved": None}
        ]

    async def test_what_is_left_out_is_told(self, manager: WorkspaceManager, skill: Path) -> None:
        request = RunRequest(Argv(("tee", "/workspace/out/a\\b")), stdin=b"x", outputs=("out/*",))
        result = await manager.run(skill, request, tenant="t")
        assert (result.files, result.skipped) == ((), {"out/a\\b": "name"})

    async def test_a_box_that_died_of_its_run_is_a_result_without_files(
        self, manager: WorkspaceManager, skill: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        died = Outcome(Stopped("memory"), limits_hit=frozenset({"memory"}), sandbox_lives=False)

        async def die(self: FakeSandbox, command: Command, **given: object) -> Outcome:
            self.lose()
            return died

        monkeypatch.setattr(FakeSandbox, "run", die)
        async with manager.session(tenant="t") as session:
            staged = await session.stage(skill)
            result = await session.run(staged, replace(TRUE, outputs=("out/*",)))
            assert (result.outcome, result.files) == (died, ())
            assert result.limits_hit == {"memory"}
            with pytest.raises(SandboxLostError):
                await session.sandbox.ping()

    async def test_what_differs_from_the_skill_and_the_inputs_is_noted(
        self, manager: WorkspaceManager, skill: Path, tmp_path: Path
    ) -> None:
        (skill / "out").mkdir()
        (skill / "out" / "example").touch()
        (tmp_path / "empty").mkdir()
        result = await manager.run(skill, replace(TRUE, inputs=(Input(tmp_path / "empty"),)), tenant="t")
        assert len(result.notes) == 2
        assert "'out' is kept" in result.notes[0]
        assert "has no files" in result.notes[1]
        assert result.as_dict()["notes"] == list(result.notes)


class TestSessions:
    async def test_files_stay_from_run_to_run_and_skills_share_them(
        self, manager: WorkspaceManager, skill: Path, tmp_path: Path
    ) -> None:
        other = tmp_path / "other"
        other.mkdir()
        (other / "SKILL.md").write_text("x")
        async with manager.session(tenant="t") as session:
            first, second = await session.stage(skill), await session.stage(other)
            assert first.box_path != second.box_path
            await session.run(first, TestOutputs.WRITE)
            result = await session.run(second, RunRequest(Argv(("cat", "/workspace/out/a.txt"))))
        assert (result.skill, result.outcome.stdout) == ("other", b"hello")

    async def test_sessions_share_nothing(self, manager: WorkspaceManager, skill: Path) -> None:
        async with manager.session(tenant="a") as one, manager.session(tenant="b") as two:
            await one.run(await one.stage(skill), TestOutputs.WRITE)
            result = await two.run(await two.stage(skill), replace(TRUE, outputs=("**",)))
        assert result.files == ()

    async def test_every_box_is_labelled_for_its_tenant_and_run(
        self, manager: WorkspaceManager, seen: Seen, skill: Path
    ) -> None:
        for tenant in ("a", "b", "b"):
            await manager.run(skill, TRUE, tenant=tenant)
        assert [spec.tenant for spec in seen.specs] == ["a", "b", "b"]
        assert len({spec.run for spec in seen.specs}) == 3

    async def test_every_run_has_an_id_of_its_own(self, manager: WorkspaceManager, skill: Path) -> None:
        async with manager.session(tenant="t") as session:
            staged = await session.stage(skill)
            results = [await session.run(staged, TRUE) for _ in range(50)]
        assert len({result.run_id for result in results}) == 50

    async def test_leaving_ends_the_box(self, store: SkillStore, skill: Path) -> None:
        engine = FakeEngine()
        manager = WorkspaceManager(engine, store, spec=SPEC)
        async with manager.session(tenant="t") as session:
            assert len(engine.open_sandboxes) == 1
        assert engine.open_sandboxes == {}
        assert not session.sandbox.alive


class TestTenant:
    @pytest.mark.parametrize(
        "method",
        [
            *(getattr(WorkspaceManager, name) for name in ("stage", "session", "run")),
            module.Session.__init__,
            SkillStore.stage,
        ],
        ids=lambda method: method.__qualname__,
    )
    def test_it_is_named_by_every_caller(self, method: object) -> None:
        tenant = inspect.signature(cast("type", method)).parameters["tenant"]
        assert tenant.kind is inspect.Parameter.KEYWORD_ONLY
        assert tenant.default is inspect.Parameter.empty

    def test_no_method_takes_one_otherwise(self) -> None:
        for kind in (WorkspaceManager, module.Session, SkillStore):
            for name, method in inspect.getmembers(kind, inspect.isfunction):
                tenant = inspect.signature(method).parameters.get("tenant")
                if tenant is not None and not name.startswith("_"):
                    assert tenant.kind is inspect.Parameter.KEYWORD_ONLY, name


def test_a_result_is_spelled_one_way() -> None:
    result = RunResult("r", "s", "d", Outcome(Exited(0)), skipped={"a": "link"}, notes=("n",))
    told = result.as_dict()
    assert told["ending"] == {"kind": "exited", "code": 0}
    assert (told["run_id"], told["skill"], told["digest"]) == ("r", "s", "d")
    assert (told["files"], told["skipped"], told["notes"]) == ([], {"a": "link"}, ["n"])

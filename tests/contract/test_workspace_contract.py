"""What the workspace promises of inputs, outputs and artifacts, over every engine."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.artifacts import LocalArtifactStore
from sandbox_skills.engines.fake import FakeEngine
from sandbox_skills.errors import (
    ArtifactNotFoundError,
    CommandError,
    GrantConflictError,
    InputError,
    PathEscapeError,
    RequestError,
    SandboxSkillsError,
)
from sandbox_skills.spec import CollectLimits, Exited, Limits, Stopped
from sandbox_skills.workspace.choices import InputLimits
from sandbox_skills.workspace.input_plan import InputRules
from sandbox_skills.workspace.input_refs import InputRef
from sandbox_skills.workspace.inputs import Input
from sandbox_skills.workspace.manager import Argv, RunRequest, RunRules, Script, Services, WorkspaceManager
from sandbox_skills.workspace.output_spec import KEPT_IN_WORKSPACE, OutputRequest, OutputSpec
from sandbox_skills.workspace.report import NO_STORE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from sandbox_skills.artifacts import ArtifactStore
    from sandbox_skills.engines.base import Engine
    from sandbox_skills.engines.fake_programs import Running
    from sandbox_skills.spec import SandboxSpec
    from sandbox_skills.telemetry import AuditEvent
    from sandbox_skills.workspace.manager import RunResult, Session
    from sandbox_skills.workspace.staging import SkillStore, StagedSkill

pytestmark = pytest.mark.anyio

TRUE = RunRequest(Argv(("true",)))
OUT = OutputRequest(output_files=("out/**",))


class Audit:
    """An audit log that a test reads."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


class Opened:
    """A session, its skill, and what it works with."""

    def __init__(self, session: Session, staged: StagedSkill, artifacts: ArtifactStore, audit: Audit) -> None:
        self.session = session
        self.staged = staged
        self.artifacts = artifacts
        self.audit = audit

    async def run(self, *argv: str, **asked: Any) -> RunResult:  # noqa: ANN401  # as RunRequest
        return await self.session.run(self.staged, replace(TRUE, invocation=Argv(argv), **asked))

    async def write(self, name: str, data: bytes = b"hello", **asked: Any) -> RunResult:  # noqa: ANN401
        """A run whose program writes `data` to a file of the workspace and to stdout."""
        return await self.run("tee", f"/workspace/{name}", stdin=data, **asked)

    async def read(self, name: str, *inputs: Input | InputRef) -> bytes:
        """Returns what a file of the workspace has, once the inputs are there."""
        result = await self.run("cat", f"/workspace/{name}", inputs=inputs)
        assert result.outcome.ok, result.outcome
        return result.outcome.stdout

    async def refused(self, kind: type[SandboxSkillsError], match: str, *inputs: Input | InputRef) -> None:
        """Asserts that the inputs are refused, and that the command did not run."""
        with pytest.raises(kind, match=match):
            await self.write("out/ran", inputs=inputs)
        assert (await self.run("true", outputs=("out/ran",))).files == ()


@pytest.fixture
def engine(engine: Engine) -> Engine:
    """The fake has one program more, which fails as a shell redirection does."""
    if not isinstance(engine, FakeEngine):
        return engine

    async def failing(run: Running) -> int:
        run.files.update({run.path("/workspace/out/empty"): b"", run.path("/workspace/out/part"): b"half"})
        return 3

    return FakeEngine({"bash": failing})


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
FAIL = Argv(("bash", "-c", ": > /workspace/out/empty; printf half > /workspace/out/part; exit 3"))


@pytest.fixture
def host(tmp_path: Path) -> Path:
    folder = tmp_path / "allowed"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.csv").write_text("1,2\n")
    (folder / "deep" / "b.txt").write_text("b")
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "way").symlink_to(tmp_path)
    return folder


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    root = tmp_path / "my-skill"
    (root / "scripts").mkdir(parents=True)
    (root / "SKILL.md").write_text("---\nname: my-skill\ndescription: Tests.\n---\n")
    (root / "scripts" / "msg.txt").write_text("from the skill")
    return root


@asynccontextmanager
async def opened(
    engine: Engine,
    store: SkillStore,
    spec: SandboxSpec,
    tmp_path: Path,
    rules: RunRules | None = None,
    **services: Any,  # noqa: ANN401  # as Services
) -> AsyncIterator[Opened]:
    artifacts, audit = LocalArtifactStore(tmp_path / "artifacts"), Audit()
    allowed = InputRules(host_roots=(tmp_path / "allowed",), limits=InputLimits(files=3, input_bytes=1000))
    manager = WorkspaceManager(
        engine,
        store,
        spec=spec,
        rules=rules or RunRules(limits=Limits(wall_seconds=15), wall_ceiling=20, inputs=allowed),
        services=Services(**{"artifacts": artifacts, "audit": audit, **services}),
    )
    async with manager.session(tenant="t", name="s") as session:
        yield Opened(session, await session.stage(tmp_path / "my-skill"), artifacts, audit)


@pytest.fixture
async def box(
    engine: Engine, store: SkillStore, spec: SandboxSpec, skill: Path, host: Path, tmp_path: Path
) -> AsyncIterator[Opened]:
    async with opened(engine, store, spec, tmp_path) as one:
        yield one


class TestInputs:
    async def test_an_artifact_arrives_at_its_name_in_the_version_asked_for(self, box: Opened) -> None:
        for data in (b"v0", b"v1", b"v2"):
            await box.artifacts.save("uploads/b.txt", data, tenant="t")
        assert await box.read("work/inputs/b.txt", InputRef("artifact://uploads/b.txt@1")) == b"v1"
        assert await box.read("work/x", InputRef("artifact://uploads/b.txt", "work/x")) == b"v2"
        result = await box.run("true", inputs=(InputRef("artifact://uploads/b.txt@2"),))
        assert [row.as_dict() for row in result.staged_inputs] == [
            {
                "name": "work/inputs/b.txt",
                "source": "artifact://uploads/b.txt@2",
                "files": 1,
                "size_bytes": 2,
                "mime_type": "application/octet-stream",
                "version": 2,
            }
        ]

    async def test_a_pin_keeps_the_version_that_the_session_was_given_first_at_that_place(
        self, box: Opened
    ) -> None:
        pinned = InputRef("artifact://x", "work/x", pin=True)
        for data in (b"v0", b"v1"):
            await box.artifacts.save("x", data, tenant="t")
        assert await box.read("work/x", pinned) == b"v1"
        await box.artifacts.save("x", b"v2", tenant="t")
        assert await box.read("work/x", pinned) == b"v1"
        assert await box.read("work/x", replace(pinned, pin=False)) == b"v2"
        assert await box.read("work/y", replace(pinned, to="work/y")) == b"v2"
        assert await box.read("work/x", replace(pinned, source="artifact://x@0")) == b"v0"

    @pytest.mark.parametrize("source", ["artifact://none", "artifact://mine@7"])
    async def test_an_artifact_that_is_not_there_is_refused_before_the_command(
        self, box: Opened, source: str
    ) -> None:
        await box.artifacts.save("mine", b"x", tenant="t")
        await box.refused(ArtifactNotFoundError, "artifact", InputRef(source))

    async def test_another_tenants_artifact_is_not_there(self, box: Opened) -> None:
        await box.artifacts.save("theirs", b"x", tenant="other")
        await box.refused(ArtifactNotFoundError, "artifact", InputRef("artifact://theirs"))

    async def test_without_a_store_there_are_no_artifacts(
        self, engine: Engine, store: SkillStore, spec: SandboxSpec, skill: Path, host: Path, tmp_path: Path
    ) -> None:
        async with opened(engine, store, spec, tmp_path, artifacts=None) as one:
            await one.refused(InputError, "no artifact store", InputRef("artifact://x"))

    async def test_host_files_come_from_allowed_folders_alone(self, box: Opened, host: Path) -> None:
        assert await box.read("work/inputs/a.csv", InputRef(f"host://{host}/a.csv")) == b"1,2\n"
        result = await box.run("true", inputs=(InputRef(f"host://{host}/a.csv", mode="link"),))
        (row,) = result.staged_inputs
        assert (row.mime_type, row.size_bytes) == ("text/csv", 4)
        assert result.notes == (f"input 'host://{host}/a.csv' is a copy: the host is not linked to",)

    async def test_a_tree_of_the_host_arrives_whole(self, box: Opened, host: Path) -> None:
        assert await box.read("work/inputs/deep/b.txt", InputRef(f"host://{host}/deep")) == b"b"
        result = await box.run("true", inputs=(InputRef(f"host://{host}", "work/all"),))
        assert [(row.name, row.files, row.size_bytes) for row in result.staged_inputs] == [("work/all", 2, 5)]
        assert result.notes[0].startswith("2 links")

    @pytest.mark.parametrize(
        ("path", "kind", "match"),
        [
            ("/etc/passwd", InputError, "no folder that inputs may come from"),
            ("{host}/../secret", InputError, "no folder"),
            ("{host}/../../etc/passwd", InputError, "no folder"),
            ("{host}x", InputError, "no folder"),
            ("{host}/link", PathEscapeError, "is a link"),
            ("{host}/way/secret", PathEscapeError, "is a link"),
            ("{host}/none", InputError, "cannot be read"),
            ("etc/passwd", InputError, "not absolute"),
        ],
    )
    async def test_no_way_out_of_them_is_taken(
        self, box: Opened, host: Path, path: str, kind: type[RequestError], match: str
    ) -> None:
        await box.refused(kind, match, InputRef(f"host://{path.format(host=host)}"))

    async def test_the_users_own_input_needs_no_folder(self, box: Opened, tmp_path: Path) -> None:
        assert await box.read("work/inputs/secret", Input(tmp_path / "secret")) == b"secret"

    async def test_no_folder_is_allowed_by_itself(
        self, engine: Engine, store: SkillStore, spec: SandboxSpec, skill: Path, host: Path, tmp_path: Path
    ) -> None:
        async with opened(engine, store, spec, tmp_path, RunRules()) as one:
            await one.refused(InputError, "no folder", InputRef(f"host://{host}/a.csv"))

    async def test_a_file_of_the_workspace_can_be_an_input_of_a_later_run(self, box: Opened) -> None:
        result = await box.write("out/a.txt", wanted=OUT)
        assert result.report is not None
        (file,) = result.report.output_files
        assert file.ref == "workspace://out/a.txt"
        assert await box.read("work/inputs/a.txt", InputRef(file.ref)) == b"hello"
        staged = (await box.run("true", inputs=(InputRef(file.ref, "work/b"),))).staged_inputs
        assert [(row.name, row.files, row.size_bytes) for row in staged] == [("work/b", 1, 5)]

    async def test_every_source_that_is_one_file_has_a_type(self, box: Opened, host: Path) -> None:
        await box.write("out/a.csv", b"1,2\n")
        await box.write("out/picture.txt", PNG)
        await box.run("true", inputs=(InputRef(f"host://{host}", "out/d"),))
        sources = (
            *(f"workspace://out/{name}" for name in ("a.csv", "picture.txt", "d")),
            *(f"host://{host}/a.csv", "skill://my-skill/scripts/msg.txt"),
        )
        types = []
        for mode in ("copy", "link"):
            for number, source in enumerate(sources):
                ref = InputRef(source, f"work/{mode}{number}", mode=mode)
                types += [row.mime_type for row in (await box.run("true", inputs=(ref,))).staged_inputs]
        assert types == ["text/csv", "image/png", "", "text/csv", "text/plain"] * 2

    async def test_a_folder_of_the_workspace_is_copied_whole(self, box: Opened, host: Path) -> None:
        await box.run("true", inputs=(InputRef(f"host://{host}", "out/d"),))
        assert await box.read("work/d/deep/b.txt", InputRef("workspace://out/d", "work/d")) == b"b"

    async def test_names_with_the_characters_of_patterns_are_names(self, box: Opened) -> None:
        await box.write("out/[a]*?.txt", b"odd")
        await box.write("out/a.txt", b"plain")
        assert await box.read("work/x", InputRef("workspace://out/[a]*?.txt", "work/x")) == b"odd"

    @pytest.mark.parametrize(
        ("source", "kind", "match"),
        [
            ("workspace://out/none", InputError, "no file there"),
            ("workspace://../../x", PathEscapeError, "leaves"),
            ("workspace:///etc/passwd", PathEscapeError, "absolute"),
            ("workspace://out", InputError, "lie in one another"),
            ("skill://my-skill/none", InputError, "cannot be read"),
            ("skill://my-skill/../x", PathEscapeError, "leaves"),
            ("skill://my-skil/SKILL.md", InputError, "not staged"),
            ("skill://other/SKILL.md", InputError, "not staged"),
            ("http://example.org/x", InputError, "no scheme"),
            ("out/a.txt", InputError, "no scheme"),
            ("workspace://", InputError, "names nothing"),
        ],
    )
    async def test_a_source_that_is_none_is_refused_before_the_command(
        self, box: Opened, source: str, kind: type[RequestError], match: str
    ) -> None:
        await box.refused(kind, match, InputRef(source, "out/in/x"))

    async def test_a_file_of_the_skill_can_be_an_input(self, box: Opened) -> None:
        ref = InputRef("skill://my-skill/scripts/msg.txt", "inputs/m.txt")
        assert await box.read("work/inputs/m.txt", ref) == b"from the skill"

    async def test_files_and_bytes_are_capped_for_one_input_and_for_all(
        self, box: Opened, host: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "big").write_bytes(bytes(1001))
        await box.refused(InputError, "an input has more", Input(tmp_path / "big"))
        await box.artifacts.save("big", bytes(1001), tenant="t")
        await box.refused(InputError, "an input has more", InputRef("artifact://big"))
        await box.write("work/big", bytes(1001))
        await box.refused(InputError, "an input has more", InputRef("workspace://work/big", "work/x"))
        rows = [InputRef("artifact://big", f"work/{name}") for name in "ab"]
        await box.refused(InputError, "an input has more", *rows)
        small = [Input(host / "a.csv", f"work/{name}") for name in "abcd"]
        await box.refused(InputError, "more than 3 files", *small)

    async def test_two_inputs_never_become_one(self, box: Opened, host: Path) -> None:
        await box.artifacts.save("a.csv", b"x", tenant="t")
        both = (Input(host / "a.csv"), InputRef("artifact://a.csv"))
        await box.refused(InputError, "two inputs", *both)

    async def test_every_input_of_a_run_is_staged_in_the_order_asked_for(
        self, box: Opened, host: Path
    ) -> None:
        await box.artifacts.save("x", b"x", tenant="t")
        await box.write("out/w", b"ww")
        refs = ("workspace://out/w", "artifact://x", "skill://my-skill/SKILL.md")
        result = await box.run("true", inputs=tuple(map(InputRef, refs)))
        assert [row.source for row in result.staged_inputs] == list(refs)
        assert [row.size_bytes for row in result.staged_inputs[:2]] == [2, 1]


class TestOutputs:
    async def test_nothing_asked_for_gives_a_primary_output_and_lists_none(self, box: Opened) -> None:
        result = await box.write("out/a.txt", wanted=OutputRequest())
        report = result.report
        assert report is not None
        assert (report.output_files, report.warnings) == ((), ())
        assert report.primary_output is not None
        assert (report.primary_output.name, report.primary_output.content) == ("out/a.txt", "hello")
        assert await box.read("work/inputs/a.txt", InputRef(report.primary_output.ref)) == b"hello"

    async def test_files_asked_for_are_listed_by_name_with_their_text(self, box: Opened) -> None:
        await box.write("out/b.md", b"# b")
        await box.write("out/c.png", PNG)
        result = await box.write("out/a.json", b"{}", wanted=OutputRequest(("out/*", "out/a*", "out/b.md")))
        report = result.report
        assert report is not None
        assert [(file.name, file.mime_type, file.content) for file in report.output_files] == [
            ("out/a.json", "application/json", "{}"),
            ("out/b.md", "text/markdown", "# b"),
            ("out/c.png", "image/png", ""),
        ]
        assert report.primary_output == report.output_files[0]
        assert report.warnings == (KEPT_IN_WORKSPACE,)

    async def test_a_manifest_collects_by_its_limits_and_tells_what_it_left(self, box: Opened) -> None:
        for name in ("a", "b", "c"):
            await box.write(f"out/{name}", name.encode() * 10)
        spec = OutputSpec.model_validate({"globs": ["$OUTPUT_DIR/*"], "max_files": 1, "MaxFiles": 2})
        result = await box.run("true", wanted=OutputRequest(outputs=spec))
        assert result.report is not None
        assert [file.name for file in result.report.output_files] == ["out/a"]
        assert result.limits_hit == {"collected_files"}
        cut = OutputSpec(globs=("out/b",), inline=True, max_file_bytes=4)
        result = await box.run("true", wanted=OutputRequest(outputs=cut))
        assert result.report is not None
        (file,) = result.report.output_files
        assert (file.content, file.size_bytes, file.truncated) == ("bbbb", 10, True)
        assert result.limits_hit == {"collected_bytes"}

    async def test_saved_files_are_artifacts_with_what_made_them(self, box: Opened) -> None:
        save = OutputSpec(globs=("out/x.csv",), save=True, name_template="pref/")
        first = await box.write("out/x.csv", b"1,2\n", wanted=OutputRequest(outputs=save))
        second = await box.write("out/x.csv", b"3,4\n", wanted=OutputRequest(outputs=save))
        for version, result in enumerate((first, second)):
            assert result.report is not None
            (artifact,) = result.report.artifacts
            assert (artifact.name, artifact.version) == ("pref/out/x.csv", version)
            assert (artifact.mime_type, artifact.run_id) == ("text/csv", result.run_id)
            assert (artifact.skill, artifact.skill_digest) == ("my-skill", box.staged.digest)
            assert artifact.ref == f"artifact://pref/out/x.csv@{version}"
            assert KEPT_IN_WORKSPACE not in result.report.warnings
        assert await box.read("work/inputs/x.csv", InputRef("artifact://pref/out/x.csv@0")) == b"1,2\n"
        assert second.as_dict()["artifact_files"] == [
            {"name": "pref/out/x.csv", "version": 1, "ref": "artifact://pref/out/x.csv@1"}
        ]

    async def test_files_of_the_list_are_saved_with_their_prefix(self, box: Opened) -> None:
        wanted = OutputRequest(("out/*",), save_as_artifacts=True, artifact_prefix="p-", omit_inline=True)
        report = (await box.write("out/a.txt", wanted=wanted)).report
        assert report is not None
        assert [one.ref for one in report.artifacts] == ["artifact://p-out/a.txt@0"]
        assert [(file.content, file.size_bytes) for file in report.output_files] == [("", 5)]
        assert report.primary_output is not None
        assert report.primary_output.content == ""

    async def test_a_file_that_was_cut_is_not_saved_and_the_result_stays(self, box: Opened) -> None:
        await box.write("out/small", b"x")
        save = OutputSpec(globs=("out/*",), save=True, max_file_bytes=4)
        result = await box.write("out/big", b"12345", wanted=OutputRequest(outputs=save))
        assert result.report is not None
        assert result.outcome.ok
        assert [one.name for one in result.report.artifacts] == ["out/small"]
        assert [warning for warning in result.report.warnings if "'out/big' (5 bytes)" in warning]
        assert "collected_bytes" in result.limits_hit

    async def test_saving_without_a_store_is_one_warning(
        self, engine: Engine, store: SkillStore, spec: SandboxSpec, skill: Path, tmp_path: Path
    ) -> None:
        async with opened(engine, store, spec, tmp_path, artifacts=None) as one:
            wanted = OutputRequest(("out/*",), save_as_artifacts=True)
            result = await one.write("out/a", wanted=wanted)
        assert result.report is not None
        assert (result.report.warnings, result.report.artifacts) == ((NO_STORE,), ())
        assert result.outcome.ok

    async def test_a_name_that_no_artifact_can_have_is_a_warning(self, box: Opened) -> None:
        wanted = OutputRequest(("out/*",), save_as_artifacts=True, artifact_prefix="../")
        result = await box.write("out/a", wanted=wanted)
        assert result.report is not None
        assert result.outcome.ok
        assert "'out/a' was not saved" in result.report.warnings[0]

    async def test_empty_files_of_a_failed_run_are_dropped_and_others_kept(self, box: Opened) -> None:
        wanted = OutputRequest(("out/*",), save_as_artifacts=True)
        result = await box.session.run(box.staged, replace(TRUE, invocation=FAIL, wanted=wanted))
        report = result.report
        assert report is not None
        assert result.outcome.ending == Exited(3)
        assert [file.name for file in report.output_files] == ["out/part"]
        assert [one.name for one in report.artifacts] == ["out/part"]
        assert [warning for warning in report.warnings if "'out/empty'" in warning]
        assert [str(file.path) for file in result.files] == ["out/part"]

    async def test_output_that_was_cut_is_a_warning_for_each_stream(self, box: Opened) -> None:
        result = await box.run(
            "echo", "x" * 30_000, wanted=OutputRequest(), limits=Limits(stdout_bytes=16_384)
        )
        assert result.report is not None
        assert result.report.warnings == ("stdout was cut: the first 16 KiB of 29 KiB are here",)

    async def test_limits_of_the_caller_stay_below_those_of_the_manager(self, box: Opened) -> None:
        await box.write("out/a", b"123456")
        spec = OutputSpec(globs=("out/*",), inline=True, max_file_bytes=1 << 40)
        result = await box.run(
            "true", wanted=OutputRequest(outputs=spec), collect=CollectLimits(file_bytes=3)
        )
        assert result.report is not None
        assert [file.content for file in result.report.output_files] == ["123"]

    async def test_both_ways_of_asking_at_once_are_refused(self, box: Opened) -> None:
        with pytest.raises(RequestError, match="two ways"):
            await box.run("true", wanted=OutputRequest(), outputs=("out/*",))


class TestTheRun:
    async def test_input_is_written_and_closed(self, box: Opened) -> None:
        assert (await box.run("cat", stdin=b"stdin-value")).outcome.stdout == b"stdin-value"

    async def test_a_longer_time_than_the_ceiling_is_cut_and_said(self, box: Opened) -> None:
        result = await box.run("true", timeout=21.0)
        assert result.notes == ("21 s were asked for, but no run may take more than 20 s",)
        assert (await box.run("sleep", "5", timeout=0.2)).outcome.ending == Stopped("wall_time")

    @pytest.mark.parametrize("name", ["EDITOR", "VISUAL"])
    async def test_an_editor_of_the_callers_beside_the_text_is_refused(self, box: Opened, name: str) -> None:
        with pytest.raises(CommandError, match=name):
            await box.run("true", editor_text="x", env={name: "vi"})

    async def test_text_for_the_editor_that_is_no_text_is_refused(self, box: Opened) -> None:
        with pytest.raises(CommandError, match="UTF-8"):
            await box.run("true", editor_text="\udcff")

    async def test_the_editor_lies_in_the_workspace(self, box: Opened) -> None:
        result = await box.run("printenv", "EDITOR", editor_text="memo body")
        path = result.outcome.stdout.decode().strip()
        assert path == (await box.run("printenv", "VISUAL", editor_text="x")).outcome.stdout.decode().strip()
        # Without a box, what is called /workspace lies somewhere else.
        _, found, name = path.rpartition("/workspace/")
        assert found
        assert (await box.read(name)).startswith(b"#!/bin/sh\n")

    async def test_a_hint_tells_why_a_run_failed(self, box: Opened) -> None:
        result = await box.run("no-such-program")
        assert result.outcome.ending == Exited(127)
        assert [str(hint) for hint in result.hints] == ["command_missing: no-such-program"]
        assert (await box.run("true")).hints == ()

    async def test_a_box_with_secrets_runs_no_other_skill(self, box: Opened, tmp_path: Path) -> None:
        other = tmp_path / "other"
        other.mkdir()
        (other / "SKILL.md").write_text("x")
        second = await box.session.stage(other)
        granted = await box.run("printenv", "TOKEN", grants={"TOKEN": "s3cret"})
        assert granted.outcome.stdout == b"s3cret\n"
        with pytest.raises(GrantConflictError, match="given secrets"):
            await box.session.run(second, TRUE)
        assert (await box.run("true")).outcome.ok

    async def test_a_box_that_ran_another_skill_is_given_no_secrets(
        self, box: Opened, tmp_path: Path
    ) -> None:
        other = tmp_path / "other"
        other.mkdir()
        (other / "SKILL.md").write_text("x")
        await box.session.run(await box.session.stage(other), TRUE)
        with pytest.raises(GrantConflictError, match="another skill ran"):
            await box.run("true", grants={"TOKEN": "s3cret"})


class TestOfNoSkill:
    async def run(self, box: Opened, *argv: str, **asked: Any) -> RunResult:  # noqa: ANN401  # as RunRequest
        return await box.session.run(None, replace(TRUE, invocation=Argv(argv), **asked))

    async def test_it_has_the_workspace_and_what_its_skills_left_there(self, box: Opened) -> None:
        await box.write("out/a.txt")
        result = await self.run(box, "cat", "out/a.txt", wanted=OUT)
        assert (result.outcome.stdout, result.skill, result.digest) == (b"hello", "", "")
        assert result.report is not None
        assert [file.name for file in result.report.output_files] == ["out/a.txt"]
        for name, value in (("WORKSPACE_DIR", b"/workspace\n"), ("SKILL_NAME", b""), ("VIRTUAL_ENV", b"")):
            assert (await self.run(box, "printenv", name)).outcome.stdout.endswith(value)
        assert [(event.skill, event.cwd) for event in box.audit.events[1:2]] == [("", "/workspace")]

    async def test_what_it_saves_has_no_skill(self, box: Opened) -> None:
        saving = OutputRequest(("out/*",), save_as_artifacts=True)
        result = await self.run(box, "tee", "/workspace/out/x", stdin=b"x", wanted=saving)
        assert result.report is not None
        assert [(one.name, one.skill) for one in result.report.artifacts] == [("out/x", "")]

    async def test_files_of_skills_that_were_staged_can_be_inputs(self, box: Opened) -> None:
        given = InputRef("skill://my-skill/scripts/msg.txt")
        result = await self.run(box, "cat", "work/inputs/msg.txt", inputs=(given,))
        assert result.outcome.stdout == b"from the skill"

    async def test_it_never_shares_a_box_with_secrets_and_has_none(self, box: Opened) -> None:
        with pytest.raises(RequestError, match="secrets"):
            await self.run(box, "true", grants={"TOKEN": "s3cret"})
        assert (await box.run("true", grants={"TOKEN": "s3cret"})).outcome.ok
        with pytest.raises(GrantConflictError):
            await self.run(box, "true")

    async def test_after_it_a_box_is_given_no_secrets(self, box: Opened) -> None:
        await self.run(box, "true")
        with pytest.raises(GrantConflictError):
            await box.run("true", grants={"TOKEN": "s3cret"})

    @pytest.mark.parametrize(
        "request_", [RunRequest(Script("scripts/x.py")), replace(TRUE, writable_skill=True)]
    )
    async def test_what_only_a_skill_has_is_refused(self, box: Opened, request_: RunRequest) -> None:
        with pytest.raises(RequestError, match="belong to a skill"):
            await box.session.run(None, request_)
        assert statuses(box.audit.events) == ["refused"]

    async def test_it_can_be_talked_to(self, box: Opened) -> None:
        program = await box.session.start_program(None, RunRequest(Argv(("cat",))))
        await program.write("hello\n")
        program.close_stdin()
        await program.poll(yield_seconds=5)
        while (poll := await program.poll(yield_seconds=5)).result is None:
            pass
        assert poll.result.outcome.stdout == b"hello\n"


def statuses(events: Sequence[AuditEvent]) -> list[str]:
    return [event.status for event in events]


class TestAudit:
    async def test_a_run_gives_one_event_that_tells_who_ran_what(self, box: Opened) -> None:
        await box.artifacts.save("x", b"x", tenant="t")
        result = await box.write(
            "out/a.txt",
            inputs=(InputRef("artifact://x"),),
            env={"API_TOKEN": "tttt", "PLAIN": "p"},
            wanted=OutputRequest(("out/*",), save_as_artifacts=True),
        )
        (event,) = box.audit.events
        told = event.as_dict()
        del told["seconds"], told["time"]
        assert told == {
            "event": "run",
            "tenant": "t",
            "status": "ended",
            "session": "s",
            "run_id": result.run_id,
            "skill": "my-skill",
            "digest": box.staged.digest,
            "command": ("tee", "/workspace/out/a.txt"),
            "cwd": str(box.staged.box_path),
            "env": {"API_TOKEN": "[redacted]", "PLAIN": "p"},
            "interactive": False,
            "inputs": ("artifact://x",),
            "outputs": ("out/a.txt",),
            "artifacts": ("artifact://out/a.txt@0",),
            "limits_hit": (),
            "ending": {"kind": "exited", "code": 0},
            "code": "",
            "seccomp": box.session.sandbox.seccomp,
        }

    async def test_runs_that_fail_are_stopped_or_refused_give_one_event_each(self, box: Opened) -> None:
        await box.run("false")
        await box.run("sleep", "5", timeout=0.1)
        for refused in ({"cwd": "../.."}, {"inputs": (InputRef("workspace://out/none"),)}):
            with pytest.raises(RequestError):
                await box.run("true", **refused)
        assert statuses(box.audit.events) == ["ended", "ended", "refused", "refused"]
        assert [event.code for event in box.audit.events[2:]] == ["path_escape", "input_invalid"]
        assert [event.ending for event in box.audit.events] == [
            {"kind": "exited", "code": 1},
            {"kind": "stopped", "reason": "wall_time"},
            None,
            None,
        ]

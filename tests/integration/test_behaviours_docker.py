"""The behaviours that models know from other executors of skills, over real boxes. tests/README.md numbers them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.artifacts import LocalArtifactStore
from sandbox_skills.errors import (
    ArtifactNameError,
    ArtifactNotFoundError,
    CommandError,
    InputError,
    PathEscapeError,
    WorkspaceFullError,
)
from sandbox_skills.spec import KIB, MIB, CollectLimits, Exited, Limits, SandboxLimits, SandboxSpec, Signalled
from sandbox_skills.workspace.input_refs import InputRef
from sandbox_skills.workspace.inputs import Input
from sandbox_skills.workspace.manager import RunRequest, Services, Shell, WorkspaceManager
from sandbox_skills.workspace.output_spec import OutputRequest, OutputSpec
from sandbox_skills.workspace.upload_names import upload_names

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sandbox_skills.artifacts import ArtifactStore
    from sandbox_skills.engines.base import Engine
    from sandbox_skills.workspace.manager import RunResult, Session
    from sandbox_skills.workspace.report import OutputReport
    from sandbox_skills.workspace.staging import SkillStore, StagedSkill

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

TENANT = "test"
SPEC = SandboxSpec(limits=SandboxLimits(memory=192 * MIB, workspace_bytes=32 * MIB, workspace_inodes=1024))
SAVE_OUT = OutputRequest(("out/*",), save_as_artifacts=True)


class Box:
    """A session and its skill, run by shell lines as a tool runs them."""

    def __init__(self, session: Session, staged: StagedSkill, artifacts: ArtifactStore, skill: Path) -> None:
        self.session = session
        self.staged = staged
        self.artifacts = artifacts
        self.skill = skill

    async def run(self, text: str, *output_files: str, **asked: Any) -> RunResult:  # noqa: ANN401  # as RunRequest
        wanted = asked.pop("wanted", OutputRequest(output_files))
        return await self.session.run(self.staged, RunRequest(Shell(text), wanted=wanted, **asked))

    async def says(self, text: str, **asked: Any) -> str:  # noqa: ANN401
        """Returns what a line prints; it must exit with 0."""
        result = await self.run(text, **asked)
        assert result.outcome.ok, result.outcome
        return result.outcome.stdout.decode()


def report(result: RunResult) -> OutputReport:
    assert result.report is not None
    return result.report


def names(result: RunResult) -> list[str]:
    return [file.name for file in report(result).output_files]


@pytest.fixture
async def box(docker_engine: Engine, store: SkillStore, tmp_path: Path) -> AsyncIterator[Box]:
    skill = tmp_path / "tester"
    (skill / "scripts").mkdir(parents=True)
    (skill / "bin").mkdir()
    (skill / "SKILL.md").write_text("---\nname: tester\ndescription: Tests.\n---\n")
    (skill / "scripts" / "msg.txt").write_text("message")
    for name in ("only-here", "which"):
        (skill / "bin" / name).write_text(f"#!/bin/sh\necho skill bin {name}\n")
        (skill / "bin" / name).chmod(0o755)
    artifacts = LocalArtifactStore(tmp_path / "artifacts")
    manager = WorkspaceManager(
        docker_engine,
        store,
        spec=SPEC,
        limits=Limits(wall_seconds=15),
        services=Services(artifacts),
    )
    async with manager.session(tenant=TENANT) as session:
        yield Box(session, await session.stage(skill), artifacts, skill)


class TestOneRun:
    async def test_a_file_in_out_is_collected_and_is_the_answer(self, box: Box) -> None:
        result = await box.run("mkdir -p out; echo hi > out/a.txt; echo ZZZ", "out/*.txt")
        assert result.outcome.ok
        assert b"ZZZ" in result.outcome.stdout
        (file,) = report(result).output_files
        assert (file.name, file.content, file.mime_type) == ("out/a.txt", "hi\n", "text/plain")
        assert report(result).primary_output == file

    async def test_stdin_is_what_the_command_reads(self, box: Box) -> None:
        assert await box.says("cat", stdin=b"stdin-value") == "stdin-value"

    async def test_an_editor_writes_the_text(self, box: Box) -> None:
        line = '"$EDITOR" --wait out/n.txt; cat out/n.txt; $VISUAL out/m.txt; cat out/m.txt'
        assert await box.says(line, editor_text="memo body") == "memo bodymemo body"

    async def test_an_editor_beside_one_of_the_callers_is_refused(self, box: Box) -> None:
        with pytest.raises(CommandError, match="EDITOR"):
            await box.run("true", editor_text="x", env={"EDITOR": "vi"})

    async def test_an_editor_without_a_file_fails(self, box: Box) -> None:
        assert (await box.run("$EDITOR", editor_text="x")).outcome.ending == Exited(2)

    async def test_a_script_that_is_missing_leaves_nothing_but_its_error(self, box: Box) -> None:
        result = await box.run("python3 missing.py > out/a.txt", wanted=SAVE_OUT)
        assert isinstance(result.outcome.ending, Exited)
        assert not result.outcome.ok
        assert (names(result), report(result).artifacts, report(result).primary_output) == ([], (), None)
        assert any("'out/a.txt'" in warning for warning in report(result).warnings)
        assert b"missing.py" in result.outcome.stderr
        assert (await box.artifacts.usage(tenant=TENANT)).count == 0
        assert [str(hint).partition(":")[0] for hint in result.hints] == ["file_missing"]

    async def test_a_file_that_a_failed_command_wrote_is_kept_and_saved(self, box: Box) -> None:
        result = await box.run("echo hi > out/a.txt; exit 2", wanted=SAVE_OUT)
        assert result.outcome.ending == Exited(2)
        assert names(result) == ["out/a.txt"]
        assert [artifact.ref for artifact in report(result).artifacts] == ["artifact://out/a.txt@0"]

    async def test_an_ending_by_a_signal_is_a_result(self, box: Box) -> None:
        result = await box.run("echo hi > out/a; kill -9 $$")
        assert result.outcome.ending == Signalled(9)
        assert report(result).primary_output is not None

    async def test_the_shell_is_no_login_shell(self, box: Box) -> None:
        await box.says("echo 'export FROM_PROFILE=1' | tee ~/.bash_profile ~/.profile ~/.bashrc")
        assert await box.says('echo "[$FROM_PROFILE]"') == "[]\n"

    async def test_programs_of_an_environment_beat_the_images_which_beat_the_skills(self, box: Box) -> None:
        assert await box.says("only-here") == "skill bin only-here\n"
        assert await box.says("only-here", cwd="scripts") == "skill bin only-here\n"
        assert await box.says("which sh") == "/usr/bin/sh\n"
        make = (
            "mkdir -p .venv/bin; printf '#!/bin/sh\\necho venv' > .venv/bin/only-here; chmod +x .venv/bin/*"
        )
        await box.says(make)
        assert await box.says("only-here") == "venv\n"

    async def test_each_stream_is_cut_where_a_character_ends(self, box: Box) -> None:
        line = "head -c 16385 /dev/zero | tr '\\0' x | tee /dev/stderr"
        limits = Limits(stdout_bytes=16 * KIB, stderr_bytes=16 * KIB)
        result = await box.run(line, limits=limits)
        assert (len(result.outcome.stdout), len(result.outcome.stderr)) == (16 * KIB, 16 * KIB)
        assert [warning.split()[0] for warning in report(result).warnings] == ["stdout", "stderr"]
        result = await box.run("printf '☃☃'", limits=Limits(stdout_bytes=5))
        assert result.outcome.stdout.decode() == "☃"

    @pytest.mark.parametrize(
        ("cwd", "expected"),
        [("/", "/workspace"), ("$WORK_DIR", "/workspace/work"), ("${OUTPUT_DIR}/x", "/workspace/out/x")],
    )
    async def test_a_directory_is_named_from_the_workspace(self, box: Box, cwd: str, expected: str) -> None:
        await box.says("mkdir out/x")
        assert await box.says("pwd", cwd=cwd) == f"{expected}\n"

    @pytest.mark.parametrize("cwd", ["../../..", "/etc", r"..\..\..", "$WORKSPACE_DIR/../..", "work/../../x"])
    async def test_a_directory_outside_is_an_error(self, box: Box, cwd: str) -> None:
        with pytest.raises(PathEscapeError):
            await box.run("pwd", cwd=cwd)


class TestPlaces:
    """Places that were there when a run ended are taken for there when the next one starts."""

    LOOK = "cd $RUN_DIR && ls -d ../../out ../../work/inputs ../../home && readlink $SKILLS_DIR/tester"

    async def test_each_run_finds_what_the_last_one_removed(self, box: Box) -> None:
        found = f"../../home\n../../out\n../../work/inputs\n{box.staged.box_path}\n"
        for damage in ("true", "rm -rf ../out ../work ../home ../skills", "true"):
            assert await box.says(f"cd $WORK_DIR && {self.LOOK}; cd $WORK_DIR && {damage}") == found

    async def test_nothing_is_made_through_a_link_that_the_last_run_left(self, box: Box) -> None:
        await box.says("true")
        await box.says("mkdir /tmp/far; rm -rf $WORKSPACE_DIR/runs; ln -s /tmp/far $WORKSPACE_DIR/runs")
        result = await box.run("ls /tmp/far")
        assert (result.outcome.stdout, any("not be made ready" in note for note in result.notes)) == (
            b"",
            True,
        )


class TestOutputs:
    async def test_bytes_have_a_type_and_a_size_and_no_text(self, box: Box) -> None:
        result = await box.run(
            r"printf '\x89PNG\r\n\x1a\n\0\0\0\rIHDR' > out/a.png; echo text > out/b.txt", "out/*"
        )
        image, text = report(result).output_files
        assert (image.content, image.mime_type, image.size_bytes) == ("", "image/png", 16)
        assert text.content == "text\n"
        assert report(result).primary_output == text

    async def test_a_large_file_is_told_without_its_text(self, box: Box) -> None:
        wanted = OutputRequest(("out/*",), omit_inline=True)
        (file,) = report(await box.run("yes | head -c 5M > out/big.txt", wanted=wanted)).output_files
        assert (file.content, file.size_bytes, file.truncated) == ("", 5 * MIB, True)

    async def test_what_is_no_text_is_never_shown_as_one(self, box: Box) -> None:
        make = r"printf 'a\0b' > out/nul.txt; printf 'a\xff' > out/bad.txt; printf 'ok' > out/ok.txt"
        assert [file.content for file in report(await box.run(make, "out/*")).output_files] == ["", "", "ok"]

    async def test_the_answer_is_the_first_short_text_that_is_not_blank(self, box: Box) -> None:
        make = "echo ' ' > out/a; head -c 40K /dev/zero | tr '\\0' x > out/b; echo c > out/c; echo d > out/d"
        primary = report(await box.run(make)).primary_output
        assert primary is not None
        assert primary.name == "out/c"

    async def test_a_manifest_is_read_in_both_spellings(self, box: Box) -> None:
        spec = OutputSpec.model_validate(
            {"Globs": ["out/*"], "Inline": True, "MaxFileBytes": 1, "max_file_bytes": 2}
        )
        result = await box.run("echo 12345 > out/a", wanted=OutputRequest(outputs=spec))
        assert [file.content for file in report(result).output_files] == ["12"]

    async def test_saved_files_have_the_prefix_and_versions_from_0(self, box: Box) -> None:
        spec = OutputSpec(globs=("$OUTPUT_DIR/**",), save=True, name_template="pref/")
        for version in (0, 1):
            result = await box.run(f"echo {version} > out/x", wanted=OutputRequest(outputs=spec))
            assert [one.ref for one in report(result).artifacts] == [f"artifact://pref/out/x@{version}"]

    async def test_a_file_too_large_to_save_is_a_warning(self, box: Box) -> None:
        spec = OutputSpec(globs=("out/*",), save=True, max_file_bytes=4)
        result = await box.run("echo 12345 > out/x; echo done", wanted=OutputRequest(outputs=spec))
        assert result.outcome.stdout == b"done\n"
        assert report(result).artifacts == ()
        assert result.limits_hit == {"collected_bytes"}
        assert any("not saved" in warning for warning in report(result).warnings)

    async def test_more_files_than_asked_for_are_told(self, box: Box) -> None:
        spec = OutputSpec(globs=("out/*",), max_files=1)
        result = await box.run("touch out/b out/a", wanted=OutputRequest(outputs=spec))
        assert names(result) == ["out/a"]
        assert result.limits_hit == {"collected_files"}

    async def test_no_file_is_larger_than_the_ceiling(self, box: Box) -> None:
        spec = OutputSpec(globs=("out/*",), inline=True, max_file_bytes=40 * MIB)
        line = "yes | head -c $((4 * 1024 * 1024 + 111)) > out/x.txt"
        (file,) = report(await box.run(line, wanted=OutputRequest(outputs=spec))).output_files
        assert (len(file.content), file.truncated) == (4 * MIB, True)

    async def test_folders_are_no_outputs(self, box: Box) -> None:
        line = "mkdir -p out/d/e; echo x > out/d/e/f; echo y > out/.hidden"
        assert names(await box.run(line, ".")) == []
        assert names(await box.run("true", "out/**")) == ["out/.hidden", "out/d/e/f"]

    async def test_nothing_outside_is_collected(self, box: Box) -> None:
        await box.says(
            "ln -s /etc/passwd out/l; ln -s /nowhere out/broken; ln -s /etc out/etc; echo x > out/x"
        )
        for wanted in (OutputRequest(("out/**",)), OutputRequest(outputs=OutputSpec(globs=("out/**",)))):
            result = await box.run("true", wanted=wanted)
            assert names(result) == ["out/x"]
            assert set(result.skipped) == {"out/l", "out/broken", "out/etc"}
        for wanted in (OutputRequest(("../x",)), OutputRequest(outputs=OutputSpec(globs=("../x",)))):
            result = await box.run("true", wanted=wanted)
            assert (names(result), result.outcome.ok) == ([], True)
            assert "'../x' contains '..'" in report(result).warnings[0]

    async def test_pipes_and_holes_neither_block_nor_fill_anything(self, box: Box) -> None:
        result = await box.run(
            "mkfifo out/pipe; truncate -s 1T out/hole 2>/dev/null; echo x > out/x", "out/*"
        )
        assert names(result)[-1] == "out/x"
        assert result.skipped["out/pipe"] == "special"

    async def test_patterns_that_overlap_and_links_give_a_file_once(self, box: Box) -> None:
        line = "echo x > out/x; ln -s x out/y"
        assert names(await box.run(line, "out/*", "$OUTPUT_DIR/x", "/workspace/out/x", "**/x")) == ["out/x"]

    async def test_variables_before_patterns_are_known(self, box: Box) -> None:
        line = "mkdir -p work/x/y; touch out/a work/x/y/b $RUN_DIR/c; mkdir out/d; touch out/d/e"
        asked = (
            "$OUTPUT_DIR/a",
            "${WORK_DIR}/x/**",
            "$WORKSPACE_DIR/out/d/*",
            "$RUN_DIR/*",
            " ",
            "$UNKNOWN/d",
        )
        result = await box.run(line, *asked)
        assert names(result) == ["out/a", "out/d/e", f"runs/{result.run_id}/c", "work/x/y/b"]

    async def test_a_file_of_one_call_is_collected_by_the_next(self, box: Box) -> None:
        await box.says("echo kept > out/k")
        (file,) = report(await box.run("true", "out/k")).output_files
        assert file.content == "kept\n"

    async def test_types_are_those_of_content_and_name(self, box: Box) -> None:
        make = (
            "cd $OUTPUT_DIR; echo a,b > a.csv; echo '{}' > b.json; echo '# x' > c.md; echo '<svg/>' > d.svg;"
            " python3 -c \"import zipfile; z = zipfile.ZipFile('e.docx', 'w');"
            " z.writestr('[Content_Types].xml', 'x'); z.writestr('word/document.xml', 'x')\""
        )
        types = [file.mime_type for file in report(await box.run(make, "out/*")).output_files]
        assert types[:4] == ["text/csv", "application/json", "text/markdown", "image/svg+xml"]
        assert types[4].endswith("wordprocessingml.document")


class TestInputs:
    async def test_a_file_of_the_skill_is_found_at_inputs(self, box: Box) -> None:
        ref = InputRef("skill://tester/scripts/msg.txt", "inputs/m.txt")
        assert await box.says("cat inputs/m.txt", inputs=(ref,)) == "message"

    async def test_references_of_artifacts_end_with_their_version(self, box: Box) -> None:
        for version in range(3):
            await box.artifacts.save("item", f"v{version}".encode(), tenant=TENANT)
        for name in ("tail@", "bad@v1", "a@b@c", "a@b"):
            await box.artifacts.save(name, f"of {name}".encode(), tenant=TENANT)
        found = {
            ref: await box.says("cat work/x", inputs=(InputRef(f"artifact://{ref}", "work/x"),))
            for ref in ("item@1", "item", "tail@", "bad@v1", "a@b@c", "a@b@0")
        }
        assert found == {
            "item@1": "v1",
            "item": "v2",
            "tail@": "of tail@",
            "bad@v1": "of bad@v1",
            "a@b@c": "of a@b@c",
            "a@b@0": "of a@b",
        }
        with pytest.raises(ArtifactNameError):
            await box.run("true", inputs=(InputRef("artifact://@3"),))

    async def test_foreign_names_of_uploads_are_harmless_ones_in_the_box(
        self, box: Box, tmp_path: Path
    ) -> None:
        (tmp_path / "upload").write_text("uploaded")
        foreign = ("../notes.txt", "C:\\tmp\\notes.txt", "", ".", "..", "/", "a\nb;rm -rf $HOME")
        given = tuple(Input(tmp_path / "upload", f"inputs/{name}") for name in upload_names(foreign))
        names_there = await box.says("ls work/inputs", inputs=given)
        assert names_there.splitlines() == [
            "ab;rm -rf $HOME",
            "notes.txt",
            "notes_2.txt",
            "upload",
            "upload_2",
            "upload_3",
            "upload_4",
        ]
        assert await box.says("cat 'inputs/notes.txt' inputs/upload_4") == "uploadeduploaded"

    async def test_a_pinned_artifact_stays(self, box: Box) -> None:
        for data in (b"v0", b"v1"):
            await box.artifacts.save("x", data, tenant=TENANT)
        pinned = (InputRef("artifact://x", pin=True),)
        assert await box.says("cat inputs/x", inputs=pinned) == "v1"
        await box.artifacts.save("x", b"v2", tenant=TENANT)
        assert await box.says("cat inputs/x", inputs=pinned) == "v1"

    async def test_an_artifact_goes_to_inputs_by_its_last_name(self, box: Box) -> None:
        for data in (b"v0", b"v1", b"v2"):
            await box.artifacts.save("uploads/b.txt", data, tenant=TENANT)
        ref = InputRef("artifact://uploads/b.txt@2")
        assert await box.says("cat $WORK_DIR/inputs/b.txt", inputs=(ref,)) == "v2"
        with pytest.raises(ArtifactNotFoundError):
            await box.run("true", inputs=(InputRef("artifact://uploads/b.txt@3"),))

    async def test_a_link_takes_the_place_of_a_file(self, box: Box) -> None:
        await box.says("echo old > work/inputs/l; echo new > out/n")
        ref = InputRef("workspace://out/n", "inputs/l", mode="link")
        assert await box.says("readlink inputs/l; cat inputs/l", inputs=(ref,)) == "/workspace/out/n\nnew\n"
        ref = InputRef("skill://tester/scripts", "inputs/s", mode="link")
        assert await box.says("cat inputs/s/msg.txt", inputs=(ref,)) == "message"

    async def test_a_link_that_a_run_made_is_not_followed_to_a_source(self, box: Box) -> None:
        await box.says("ln -s /etc/passwd work/l; ln -s /etc work/d")
        with pytest.raises(PathEscapeError, match="is a link"):
            await box.run("true", inputs=(InputRef("workspace://work/l"),))
        for mode in ("copy", "link"):
            with pytest.raises(InputError, match="no file there"):
                await box.run("true", inputs=(InputRef("workspace://work/d/passwd", mode=mode),))

    async def test_nor_to_a_target(self, box: Box) -> None:
        await box.says("ln -s /tmp work/t; echo x > out/x")
        with pytest.raises(PathEscapeError):
            await box.run("true", inputs=(InputRef("workspace://out/x", "work/t/x"),))
        assert await box.says("ls /tmp") == ""

    async def test_a_copy_replaces_a_link_and_joins_a_folder(self, box: Box) -> None:
        await box.says(
            "echo precious > work/p; ln -s p work/l; mkdir -p work/d out/d; touch work/d/a out/d/b"
        )
        refs = (InputRef("skill://tester/SKILL.md", "work/l"), InputRef("workspace://out/d", "work/d"))
        assert await box.says("cat work/p; ls work/d", inputs=refs) == "precious\na\nb\n"
        await box.says("ln -sf p work/l; echo x > out/x")
        ref = InputRef("workspace://out/x", "work/l")
        assert await box.says("cat work/p work/l", inputs=(ref,)) == "precious\nx\n"

    async def test_links_and_pipes_of_a_tree_are_copied_as_they_are(self, box: Box) -> None:
        await box.says("mkdir out/d; echo x > out/d/x; ln -s /etc/passwd out/d/l; mkfifo out/d/p")
        refs = (InputRef("workspace://out/d", "work/d"),)
        assert await box.says("readlink work/d/l; test -p work/d/p && cat work/d/x", inputs=refs) == (
            "/etc/passwd\nx\n"
        )

    async def test_no_file_and_no_link_takes_the_place_of_a_folder(self, box: Box) -> None:
        await box.says("mkdir -p work/d/e; echo x > out/x")
        for mode in ("copy", "link"):
            with pytest.raises(InputError):
                await box.run("true", inputs=(InputRef("workspace://out/x", "work/d", mode=mode),))
        assert await box.says("ls work/d") == "e\n"

    async def test_a_copy_that_finds_no_room_is_said(self, box: Box) -> None:
        await box.says("head -c 20M /dev/zero > out/big")
        with pytest.raises(WorkspaceFullError):
            await box.run("true", inputs=(InputRef("workspace://out/big", "work/big"),))
        assert (await box.run("rm -f work/big out/big")).outcome.ok


class TestWritableSkill:
    async def test_a_staged_skill_cannot_be_changed(self, box: Box) -> None:
        result = await box.run("echo x >> SKILL.md; rm scripts/msg.txt; touch new")
        assert not result.outcome.ok
        assert result.outcome.stderr.count(b"ead-only file system") >= 2
        assert await box.says("cat scripts/msg.txt") == "message"

    async def test_a_private_copy_can_and_keeps_what_was_changed(self, box: Box) -> None:
        ask = {"writable_skill": True}
        change = "pwd; echo changed > scripts/msg.txt; touch new; echo hi > out/a; readlink out"
        assert await box.says(change, **ask) == "/workspace/skills/tester\n/workspace/out\n"
        assert await box.says("cat scripts/msg.txt; ls new; cat $OUTPUT_DIR/a", **ask) == "changed\nnew\nhi\n"
        assert await box.says("only-here; which only-here 2>/dev/null | tail -1; ls -d .venv/", **ask)
        assert await box.says("cat scripts/msg.txt; echo $PYTHONPATH") == f"message{box.staged.box_path}\n"

    async def test_it_is_made_anew_when_the_skill_changed_and_when_it_is_gone(self, box: Box) -> None:
        ask = {"writable_skill": True}
        await box.says("echo changed > scripts/msg.txt", **ask)
        (box.skill / "scripts" / "msg.txt").write_text("second")
        box.staged = await box.session.stage(box.skill)
        assert await box.says("cat scripts/msg.txt", **ask) == "second"
        await box.says("rm -rf /workspace/skills/tester", **ask)
        assert await box.says("cat scripts/msg.txt", **ask) == "second"

    async def test_what_another_run_put_in_its_place_is_not_run(self, box: Box) -> None:
        await box.says(
            "rm $SKILLS_DIR/tester; mkdir -p $SKILLS_DIR/tester/scripts; echo bad > $SKILLS_DIR/tester/x"
        )
        assert await box.says("ls x 2>/dev/null; cat scripts/msg.txt", writable_skill=True) == "message"

    async def test_skills_of_two_sessions_are_apart(
        self, box: Box, docker_engine: Engine, store: SkillStore
    ) -> None:
        await box.says("echo changed > scripts/msg.txt", writable_skill=True)
        manager = WorkspaceManager(docker_engine, store, spec=SPEC)
        async with manager.session(tenant=TENANT) as other:
            staged = await other.stage(box.skill)
            assert staged == box.staged
            request = RunRequest(Shell("cat scripts/msg.txt"), writable_skill=True)
            assert (await other.run(staged, request)).outcome.stdout == b"message"


async def test_the_same_skill_is_staged_once_and_anew_when_it_changed(box: Box) -> None:
    again = await box.session.stage(box.skill)
    assert again == box.staged
    await box.says(
        "for l in out work inputs .venv; do test -L $l && test -d $l/ || exit 1; done; touch .venv/x"
    )
    (box.skill / "new").touch()
    changed = await box.session.stage(box.skill)
    assert changed.digest != again.digest
    result = await box.session.run(changed, RunRequest(Shell("ls new")))
    assert result.outcome.stdout == b"new\n"


async def test_collection_by_the_usual_limits_can_be_lowered(box: Box) -> None:
    request = RunRequest(Shell("echo 123456 > out/a"), wanted=OutputRequest(("out/*",)))
    lowered = replace(request, collect=CollectLimits(file_bytes=3))
    assert [file.content for file in report(await box.session.run(box.staged, lowered)).output_files] == [
        "123"
    ]

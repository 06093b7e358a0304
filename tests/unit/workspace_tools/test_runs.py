"""Commands of skills, commands of none, programs to talk to, and files that are kept: what a model is told of them."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.errors import (
    ArtifactNotFoundError,
    CommandError,
    InputError,
    PathEscapeError,
    PatternError,
    SandboxSkillsError,
)
from sandbox_skills.policy import Policy, SkillRule
from sandbox_skills.spec import KIB
from sandbox_skills.toolsets.base import Conversation, ToolCall
from sandbox_skills.toolsets.skill_runs import EMPTIED
from sandbox_skills.toolsets.workspace_tools.shell_calls import check_directory
from sandbox_skills.workspace.save_file import savable_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from tests.unit.workspace_tools.conftest import World

    OpenWorld = Callable[..., AbstractAsyncContextManager[World]]

pytestmark = pytest.mark.anyio

NOTE = {
    "name": "out/a.txt",
    "content": "hello",
    "mime_type": "text/plain",
    "size_bytes": 5,
    "ref": "workspace://out/a.txt",
}


def without_time(told: dict[str, object]) -> dict[str, object]:
    assert isinstance(told.pop("duration_ms"), int)
    return told


class TestSkillRun:
    async def test_a_result_has_the_shape_of_the_design(self, world: World) -> None:
        told = await world.run("put /workspace/out/a.txt hello", output_files=["out/*"])
        (kept,) = told.pop("warnings")
        assert "in the workspace only" in kept
        assert without_time(told) == {
            "output_files": [NOTE],
            "primary_output": NOTE,
            "stdout": "",
            "stderr": "",
            "exit_code": 0,
            "timed_out": False,
        }

    async def test_a_command_that_fails_is_a_result(self, world: World) -> None:
        await world.call("skill_load", skill="csv-tools")
        result = await world.call(
            "skill_run", skill="csv-tools", command="fail /workspace/out/a.txt", output_files=["out/*"]
        )
        assert (result.status, result.is_error) == ("ok", True)
        assert isinstance(result.content, dict)
        told = result.content
        assert (told["exit_code"], told["stderr"], told["output_files"]) == (2, "no such program\n", [])
        assert "left out, because the run failed" in str(told["warnings"])
        assert "primary_output" not in told

    async def test_one_that_is_stopped_says_why(self, world: World) -> None:
        told = await world.run("read never", stdin="", timeout=0.1)
        assert told["exit_code"] == 0  # its input is empty and closed
        await world.call("skill_load", skill="weather")
        stopped = await world.told(
            "skill_exec", skill="weather", command="read never", timeout=0.1, yield_ms=5000
        )
        assert stopped["result"]["timed_out"] is True
        assert stopped["exit_code"] == stopped["result"]["exit_code"] == 124
        assert stopped["result"]["warnings"][0] == "the command was stopped: its time was over"

    async def test_a_longer_time_than_there_is_is_cut_and_said(self, world: World) -> None:
        told = await world.run("cwd", timeout=10_000)
        assert told["warnings"] == ["10000 s were asked for, but no run may take more than 900 s"]

    async def test_each_stream_is_cut_at_16_kib_with_a_warning(self, world: World) -> None:
        told = await world.run(f"repeat € {6 * KIB}")
        assert told["stdout"] == "€" * (16 * KIB // 3)
        assert [text for text in told["warnings"] if "stdout was cut" in text] == [told["warnings"][0]]

    async def test_standard_input_a_directory_and_a_declared_input(self, world: World) -> None:
        await world.artifacts.save("uploads/b.txt", b"b", tenant="t")
        assert (await world.run("stdin", stdin="stdin-value"))["stdout"] == "stdin-value"
        assert (await world.run("cwd", cwd="$WORK_DIR/x"))["stdout"] == "/workspace/work/x"
        told = await world.run(
            "get /workspace/work/inputs/b.txt", inputs=[{"from": "artifact://uploads/b.txt@0"}]
        )
        assert told["stdout"] == "b"
        assert told["staged_inputs"] == [
            {
                "name": "work/inputs/b.txt",
                "original_name": "b.txt",
                "mime_type": "application/octet-stream",
                "size_bytes": 1,
            }
        ]

    async def test_a_ref_is_an_input_of_a_later_call(self, world: World) -> None:
        ref = (await world.run("put /workspace/out/a.txt hello", output_files=["out/*"]))["output_files"][0][
            "ref"
        ]
        told = await world.run("get /workspace/work/copy", inputs=[{"from": ref, "to": "work/copy"}])
        assert told["stdout"] == "hello"

    async def test_saved_files_are_told_and_are_in_the_state(self, world: World) -> None:
        await world.call("skill_load", skill="csv-tools")
        result = await world.call(
            "skill_run",
            skill="csv-tools",
            command="put /workspace/out/a.txt hello",
            outputs={"Globs": ["$OUTPUT_DIR/**"], "save": True, "nameTemplate": "pref/"},
        )
        assert isinstance(result.content, dict)
        assert result.content["artifact_files"] == [{"name": "pref/out/a.txt", "version": 0}]
        assert json.loads(world.conversation.state["temp:skill:artifacts"]) == {
            "tool_call_id": "call-1",
            "artifacts": [{"name": "pref/out/a.txt", "version": 0, "ref": "artifact://pref/out/a.txt@0"}],
        }
        (saved,) = result.artifacts
        assert saved.skill == "csv-tools"

    async def test_without_a_store_to_save_is_a_warning(self, open_world: OpenWorld) -> None:
        async with open_world(saves=False) as world:
            told = await world.run(
                "put /workspace/out/a.txt hello", output_files=["out/*"], save_as_artifacts=True
            )
            assert told["exit_code"] == 0
            assert "no artifact store" in str(told["warnings"])
            assert "artifact_files" not in told

    async def test_a_file_of_another_loaded_skill_is_an_input(self, world: World) -> None:
        source = [{"from": "skill://weather/SKILL.md"}]
        arguments: dict[str, Any] = {"skill": "csv-tools", "command": "cwd", "inputs": source}
        await world.call("skill_load", skill="csv-tools")
        assert "'weather' is not loaded" in await world.error("skill_run", **arguments)
        await world.call("skill_load", skill="weather")
        staged = (await world.call("skill_run", **arguments)).content
        # The fake engine has no files of skills: that it was looked for in the box shows that it was known.
        assert "SKILL.md" in str(staged)

    @pytest.mark.parametrize("tool", ["skill_run", "skill_exec"])
    async def test_a_skill_with_secrets_reads_files_of_another_in_its_own_workspace(
        self, open_world: OpenWorld, tool: str
    ) -> None:
        policy = Policy(skills={"csv-tools": SkillRule(secrets=("KEY",))})
        async with open_world(policy, secrets={"KEY": "s3cret-value"}) as world:
            for skill in ("csv-tools", "weather"):
                await world.call("skill_load", skill=skill)
            told = await world.call(
                tool,
                skill="csv-tools",
                command="get /workspace/work/inputs/SKILL.md",
                inputs=[{"from": "skill://weather/SKILL.md"}],
            )
            assert "The body of weather." in told.text
            assert [one.id for one in await world.runs.workspaces(world.conversation)] == ["c/csv-tools"]

    @pytest.mark.parametrize("load_first", [True, False])
    async def test_loading_first_is_asked_only_where_it_is_wanted(
        self, open_world: OpenWorld, *, load_first: bool
    ) -> None:
        async with open_world(require_loaded=load_first) as world:
            result = await world.call("skill_run", skill="csv-tools", command="cwd")
            if load_first:
                assert result.code == "skill_not_loaded"
                assert "all skill_load with it" in result.text
            else:
                assert result.status == "ok"

    async def test_where_nothing_loads_nothing_is_asked(self, open_world: OpenWorld) -> None:
        async with open_world(allowed={"skill_run"}) as world:
            assert (await world.call("skill_run", skill="csv-tools", command="cwd")).status == "ok"

    async def test_what_the_policy_refuses_is_not_loaded_nor_run(self, open_world: OpenWorld) -> None:
        policy = Policy(skills={"csv-tools": SkillRule(allow=False)})
        async with open_world(policy) as world:
            for tool in ("skill_load", "skill_select_docs"):
                result = await world.call(tool, skill="csv-tools")
                assert (result.code, world.conversation.state) == ("policy_denied", {})


class TestWorkspaceExec:
    async def test_a_command_of_no_skill_runs_in_the_same_workspace(self, world: World) -> None:
        await world.run("put /workspace/out/a.txt hello")
        assert await world.told("workspace_exec", command="get out/a.txt") == {
            "status": "exited",
            "output": "hello",
            "exit_code": 0,
            "offset": 0,
            "next_offset": 0,
        }

    async def test_it_needs_no_skill_to_be_loaded_and_its_output_is_heard_live(self, world: World) -> None:
        told = await world.told("workspace_exec", command="echo one; echo two", timeoutSec=5)
        assert (told["output"], told["next_offset"]) == ("one\ntwo\n", 2)
        assert (await world.told("workspace_exec", command="stdin", stdin="in", cwd="work"))["output"] == "in"

    async def test_a_failure_is_a_result_and_a_stop_says_why(self, world: World) -> None:
        result = await world.call("workspace_exec", command="exit 3")
        assert (result.status, result.is_error) == ("ok", True)
        assert isinstance(result.content, dict)
        assert result.content["exit_code"] == 3

    async def test_long_output_is_head_and_tail_and_counted(self, open_world: OpenWorld) -> None:
        async with open_world(output_bytes=100) as world:
            told = await world.told("workspace_exec", command=f"repeat x {3000 * KIB}")
            assert (told["truncated"], told["total_bytes"]) == (True, 3000 * KIB)
            assert told["output"].startswith("xxx")
            assert "[3072000 bytes, cut here]" in told["output"]
            assert len(told["output"]) == 100
            assert "warnings" not in told

    @pytest.mark.parametrize(
        ("cwd", "error"),
        [
            ("../secret", PathEscapeError),
            ("/etc", PathEscapeError),
            ("out/*.zip", PatternError),
            ("tmp/x", CommandError),
            ("$HOME", CommandError),
        ],
    )
    async def test_a_directory_that_is_none_is_one_of_three_errors(
        self, world: World, cwd: str, error: type[SandboxSkillsError]
    ) -> None:
        with pytest.raises(error):
            check_directory(cwd)
        await world.error("workspace_exec", command="cwd", cwd=cwd)

    @pytest.mark.parametrize(
        ("cwd", "path"),
        [
            ("", "/workspace"),
            ("/", "/workspace"),
            (".", "/workspace"),
            ("out/x", "/workspace/out/x"),
            ("/work", "/workspace/work"),
            ("$OUTPUT_DIR", "/workspace/out"),
            ("${SKILLS_DIR}/a", "/workspace/skills/a"),
            ("/workspace/runs", "/workspace/runs"),
        ],
    )
    async def test_a_directory_is_named_from_the_workspace(self, world: World, cwd: str, path: str) -> None:
        assert (await world.told("workspace_exec", command="cwd", cwd=cwd))["output"] == path
        assert (await world.told("workspace_exec", command="cwd", cwd="$RUN_DIR"))["output"].startswith(
            "/workspace/runs/"
        )


class TestPrograms:
    async def test_one_is_asked_answered_and_ends_with_its_result(self, world: World) -> None:
        await world.call("skill_load", skill="csv-tools")
        started = await world.told(
            "skill_exec", skill="csv-tools", command="printf 'name: '; read v; echo got:$v", yield_ms=3000
        )
        assert started == {
            "status": "running",
            "session_id": started["session_id"],
            "output": "name: ",
            "offset": 0,
            "next_offset": 0,
            "interaction": {"needs_input": True, "kind": "prompt", "hint": "name:"},
        }
        ended = await world.told(
            "skill_write_stdin", session_id=started["session_id"], chars="hello", submit=True, yield_ms=3000
        )
        assert (ended["status"], ended["exit_code"]) == ("exited", 0)
        assert ended["result"]["stdout"] == "name: got:hello\n"
        assert "interaction" not in ended
        again = await world.told("skill_poll_session", sessionId=started["session_id"])
        assert again["result"] == ended["result"]
        assert (again["offset"], "output" in again) == (ended["next_offset"], False)

    async def test_a_killed_one_is_gone(self, world: World) -> None:
        await world.call("skill_load", skill="csv-tools")
        started = await world.told("skill_exec", skill="csv-tools", command="read v", tty=True, yield_ms=10)
        killed = {"ok": True, "session_id": started["session_id"], "status": "killed"}
        assert await world.told("skill_kill_session", session_id=started["session_id"]) == killed
        assert "no program of that session_id" in await world.error(
            "skill_poll_session", session_id=started["session_id"]
        )

    async def test_a_shell_command_can_be_left_running(self, world: World) -> None:
        started = await world.told("workspace_exec", command="read v; echo got:$v; exit 3", background=True)
        assert (started["status"], "output" in started) == ("running", False)
        busy = await world.error("workspace_exec", command="cwd")
        assert "an interactive program runs" in busy
        assert f"call skill_kill_session with session_id {started['session_id']}" in busy
        told = await world.told(
            "workspace_write_stdin",
            session_id=started["session_id"],
            chars="hi",
            append_newline=True,
            yieldMs=3000,
        )
        assert (told["status"], told["output"], told["exit_code"]) == ("exited", "got:hi\n", 3)
        exited = await world.told("workspace_kill_session", session_id=started["session_id"])
        assert exited["status"] == "exited"

    @pytest.mark.parametrize(
        ("tool", "arguments"),
        [
            ("skill_exec", {"skill": "csv-tools", "yield_ms": 10}),
            ("workspace_exec", {"background": True}),
        ],
    )
    async def test_a_start_in_a_workspace_that_was_emptied_says_so_once(
        self, world: World, tool: str, arguments: dict[str, Any]
    ) -> None:
        await world.run("cwd")
        (box,) = world.engine.open_sandboxes.values()
        box.lose()
        assert (await world.call("skill_run", skill="csv-tools", command="cwd")).status == "sandbox_error"
        started = await world.told(tool, command="read v", **arguments)
        assert (started["status"], started["warnings"]) == ("running", [EMPTIED])
        await world.call("skill_kill_session", session_id=started["session_id"])
        again = await world.told(tool, command="read v", **arguments)
        assert "warnings" not in again

    async def test_a_call_that_is_cancelled_leaves_no_program(self, world: World) -> None:
        await world.call("skill_load", skill="csv-tools")
        calls = (
            world.call("skill_exec", skill="csv-tools", command="read v", yield_ms=60_000),
            world.call("workspace_exec", command="read v", yield_time_ms=60_000),
        )
        for call in calls:
            waiting = asyncio.ensure_future(call)
            await asyncio.sleep(0.2)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert (await world.told("workspace_exec", command="echo x"))["output"] == "x\n"

    async def test_its_output_is_heard_until_the_call_is_answered(self, world: World) -> None:
        heard: list[bytes] = []
        call = ToolCall("workspace_exec", {"command": "printf one; read v; printf two", "yieldMs": 3000})
        result = await world.toolbox.call(
            call, world.conversation, on_output=lambda _stream, data: heard.append(data)
        )
        assert isinstance(result.content, dict)
        told = await world.told(
            "workspace_write_stdin", session_id=result.content["session_id"], submit=True, yield_time_ms=3000
        )
        assert (heard, told["status"]) == ([b"one"], "exited")

    async def test_another_conversation_does_not_reach_it(self, world: World) -> None:
        started = await world.told("workspace_exec", command="read v", background=True)
        for other in (Conversation("d", "t"), Conversation("c", "other"), Conversation("", "t")):
            result = await world.call("workspace_write_stdin", other, session_id=started["session_id"])
            assert result.code == "program_not_found"
        await world.call("workspace_kill_session", session_id=started["session_id"])

    async def test_looking_for_one_starts_no_sandbox(self, world: World) -> None:
        await world.error("skill_poll_session", session_id="x")
        assert world.runs.sessions.sessions(tenant="t") == ()

    async def test_a_program_of_a_skill_with_secrets_is_found_in_its_own_workspace(
        self, open_world: OpenWorld
    ) -> None:
        policy = Policy(skills={"csv-tools": SkillRule(secrets=("TOKEN",))})
        async with open_world(policy, secrets={"TOKEN": "a-long-secret"}) as world:
            await world.call("skill_load", skill="csv-tools")
            started = await world.told("skill_exec", skill="csv-tools", command="read v", yield_ms=10)
            told = await world.told(
                "skill_write_stdin", session_id=started["session_id"], submit=True, yield_ms=3000
            )
            assert told["status"] == "exited"


class TestSaving:
    async def test_a_file_is_saved_under_its_path(self, world: World) -> None:
        await world.told("workspace_exec", command="put out/site.txt hello")
        result = await world.call("workspace_save_artifact", path="$OUTPUT_DIR/site.txt")
        assert result.content == {
            "path": "out/site.txt",
            "saved_as": "out/site.txt",
            "version": 0,
            "ref": "artifact://out/site.txt@0",
            "mime_type": "text/plain",
            "size_bytes": 5,
        }
        assert "artifact://out/site.txt@0" in world.conversation.state["temp:skill:artifacts"]
        assert (await world.artifacts.get("out/site.txt", max_bytes=9, tenant="t"))[1] == b"hello"
        assert (await world.told("workspace_save_artifact", path="/out/site.txt"))["version"] == 1

    async def test_an_empty_one_too(self, world: World) -> None:
        await world.told("workspace_exec", command="put work/empty ''")
        assert (await world.told("workspace_save_artifact", path="work/empty"))["size_bytes"] == 0

    @pytest.mark.parametrize(
        ("path", "error"),
        [
            ("out/*.zip", InputError),
            ("skills/csv-tools/SKILL.md", InputError),
            ("out", InputError),
            (".", InputError),
            ("home/x", InputError),
            ("../x", PathEscapeError),
            ("/etc/passwd", PathEscapeError),
            ("out/../../x", PathEscapeError),
        ],
    )
    async def test_what_is_no_file_of_the_workspace_is_refused(
        self, world: World, path: str, error: type[SandboxSkillsError]
    ) -> None:
        with pytest.raises(error):
            savable_path(path)
        await world.error("workspace_save_artifact", path=path)
        assert world.runs.sessions.sessions(tenant="t") == ()

    async def test_one_that_is_missing_or_too_large_is_not_saved(self, open_world: OpenWorld) -> None:
        async with open_world(artifact_bytes=4) as world:
            assert "no such file" in await world.error("workspace_save_artifact", path="out/x")
            await world.told("workspace_exec", command="put out/x 12345")
            assert "is larger than" in await world.error("workspace_save_artifact", path="out/x")
            with pytest.raises(ArtifactNotFoundError):
                await world.artifacts.stat("out/x", tenant="t")

    def test_inputs_is_what_a_skill_calls_them(self) -> None:
        assert str(savable_path("inputs/x")) == "/workspace/work/inputs/x"

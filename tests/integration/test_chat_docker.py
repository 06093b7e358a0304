"""A model works with skills in real sandboxes: the whole flow that the design shows, with approvals and a resume."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.controller.controller import Decisions
from sandbox_skills.controller.events import ToolOutput
from sandbox_skills.controller.state import RunState
from sandbox_skills.settings import Settings
from sandbox_skills.toolsets.base import Conversation
from sandbox_skills.wiring import controller, model_client
from sandbox_skills.wiring.tools import opened_tools
from tests.docker_host import connection
from tests.model_server import Say, call, text

if TYPE_CHECKING:
    from sandbox_skills.workspace.staging import SkillStore
    from tests.conftest import Program
    from tests.model_server import ModelServer

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

SKILLS = Path(__file__).parents[2] / "skills"
CHANNELS = {"skill": "team-chat", "script": "team-chat.mjs", "args": ["channels", "list"]}
MISSING = {"skill": "team-chat", "script": "no-such.mjs"}


@pytest.fixture
def server(model_server: ModelServer) -> ModelServer:
    model_server.reset()
    return model_server


@pytest.fixture
def settings(server: ModelServer, store: SkillStore, tmp_path: Path) -> Settings:
    return Settings.of(
        {
            "data_dir": tmp_path / "data",
            "store": {"dir": store.mount_dir.parent},
            "skills": {"roots": [SKILLS]},
            "docker": {"host": connection().host},
            "model": {"name": "scripted/model", "base_url": server.base_url, "api_key": "k"},
            "policy": {"tools": {"use_skill": {"needs_approval": "first_use"}}},
        }
    )


def outputs(body: dict[str, Any]) -> dict[str, Any]:
    found = {
        one["call_id"]: one["output"] for one in body["input"] if one.get("type") == "function_call_output"
    }
    return {key: json.loads(value) if value.startswith("{") else value for key, value in found.items()}


@pytest.mark.slow
@pytest.mark.timeout(90)
async def test_the_designs_flow_with_an_approval_and_a_resume(
    server: ModelServer, settings: Settings
) -> None:
    def send(asked: Any) -> Say:  # noqa: ANN401  # Asked
        listed = outputs(asked.body)["list"]["stdout"]
        channel = next(line.split()[0] for line in listed.splitlines() if "dev" in line)
        args = ["send", "Hello World", f"--channel={channel}"]
        return Say([call("use_skill", {**CHANNELS, "args": args}, "send")])

    server.script(
        Say([call("load_skill", {"skill": "team-chat"}, "load")]),
        Say([call("use_skill", CHANNELS, "list"), call("use_skill", MISSING, "missing")]),
        send,
        Say([text("Done. Sent 'Hello World' to #dev.")]),
    )
    async with model_client(settings) as client, opened_tools(settings) as tools:
        made = controller(settings, client, toolbox=tools.toolbox)
        waiting = await made.run("Send 'Hello World' to the #dev channel.", Conversation("talk", "local"))
    assert [one.id for one in waiting.waiting] == ["list", "missing"]
    stored = waiting.state.dumps()

    async with model_client(settings) as client, opened_tools(settings) as tools:
        made = controller(settings, client, toolbox=tools.toolbox)
        streamed: list[str] = []
        async with made.stream(Decisions(approve=("list", "missing")), RunState.loads(stored)) as events:
            streamed = [event.text async for event in events if isinstance(event, ToolOutput)]
    told = outputs(server.bodies[3])
    assert list(told) == ["load", "list", "missing", "send"]
    assert "List the channels first" in told["load"]
    assert told["list"]["success"]
    assert not told["missing"]["success"]
    assert "ScriptNotFound" in told["missing"]["error"]
    assert told["send"]["success"], told["send"]
    assert "".join(streamed)
    assert "team-chat" in server.bodies[0]["instructions"]


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_chat_runs_skills_in_sandboxes(program: Program, server: ModelServer) -> None:
    server.script(Say([call("use_skill", CHANNELS, "list")]), Say([text("There are some.")]))
    environ = {
        "SANDBOX_SKILLS_MODEL__BASE_URL": server.base_url,
        "SANDBOX_SKILLS_MODEL__NAME": "scripted/model",
    }
    done = program.run("chat", "Which channels are there?", **environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "There are some.\n"
    assert "use_skill done" in done.stderr
    assert "general" in outputs(server.bodies[1])["list"]["stdout"]


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_chat_writes_what_calls_have_saved_into_a_directory(
    program: Program, server: ModelServer, tmp_path: Path
) -> None:
    def write(text_of_it: str, call_id: str) -> dict[str, Any]:
        command = f"mkdir -p $OUTPUT_DIR/notes; printf '{text_of_it}' > $OUTPUT_DIR/notes/a.txt"
        saved = {"output_files": ["out/notes/*"], "save_as_artifacts": True, "artifact_prefix": "kept/"}
        return call("skill_run", {"skill": "team-chat", "command": command, **saved}, call_id)

    server.script(
        Say([call("skill_load", {"skill": "team-chat"}, "load")]),
        Say([write("first", "one")]),
        Say([write("second", "two")]),
        Say([text("Kept.")]),
    )
    environ = {
        "SANDBOX_SKILLS_MODEL__BASE_URL": server.base_url,
        "SANDBOX_SKILLS_MODEL__NAME": "scripted/model",
    }
    results = tmp_path / "results"
    results.mkdir()
    done = program.run("chat", "Keep a note.", "--toolset", "workspace", "--out-dir", str(results), **environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Kept.\n"
    (file,) = [path for path in results.rglob("*") if path.is_file()]
    assert file.relative_to(results).as_posix() == "kept/out/notes/a.txt"
    assert file.read_text(encoding="utf-8") == "first"
    assert f"saved {file}" in done.stderr
    assert f"not saved: {file} cannot be written: it is there already" in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_an_interrupt_ends_the_call_under_way_and_answers_it(
    program: Program, server: ModelServer, tmp_path: Path
) -> None:
    run = {"skill": "team-chat", "command": "echo begun; sleep 300"}
    server.script(
        Say([call("skill_load", {"skill": "team-chat"}, "load")]),
        Say([call("skill_run", run, "long"), call("skill_list_docs", {"skill": "team-chat"}, "docs")]),
        Say([text("It was stopped.")]),
    )
    environ = {
        "SANDBOX_SKILLS_MODEL__BASE_URL": server.base_url,
        "SANDBOX_SKILLS_MODEL__NAME": "scripted/model",
    }
    given = ("--toolset", "workspace", "--state", str(tmp_path / "talk.json"))
    process = program.start("chat", "Wait long.", *given, environ=environ)
    assert process.stderr is not None
    shown = b""
    while b"begun\n" not in shown.replace(b'"echo begun', b""):
        line = process.stderr.readline()
        assert line, shown.decode()
        shown += line
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 130, told.decode()
    assert b"cancelled" in told
    done = program.run("chat", "What became of it?", *given, **environ)
    assert (done.returncode, done.stdout) == (0, "It was stopped.\n"), done.stderr
    answers = outputs(server.bodies[2])
    assert list(answers) == ["load", "long", "docs"]
    assert "cancelled" in answers["long"]

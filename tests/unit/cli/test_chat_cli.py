"""`chat` over a scripted model: one shot, JSON lines, a conversation in a file, approvals, and what goes wrong."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.cli.chat_view import TextView
from sandbox_skills.controller.events import TextDelta, ToolOutput, ToolStarted, TurnRestarted
from tests.model_server import Say, call, refusal, stream_of, text

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Program
    from tests.model_server import ModelServer
    from tests.unit.cli.conftest import Cli

DONE = Say([text("All \x1b[31mdone.")])
READY = "\x1b[?2004h"
"""What a terminal is told when a line is about to be read."""

USE = {"skill": "sample", "script": "one.py"}


@pytest.fixture
def server(model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> ModelServer:
    model_server.reset()
    monkeypatch.setenv("SANDBOX_SKILLS_MODEL__BASE_URL", model_server.base_url)
    monkeypatch.setenv("SANDBOX_SKILLS_MODEL__NAME", "scripted/model")
    monkeypatch.setenv("SANDBOX_SKILLS_ENGINE", "fake")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    return model_server


def outputs(body: dict[str, Any]) -> dict[str, str]:
    return {
        one["call_id"]: one["output"] for one in body["input"] if one.get("type") == "function_call_output"
    }


def test_a_model_without_skills_is_told_of_before_it_is_asked(
    cli: Cli, server: ModelServer, skill: Path
) -> None:
    server.script(DONE, DONE)
    done = cli("chat", "Do it.")
    assert done.code == 0
    assert done.err.startswith("note: no skill is offered, though 1 skill is there: name a folder")
    assert "note: " not in cli("--skills", str(skill.parent), "chat", "Do it.").err


def test_a_prompt_is_answered_on_stdout_and_the_rest_told_on_stderr(
    cli: Cli, server: ModelServer, skill: Path
) -> None:
    server.script(Say([text("Look:"), call("use_skill", USE, "c1")]), DONE)
    done = cli("--skills", str(skill.parent), "chat", "Do it.", "--instructions", "Be brief.")
    assert done.code == 0
    assert done.out == "Look:\nAll \\x1b[31mdone.\n"
    assert '┌ use_skill {"skill": "sample", "script": "one.py"}' in done.err
    assert "└ use_skill" in done.err
    assert "2 turns, 200 tokens in, 40 out, $0.0020" in done.err
    assert server.bodies[0]["instructions"].startswith("Be brief.\n\n")
    assert "sample" in server.bodies[0]["instructions"]
    assert "c1" in outputs(server.bodies[1])


def test_what_is_piped_in_is_a_prompt(cli: Cli, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("From a pipe.\n"))
    server.script(DONE)
    assert cli("chat").code == 0
    assert server.bodies[0]["input"] == [{"type": "message", "role": "user", "content": "From a pipe."}]


def test_json_is_one_event_a_line(cli: Cli, server: ModelServer, skill: Path) -> None:
    server.script(Say([call("use_skill", USE, "c1")]), DONE)
    done = cli("--skills", str(skill.parent), "chat", "Do it.", "--json")
    events = [json.loads(line) for line in done.out.splitlines()]
    names = [event["event"] for event in events]
    assert names[0] == "turn_started"
    assert names[-1] == "done"
    assert {"tool_started", "tool_finished", "text", "turn_finished"} <= set(names)
    assert events[-1]["text"] == "All \x1b[31mdone."
    assert "\x1b" not in done.out


def test_nothing_that_a_model_says_is_obeyed_by_the_terminal(
    cli: Cli, server: ModelServer, skill: Path
) -> None:
    bad = "\x1b]0;title\x07\x1b[2J\u202e\x9b31m" * 40
    odd = Say([text(bad), call(bad, {"word": bad, bad: [bad]}, call_id=bad[:60])], model=bad)
    cut = Say([text(bad)], incomplete=bad)
    for options in ((), ("--json",)):
        server.script(odd, cut)
        done = cli("--skills", str(skill.parent), "chat", "Do it.", *options)
        shown = done.out + done.err
        assert not any(c in shown for c in "\x1b\x07\x9b\u202e")
        assert done.code == 0
    server.script(refusal(403, {"error": {"code": 403, "message": bad, "metadata": {"raw": bad}}}))
    done = cli("chat", "Do it.")
    assert not any(c in done.out + done.err for c in "\x1b\x07\x9b\u202e")
    assert max(map(len, done.err.splitlines())) < 1500


def test_a_conversation_of_another_tenant_is_refused(cli: Cli, server: ModelServer, home: Path) -> None:
    server.script(DONE)
    file = home / "talk.json"
    assert cli("chat", "First.", "--state", "talk.json").code == 0
    file.write_text(
        file.read_text(encoding="utf-8").replace('"tenant":"local"', '"tenant":"acme"'), encoding="utf-8"
    )
    done = cli("chat", "Second.", "--state", "talk.json")
    assert done.code == 2
    assert "another tenant" in done.err
    assert len(server.asked) == 1


def test_a_conversation_goes_on_from_its_file(cli: Cli, server: ModelServer, home: Path) -> None:
    server.script(Say([text("One.")]), Say([text("Two.")]))
    file = home / "talk.json"
    assert cli("chat", "First.", "--state", "talk.json").code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert cli("chat", "Second.", "--state", "talk.json").code == 0
    said = [one["content"] for one in server.bodies[1]["input"] if one["role"] == "user"]
    assert said == ["First.", "Second."]
    assert server.bodies[1]["tool_choice"] == "auto" if "tools" in server.bodies[1] else True
    assert [path.name for path in home.iterdir()] == ["talk.json"]


def test_a_run_that_failed_goes_on_without_a_prompt(cli: Cli, server: ModelServer) -> None:
    server.script(refusal(403, {"error": {"code": 403, "message": "no"}}), DONE)
    failed = cli("chat", "First.", "--state", "talk.json")
    assert (failed.code, failed.out) == (4, "")
    assert "error: no" in failed.err
    assert cli("chat", "--state", "talk.json").out == "All \\x1b[31mdone.\n"
    nothing = cli("chat", "--state", "talk.json")
    assert nothing.code == 2
    assert "nothing is asked" in nothing.err


@pytest.mark.parametrize(
    ("arguments", "environ", "told"),
    [
        ((), {}, "nothing is asked"),
        (("Hi.",), {"SANDBOX_SKILLS_MODEL__NAME": ""}, "no model is chosen"),
        (("Hi.", "--toolset", "none"), {}, "no toolset is named 'none'"),
        (("Hi.", "--state", "broken.json"), {}, "broken.json: this is no saved conversation"),
        (("Hi.", "--out-dir", "broken.json"), {}, "is not a directory"),
        (("Hi.", "--state", "none/talk.json"), {}, "--state none/talk.json cannot be written"),
        (("Hi.",), {"SANDBOX_SKILLS_MODEL__BASE_URL": "ftp://x"}, "no http(s) address"),
    ],
)
def test_what_cannot_be_is_told(
    cli: Cli,
    server: ModelServer,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    environ: dict[str, str],
    told: str,
) -> None:
    (home / "broken.json").write_text("{}", encoding="utf-8")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    server.script(DONE)
    done = cli("chat", *arguments)
    assert done.code == 2
    assert told in done.err


def test_a_view_keeps_lines_of_calls_apart_from_the_answer(capfd: pytest.CaptureFixture[str]) -> None:
    view = TextView()
    for event in (
        TextDelta("Half"),
        TurnRestarted("gone"),
        ToolStarted("c1", "use", {"long": "x" * 500}),
        ToolOutput("c1", "stdout", "one\ntw"),
        ToolOutput("c1", "stderr", "o\n\x1b[2J"),
    ):
        view.show(event)
    out, err = capfd.readouterr()
    assert out == "Half\n"
    assert "the answer broke off (gone)" in err
    assert "│ one\n│ two\n" in err
    assert len(err.splitlines()[1]) < 200
    assert "\x1b" not in err


def talk_on_terminal(
    program: Program, server: ModelServer, *arguments: str, keys: list[tuple[str, str]]
) -> tuple[int, str]:
    """Types each text when what is before it was shown, for "" when the model was asked; returns what was shown."""
    leader, follower = pty.openpty()
    environ = {
        "TERM": "xterm",
        "COLUMNS": "200",
        "PROMPT_TOOLKIT_NO_CPR": "1",
        "SANDBOX_SKILLS_MODEL__BASE_URL": server.base_url,
        "SANDBOX_SKILLS_MODEL__NAME": "scripted/model",
        "SANDBOX_SKILLS_ENGINE": "fake",
    }
    process = program.start(
        "chat", *arguments, stdin=follower, stdout=follower, stderr=follower, environ=environ
    )
    os.close(follower)
    shown, mark = b"", 0
    deadline = time.monotonic() + 30
    waiting = list(keys)
    while time.monotonic() < deadline:
        if waiting and (waiting[0][0].encode() in shown[mark:] if waiting[0][0] else server.asked):
            mark = len(shown)
            text_typed = waiting.pop(0)[1]
            if text_typed == "^C":
                os.killpg(process.pid, signal.SIGINT)
            else:
                os.write(leader, text_typed.encode())
        if select.select([leader], [], [], 0.05)[0]:
            try:
                shown += os.read(leader, 65536)
            except OSError:
                break
    os.close(leader)
    return process.wait(timeout=5), shown.decode("utf-8", "replace")


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_conversation_on_a_terminal(program: Program, server: ModelServer) -> None:
    server.script(
        Say([text("One.")]), refusal(403, {"error": {"code": 403, "message": "no"}}), Say([text("Three.")])
    )
    keys = [(READY, "first\r"), (READY, "second\r"), (READY, "third\r"), (READY, "\x04")]
    code, shown = talk_on_terminal(program, server, keys=keys)
    assert code == 0, shown
    assert "One." in shown
    assert "Three." in shown
    said = [one["content"] for one in server.bodies[2]["input"] if one["role"] == "user"]
    assert said == ["first", "second", "third"]


@pytest.fixture
def asking(tmp_path: Path) -> Path:
    """Settings whose policy wants a person's word on every call."""
    config = tmp_path / "asking.yaml"
    config.write_text("policy:\n  default:\n    needs_approval: always\n")
    return config


def test_nobody_to_ask_ends_the_run_and_says_how_to_allow(
    cli: Cli, server: ModelServer, skill: Path, asking: Path
) -> None:
    server.script(Say([call("use_skill", USE, "c1")]))
    done = cli("--config", str(asking), "--skills", str(skill.parent), "chat", "Do it.")
    assert done.code != 0
    assert "needs the user's approval" in done.err
    assert "--approve" in done.err
    assert len(server.bodies) == 1


def test_approve_allows_every_call(cli: Cli, server: ModelServer, skill: Path, asking: Path) -> None:
    server.script(Say([call("use_skill", USE, "c1")]), DONE)
    done = cli("--config", str(asking), "--skills", str(skill.parent), "chat", "Do it.", "--approve")
    assert done.code == 0, done.err
    assert "└ use_skill" in done.err
    assert "refused" not in outputs(server.bodies[1])["c1"]


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize(("answer", "runs"), [("y", True), ("n", False), ("", False)])
def test_a_call_is_asked_for_on_a_terminal(
    program: Program, server: ModelServer, skill: Path, asking: Path, *, answer: str, runs: bool
) -> None:
    server.script(Say([call("use_skill", USE, "c1")]), DONE)
    given = ("Do it.", "--config", str(asking), "--skills", str(skill.parent))
    code, shown = talk_on_terminal(program, server, *given, keys=[("? [y/N]", f"{answer}\r")])
    assert code == 0, shown
    assert ("└ use_skill" in shown) is runs
    assert "c1" in outputs(server.bodies[1])


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_an_interrupt_ends_the_run_and_not_the_conversation(program: Program, server: ModelServer) -> None:
    server.script(stream_of(b": \n\n", 20.0), Say([text("Two.")]))
    keys = [(READY, "first\r"), ("", "^C"), (READY, "second\r"), (READY, "\x04")]
    code, shown = talk_on_terminal(program, server, keys=keys)
    assert code == 0, shown
    assert "Two." in shown


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_an_interrupt_of_one_prompt_is_the_programs_end(program: Program, server: ModelServer) -> None:
    server.script(stream_of(b": \n\n", 20.0))
    process = program.start(
        "chat",
        "Hi.",
        environ={
            "SANDBOX_SKILLS_MODEL__BASE_URL": server.base_url,
            "SANDBOX_SKILLS_MODEL__NAME": "scripted/model",
            "SANDBOX_SKILLS_ENGINE": "fake",
        },
    )
    deadline = time.monotonic() + 20
    while not server.asked and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"cancelled" in told

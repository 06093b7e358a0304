"""Commands with `--server`: the same output, JSON, files and exit codes as on this machine."""

from __future__ import annotations

import json
import signal
import time
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from tests.model_server import Say, call, refusal, text
from tests.serve_process import served

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Program
    from tests.model_server import ModelServer
    from tests.serve_process import Served

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(300)]

RUN = ("run", "python-math")


@pytest.fixture
def server(program: Program) -> Iterator[Served]:
    with served(program) as server:
        yield server


class There:
    """The program, which goes to the server."""

    def __init__(self, program: Program, server: Served) -> None:
        self.program = program
        self.environ = {
            "SANDBOX_SKILLS_SERVER__API_KEY": server.key,
            "SANDBOX_SKILLS_SERVER__URL": server.url,
        }

    def run(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return self.program.run(*arguments, **{**self.environ, **environ})


@pytest.fixture
def there(program: Program, server: Served) -> There:
    return There(program, server)


def told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(done.stdout)
    return value


def shape(value: object) -> object:
    """Returns what a result has, without what differs from run to run."""
    if isinstance(value, dict):
        fixed = {key: one for key, one in value.items() if not key.endswith("seconds")}
        return {
            key: None if key in {"run_id", "max_rss", "saved", "digest"} else shape(one)
            for key, one in fixed.items()
        }
    return [shape(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("command", "options", "code"),
    [
        ("echo out; echo err >&2; exit 3", (), 3),
        ("kill -9 $$", (), 137),
        ("sleep 20", ("--timeout", "0.5"), 124),
        ("import-nothing", (), 127),
    ],
)
def test_a_run_is_told_as_one_of_this_machine(
    there: There, program: Program, command: str, options: tuple[str, ...], code: int
) -> None:
    for form in ((), ("--json",)):
        line = (*RUN, *options, "--command", command, *form)
        here, far = program.run(*line), there.run(*line)
        assert (far.returncode, here.returncode) == (code, code)
        if form:
            assert shape(told(far)) == shape(told(here))
        else:
            assert (far.stdout, far.stderr) == (here.stdout, here.stderr)


def test_files_go_there_and_come_back(there: There, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.txt").write_text("eins\n")
    (tmp_path / "in/link").symlink_to("/etc/passwd")
    line = (
        *RUN, "--input", "in/a.txt", "--input", "in:work/folder", "--output", "out/**", "--output", "none/*",
        "--out-dir", "results", "--json", "--command",
        "cp work/inputs/a.txt $OUTPUT_DIR/b.txt; ls work/folder > $OUTPUT_DIR/list; cat work/inputs/a.txt",
    )  # fmt: skip
    done = there.run(*line)
    assert done.returncode == 0, done.stderr
    result = told(done)
    assert result["stdout"] == "eins\n"
    assert {file["path"]: file["size"] for file in result["files"]} == {"out/b.txt": 5, "out/list": 6}
    assert (tmp_path / "results/out/b.txt").read_text() == "eins\n"
    assert (tmp_path / "results/out/list").read_text() == "a.txt\n"
    assert result["unmatched"] == ["none/*"]
    assert [row["name"] for row in result["staged_inputs"]] == ["work/inputs/a.txt", "work/folder"]
    assert "1 links and special files" in result["notes"][0]
    again = there.run(*line[:-1], "echo other > $OUTPUT_DIR/b.txt")
    assert told(again)["skipped"] == {"out/b.txt": "exists"}
    assert (tmp_path / "results/out/b.txt").read_text() == "eins\n"


def test_what_is_wrong_has_the_same_code_and_exit(there: There, program: Program, server: Served) -> None:
    for line, code, exit_code in (
        (("run", "python-maths", "--", "true"), "skill_not_found", 2),
        ((*RUN, "--cwd", "../..", "--", "true"), "path_escape", 2),
        ((*RUN, "--engine", "bubblewrap", "--", "true"), "input_invalid", 2),
        (("artifacts", "get", "none", "-o", "x"), "artifact_not_found", 2),
        ((*RUN, "--skills", ".", "--", "true"), "command_invalid", 2),
        ((*RUN, "--env", "HOME", "--", "true"), "command_invalid", 2),
    ):
        done = there.run(line[0], "--json", *line[1:]) if line[0] == "run" else there.run(*line, "--json")
        assert (told(done)["error"]["code"], done.returncode) == (code, exit_code), line
    wrong = there.run(*RUN, "--json", "--", "true", SANDBOX_SKILLS_SERVER__API_KEY="ssk_wrong_key_of_nobody")
    assert (told(wrong)["error"]["code"], wrong.returncode) == ("key_invalid", 2)
    assert "ssk_wrong" not in wrong.stdout + wrong.stderr
    gone = program.run(
        *RUN,
        "--server",
        "http://127.0.0.1:1",
        "--json",
        "--",
        "true",
        SANDBOX_SKILLS_SERVER__RETRY_SECONDS="0.1",
    )
    assert (told(gone)["error"]["code"], gone.returncode) == ("server_unavailable", 125)
    elsewhere = there.run(*RUN, "--server", "http://127.0.0.1:1", "--json", "--", "true")
    assert (told(elsewhere)["error"]["code"], elsewhere.returncode) == ("settings_invalid", 2)
    assert server.key not in elsewhere.stdout


def test_an_empty_server_is_this_machine(there: There) -> None:
    assert (
        there.run(*RUN, "--server", "", "--engine", "fake", "--", "true").stderr
        == "engine fake: nothing is run\n"
    )


def test_ctrl_c_ends_the_run_there(there: There, server: Served) -> None:
    process = there.program.start(*RUN, "--command", "echo on; sleep 100", environ=there.environ)
    assert process.stdout is not None
    assert process.stdout.readline() == b"on\n"
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    deadline = time.monotonic() + 30
    with server.client() as client:
        while (run := client.get("/v1/runs").json()["items"][0])["state"] != "finished":
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert run["outcome"] == {"type": "stopped", "reason": "cancelled"}


def test_artifacts_are_listed_fetched_and_removed(there: There, server: Served, tmp_path: Path) -> None:
    for word in ("one", "two"):
        order = {"command": f"mkdir -p $OUTPUT_DIR/d; echo {word} > $OUTPUT_DIR/d/a.txt"}
        server.run({"skill": "python-math", "output_files": ["out/**"], "save_as_artifacts": True, **order})
    (name,) = {row["name"] for row in json.loads(there.run("artifacts", "list", "--json").stdout)}
    every = json.loads(there.run("artifacts", "list", "--all", "--json").stdout)
    assert [(row["name"], row["version"], row["size"]) for row in every] == [(name, 0, 4), (name, 1, 4)]
    assert there.run("artifacts", "get", name).stdout == "two\n"
    got = there.run("artifacts", "get", name, "--version", "0", "-o", "first", "--json")
    assert (tmp_path / "first").read_text() == "one\n"
    here = {
        "ref",
        "name",
        "version",
        "mime_type",
        "size",
        "sha256",
        "skill",
        "skill_digest",
        "run_id",
        "created",
    }
    assert set(told(got)) == {*here, "saved"}
    assert there.run("artifacts", "rm", name, "--all").stdout == "2 removed (8 bytes)\n"
    assert json.loads(there.run("artifacts", "list", "--json").stdout) == []


def test_skills_are_sent_listed_fetched_and_removed(there: There, server: Served, tmp_path: Path) -> None:
    folder = tmp_path / "greeter"
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: greeter\ndescription: Says hello.\n---\nRun `echo`.\n")
    for version in (1, 2):
        (folder / "words.txt").write_text(f"hello {version}\n")
        sent = there.run("skills", "upload", "greeter")
        assert (sent.returncode, sent.stdout) == (0, f"greeter {version}\n"), sent.stderr
    assert there.run("run", "greeter", "--", "cat", "words.txt").stdout == "hello 2\n"
    listed = {row["name"]: row for row in json.loads(there.run("skills", "list", "--json").stdout)}
    assert (listed["greeter"]["source"], listed["greeter"]["latest"]) == ("tenant", 2)
    assert listed["python-math"]["source"] == "server"
    got = there.run("skills", "get", "greeter", "--version", "1", "-o", "greeter.zip", "--json")
    assert told(got)["saved"] == "greeter.zip"
    with zipfile.ZipFile(tmp_path / "greeter.zip") as archive:
        assert archive.read("greeter/words.txt") == b"hello 1\n"
    assert there.run("skills", "get", "greeter", "-o", "greeter.zip").returncode != 0
    assert there.run("skills", "rm", "greeter", "--version", "1").stdout == "removed greeter 1\n"
    assert there.run("skills", "rm", "greeter").returncode == 2
    assert there.run("skills", "rm", "greeter", "--all").returncode == 0
    assert told(there.run("skills", "rm", "greeter", "--all", "--json"))["error"]["code"] == "skill_not_found"
    refused = there.run("skills", "rm", "python-math", "--all", "--json")
    assert (told(refused)["error"]["code"], refused.returncode) == ("skill_read_only", 2)
    nowhere = there.program.run("skills", "list", "--json")
    assert (told(nowhere)["error"]["code"], nowhere.returncode) == ("command_invalid", 2)
    (folder / "SKILL.md").write_text("no frontmatter\n")
    assert there.run("skills", "upload", "greeter", "--json").returncode == 2


def test_what_wrote_an_artifact_is_told(there: There, server: Served) -> None:
    order = {"command": "echo x > $OUTPUT_DIR/a.txt", "output_files": ["out/**"], "save_as_artifacts": True}
    run = server.run({"skill": "python-math", **order})
    (row,) = json.loads(there.run("artifacts", "list", "--json").stdout)
    assert (row["skill"], row["skill_digest"]) == ("python-math", run["skill"]["digest"])


def test_a_call_is_told_as_one_of_this_machine(there: There, program: Program) -> None:
    line = ("call", "use_skill", "--args")
    for arguments, code in (
        ({"skill": "python-math", "script": "fib.py", "args": ["10"]}, 0),
        ({"skill": "python-math", "script": "fib.py", "args": ["x"]}, 1),
        ({"skill": "python-maths", "script": "fib.py"}, 2),
        ({"skill": "python-math"}, 2),
    ):
        here, far = (run(*line, json.dumps(arguments), "--json") for run in (program.run, there.run))
        assert (far.returncode, here.returncode) == (code, code), far.stdout
        assert shape(told(far)) == shape(told(here))
    assert there.run(*line, "{}", "--toolset", "none", "--json").returncode == 2
    good = '{"skill": "python-math", "script": "fib.py", "args": ["10"]}'
    assert program.run(*line, good).stdout == there.run(*line, good).stdout


def test_calls_of_one_session_share_their_files(there: There) -> None:
    line = ("call", "workspace_exec", "--toolset", "workspace", "--session", "mine", "--args")

    def done(command: str) -> dict[str, Any]:
        called = there.run(*line, json.dumps({"command": command}), "--json")
        assert called.returncode == 0, called.stdout + called.stderr
        return told(called)

    done("echo kept > $WORK_DIR/x")
    assert done("cat $WORK_DIR/x")["content"]["output"] == "kept\n"


class TestChat:
    @pytest.fixture
    def model(self, model_server: ModelServer) -> ModelServer:
        model_server.reset()
        return model_server

    @pytest.fixture
    def there(self, program: Program, model: ModelServer) -> Iterator[There]:
        environ = {
            "SANDBOX_SKILLS_MODEL__BASE_URL": model.base_url,
            "SANDBOX_SKILLS_MODEL__NAME": "scripted/model",
        }
        with served(program, **environ) as server:
            yield There(program, server)

    def test_the_model_works_there_and_its_answer_is_here(self, there: There, model: ModelServer) -> None:
        use = call("use_skill", {"skill": "python-math", "script": "fib.py", "args": ["5"]})
        model.script(Say([use]), Say([text("Done.")]))
        done = there.run("chat", "five numbers")
        assert done.returncode == 0, done.stderr
        assert done.stdout == "Done.\n"
        assert "┌ use_skill" in done.stderr
        assert "2 turns, 200 tokens in, 40 out" in done.stderr

    def test_json_has_the_events_of_this_machine(
        self, there: There, program: Program, model: ModelServer
    ) -> None:
        environ = {
            "SANDBOX_SKILLS_MODEL__BASE_URL": model.base_url,
            "SANDBOX_SKILLS_MODEL__NAME": "scripted/model",
        }
        kinds = []
        for run in (there.run, program.run):
            use = call("use_skill", {"skill": "python-math", "script": "fib.py", "args": ["5"]})
            model.script(Say([use]), Say([text("Done.")], pieces=1))
            done = run("chat", "--json", "five numbers", **environ)
            assert done.returncode == 0, done.stderr
            rows = [json.loads(line) for line in done.stdout.splitlines()]
            # Pieces of text and output are joined otherwise on a way over a network.
            kinds.append({(row["event"], *sorted(row)) for row in rows if row["event"] != "tool_output"})
        assert kinds[0] == kinds[1]

    def test_what_goes_wrong_there_is_told_here(self, there: There, model: ModelServer) -> None:
        model.script(refusal(401, {"error": {"message": "no such key"}}))
        done = there.run("chat", "hello", "--json")
        assert done.returncode == 4, done.stdout
        assert there.run("chat", "hello", "--state", "x").returncode == 2

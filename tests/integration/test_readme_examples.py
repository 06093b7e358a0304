"""The examples of the README do what it says, run in a directory like a checkout."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from sandbox_skills.engines.image import image_tag
from sandbox_skills.engines.image.base import mirrors_of
from tests.integration.scripted_api import ScriptedApi
from tests.model_server import Say, call, text
from tests.serve_process import served

if TYPE_CHECKING:
    from collections.abc import Iterator

    import docker

    from tests.conftest import Program
    from tests.model_server import ModelServer

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
OWN_IMAGE = "sandbox-skills-test:readme"
EXAMPLES = {
    name: (language, text)
    for name, language, text in re.findall(
        r"<!-- example: ([\w-]+) -->\n```(\w+)\n(.*?)```", README, re.DOTALL
    )
}


@pytest.fixture
def checkout(program: Program) -> Path:
    shutil.copytree(ROOT / "skills", program.cwd / "skills")
    shutil.copy(ROOT / "README.md", program.cwd)
    return program.cwd


def run(argv: list[str], program: Program, **environ: str) -> str:
    """Returns what an example prints; it must succeed, and complain of nothing."""
    path = f"{Path(program.path).parent}:/usr/bin:/bin"
    done = subprocess.run(
        argv,
        cwd=program.cwd,
        env=program.environ(PATH=path, SKILLS_ROOT="", **environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(300)  # a server that starts, and a sandbox
def test_every_request_of_the_servers_example_is_answered(program: Program) -> None:
    with served(program) as server:
        for line in EXAMPLES["serve"][1].splitlines():
            answer = json.loads(run(["bash", "-c", line], program, URL=server.url, KEY=server.key))
            assert answer.get("state") == "finished" or "items" in answer, answer


@pytest.mark.slow
@pytest.mark.timeout(120)  # several commands, each a process of its own
@pytest.mark.parametrize("name", [name for name, (language, _) in EXAMPLES.items() if language == "console"])
def test_every_line_of_a_console_example_works(name: str, program: Program, checkout: Path) -> None:
    lines = re.findall(r"^\$ (.+)$", EXAMPLES[name][1], re.MULTILINE)
    assert lines
    for line in lines:
        before = saved(checkout)
        run(["bash", "-c", line], program)
        assert (saved(checkout) > before) == ("--out-dir results" in line), line


def saved(checkout: Path) -> set[Path]:
    return {path for path in (checkout / "results").rglob("*") if path.is_file()}


def build(daemon: docker.APIClient, folder: Path, recipe: str) -> str:
    """Builds a recipe of the README as it says, and returns the name of the image."""
    (folder / "Dockerfile").write_text(recipe, encoding="utf-8")
    untyped: Any = daemon
    told = [
        str(event.get("stream") or event.get("error", ""))
        for event in untyped.build(
            path=str(folder),
            tag=OWN_IMAGE,
            buildargs={"RUNNER": image_tag("slim")},
            network_mode="host",
            rm=True,
            forcerm=True,
            decode=True,
        )
    ]
    assert untyped.images(name=OWN_IMAGE), "".join(told)
    return OWN_IMAGE


@pytest.fixture
def own_image(daemon: docker.APIClient) -> Iterator[str]:
    yield OWN_IMAGE
    for row in daemon.images(name=OWN_IMAGE):
        daemon.remove_image(row["Id"], force=True)


def test_the_recipe_for_files_makes_an_image_that_serves(
    program: Program, daemon: docker.APIClient, own_image: str, tmp_path: Path
) -> None:
    (tmp_path / "context/site").mkdir(parents=True)
    (tmp_path / "context/site/added_library.py").write_text("WORD = 'here'\n", encoding="utf-8")
    name = build(daemon, tmp_path / "context", EXAMPLES["image-files"][1])
    own = {"SANDBOX_SKILLS_IMAGE__NAME": name}
    done = program.run(
        "run", "python-math", "--", "python3", "-c", "import added_library; print(added_library.WORD)", **own
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "here\n", "")
    assert f"{name}, your own (image.name)" in program.run("doctor", **own).stdout
    assert program.run("image", "status", **own).stdout.startswith(
        f"{name}, your own (image.name): present, "
    )


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_recipe_for_packages_makes_an_image_that_serves_and_names_no_mirror(
    program: Program, daemon: docker.APIClient, own_image: str, tmp_path: Path
) -> None:
    context = tmp_path / "context"
    context.mkdir()
    asked = ["apt-get", "indextargets", "--format", "$(LABEL)\t$(REPO_URI)", "Created-By: Packages"]
    targets = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    lines = mirrors_of(targets)
    (context / "sources.list").write_text("\n".join(lines) + "\n", encoding="utf-8")
    name = build(daemon, context, EXAMPLES["image-packages"][1])
    search = (
        f"hello; grep -rlF {urlsplit(lines[0].split()[1]).hostname} /etc/apt /var/cache /var/lib/apt /var/log"
    )
    done = program.run("run", "python-math", "--command", search, SANDBOX_SKILLS_IMAGE__NAME=name)
    assert done.stdout == "Hello, world!\n", "nothing names the mirror"


ELSEWHERE = {"client": "test_client_runs has a server for it"}

RUNS = [
    name
    for name, (language, _) in EXAMPLES.items()
    if language == "python" and "tools-" not in name and name not in ELSEWHERE
]


@pytest.mark.parametrize("name", RUNS)
def test_every_python_example_works(name: str, program: Program, checkout: Path) -> None:
    printed = run([sys.executable, "-W", "error", "-c", EXAMPLES[name][1]], program)
    assert printed == "Exited(code=0) ['out/fib.txt']\n"


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_the_call_and_the_chat_of_the_readme_work_where_its_skills_are(
    program: Program, checkout: Path, model_server: ModelServer
) -> None:
    (call_line,) = re.findall(r"`(sandbox-skills call [^`]+)`", README)
    assert json.loads(run(["bash", "-c", call_line], program))["stdout"] == "0\n1\n1\n2\n3\n"
    (chat_line,) = re.findall(r"^\$ (sandbox-skills chat .+)$", README, re.MULTILINE)
    model_server.reset()
    model_server.script(Say([call("use_skill", SEND[1][1], "list")]), Say([text("They are three.")]))
    environ = {"SANDBOX_SKILLS_MODEL__BASE_URL": model_server.base_url, "OPENROUTER_API_KEY": "key-1"}
    assert run(["bash", "-c", chat_line], program, **environ) == "They are three.\n"
    (answer,) = [one["output"] for one in model_server.bodies[1]["input"] if "output" in one]
    assert "1002\\t#dev" in answer


@pytest.mark.slow
@pytest.mark.timeout(90)  # importing the library alone takes seconds on a busy machine
def test_the_example_of_the_openai_sdk_works(program: Program, checkout: Path) -> None:
    turns = [
        *[responses_turn(name, arguments) for name, arguments in SEND],
        {**RESPONSE, "output": [said("Done.")]},
    ]
    with ScriptedApi(turns) as api:
        code = EXAMPLES["tools-openrouter"][1].replace("https://openrouter.ai/api/v1", api.url)
        printed = run([sys.executable, "-c", code], program, OPENROUTER_API_KEY="key-1")
    assert printed == "Done.\n"
    assert {request.path for request in api.requests} == {"/responses"}
    assert api.requests[0].body["tools"][1]["name"] == "use_skill"
    outputs = [item["output"] for item in api.requests[-1].body["input"] if "output" in item]
    check_flow(outputs)


@pytest.mark.slow
@pytest.mark.timeout(90)  # importing the library alone takes seconds on a busy machine
def test_the_example_of_the_anthropic_sdk_works(program: Program, checkout: Path) -> None:
    turns = [
        *[{**MESSAGE, "content": [use]} for use in uses()],
        {**MESSAGE, "stop_reason": "end_turn", "content": [{"type": "text", "text": "Done."}]},
    ]
    with ScriptedApi(turns) as api:
        environ = {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": "key-1"}
        printed = run([sys.executable, "-c", EXAMPLES["tools-anthropic"][1]], program, **environ)
    assert printed == "Done.\n"
    assert "### team-chat" in api.requests[0].body["system"]
    messages = api.requests[-1].body["messages"]
    check_flow([message["content"][0]["content"] for message in messages[2::2]])


@pytest.mark.slow
@pytest.mark.timeout(90)  # importing the library alone takes seconds on a busy machine
def test_the_example_of_openrouter_s_sdk_works(program: Program, checkout: Path) -> None:
    turns = [
        *[chat_turn({"content": None, "tool_calls": [call]}) for call in chat_calls()],
        chat_turn({"content": "Done."}),
    ]
    with ScriptedApi(turns) as api:
        code = EXAMPLES["tools-openrouter-sdk"][1].replace("(api_key=", f"(server_url={api.url!r}, api_key=")
        printed = run([sys.executable, "-c", code], program, OPENROUTER_API_KEY="key-1")
    assert printed == "Done.\n"
    assert {request.path for request in api.requests} == {"/chat/completions"}
    assert api.requests[0].body["tools"][1]["function"]["name"] == "use_skill"
    messages = api.requests[-1].body["messages"]
    assert [message["tool_calls"][0] for message in messages[2::2]] == chat_calls()
    check_flow([message["content"] for message in messages[3::2]])


def test_the_example_with_tools_of_ones_own_works(program: Program, checkout: Path) -> None:
    printed = run([sys.executable, "-W", "error", "-c", EXAMPLES["tools-own"][1]], program)
    assert printed == "3\n{'success': True, 'stdout': '0\\n1\\n1\\n2\\n3\\n', 'stderr': '', 'exitCode': 0}\n"


SEND: list[tuple[str, dict[str, object]]] = [
    ("load_skill", {"skill": "team-chat"}),
    ("use_skill", {"skill": "team-chat", "script": "team-chat.mjs", "args": ["channels", "list"]}),
    (
        "use_skill",
        {"skill": "team-chat", "script": "team-chat.mjs", "args": ["send", "Hello World", "--channel=1002"]},
    ),
]


def check_flow(outputs: list[str]) -> None:
    """Checks what the model was told of its three calls."""
    assert outputs[0].startswith("# Team chat\n")
    assert "1002\\t#dev" in outputs[1]
    assert json.loads(outputs[2]) == {
        "success": True,
        "stdout": "sent to #dev\n",
        "stderr": "",
        "exitCode": 0,
    }


def responses_turn(name: str, arguments: dict[str, object]) -> dict[str, object]:
    call = {
        "type": "function_call",
        "id": f"fc_{name}",
        "call_id": f"call_{name}_{len(str(arguments))}",
        "name": name,
        "arguments": json.dumps(arguments),
        "status": "completed",
    }
    return {**RESPONSE, "output": [call]}


def said(text: str) -> dict[str, object]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


def uses() -> list[dict[str, object]]:
    return [
        {"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": arguments}
        for n, (name, arguments) in enumerate(SEND)
    ]


def chat_calls() -> list[dict[str, object]]:
    return [
        {
            "id": f"call_{n}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for n, (name, arguments) in enumerate(SEND)
    ]


def chat_turn(message: dict[str, object]) -> dict[str, object]:
    reason = "tool_calls" if "tool_calls" in message else "stop"
    choice = {"index": 0, "finish_reason": reason, "message": {"role": "assistant", **message}}
    return {**CHAT, "choices": [choice]}


CHAT: dict[str, object] = {
    "id": "gen-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "system_fingerprint": None,
}
RESPONSE: dict[str, object] = {
    "id": "gen-1",
    "object": "response",
    "created_at": 1,
    "model": "m",
    "status": "completed",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}
MESSAGE: dict[str, object] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


def test_the_demo_prints_what_the_readme_shows(program: Program) -> None:
    block = re.search(r"```console\n\$ make demo\n(.*?)```", README, re.DOTALL)
    assert block
    shown, printed = (
        re.sub(r"\d+\.\d\d s", "T s", text) for text in (block[1], run([program.path, "demo"], program))
    )
    assert printed == shown

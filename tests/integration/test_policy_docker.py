"""Policy and secrets with real programs: what is granted arrives, is shown nowhere, and lists are not got round."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Program

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(120)]

SECRET = "sk-live-0123456789/abc+d"
SESSION = ("--session", "s")


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    folder = tmp_path / "skills" / "forms"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        "---\nname: forms\ndescription: Writes a key in many forms.\n---\nRun it.\n"
    )
    (folder / "scripts" / "forms.py").write_text(
        "import base64, json, os, sys, time, urllib.parse\n"
        "key = os.environ['KEY']\n"
        "for one in key:\n"
        "    print(one, end='', flush=True)\n"
        "    time.sleep(0.005)\n"
        "print()\n"
        "print(base64.b64encode(('user:' + key).encode()).decode(), key.encode().hex())\n"
        "print(urllib.parse.quote(key, safe=''), json.dumps(key), file=sys.stderr)\n"
        "open('/workspace/out/key.txt', 'w').write(f'key {key}')\n"
    )
    return tmp_path / "skills"


def call(program: Program, skills: Path, policy: str, *arguments: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Makes one call of the workspace toolset and returns what `--json` tells."""
    settings = skills.parent / "settings.yaml"
    settings.write_text(f"policy: {policy}\n")
    options = ("--skills", str(skills), "--config", str(settings), "--toolset", "workspace", "--json")
    done = program.run("call", *options, *arguments, **more)
    told: dict[str, Any] = json.loads(done.stdout)
    assert SECRET not in done.stdout + done.stderr
    return told


def test_a_granted_key_arrives_and_is_shown_in_no_form(program: Program, skills: Path) -> None:
    policy = "{skills: {forms: {secrets: [KEY]}}}"
    load = json.dumps({"skill": "forms"})
    call(program, skills, policy, "skill_load", "--args", load, *SESSION, KEY=SECRET)
    run = {"skill": "forms", "command": "python3 scripts/forms.py", "output_files": ["out/*"]}
    told = call(program, skills, policy, "skill_run", "--args", json.dumps(run), *SESSION, KEY=SECRET)
    shown = json.dumps(told)
    for form in (
        SECRET[:12],
        SECRET.encode().hex(),
        base64.b64encode(f"user:{SECRET}".encode()).decode()[8:-4],
    ):
        assert form not in shown
    content = told["content"]
    assert content["exit_code"] == 0
    assert content["stdout"].startswith("[redacted]\n")
    assert content["stderr"] == '[redacted] "[redacted]"\n'
    assert [one["content"] for one in content["output_files"]] == ["key [redacted]"]
    records = (program.data_dir / "audit" / "runs.jsonl").read_text()
    assert '"KEY":"[redacted]"' in records
    assert SECRET not in records


def test_a_secret_of_the_command_line_is_shown_nowhere(program: Program) -> None:
    done = program.run(
        "run", "python-math", "--env", "KEY", "--command", "printenv KEY | tee /dev/stderr", KEY=SECRET
    )
    assert (done.stdout, done.stderr.splitlines()[0]) == ("[redacted]\n", "[redacted]")


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_list_of_commands_is_not_got_round(program: Program, skills: Path) -> None:
    policy = "{default: {commands: {allow: [echo, wc, cp, chmod, mkdir]}}}"

    def shell(command: str, **more: object) -> dict[str, Any]:
        arguments = json.dumps({"command": command, **more})
        return call(program, skills, policy, "workspace_exec", "--args", arguments, *SESSION)

    assert shell("echo 'a  b' | wc -w && echo \"$ is $\"")["code"] == "policy_denied"
    assert shell("echo 'a  b' | wc -w && echo '$ is $'")["content"]["output"] == "2\n$ is $\n"
    # A program of an allowed name in the workspace, where PATH looks first in other runs.
    shell("mkdir -p work/.venv/bin")
    assert shell("cp /usr/bin/id work/.venv/bin/wc && chmod 755 work/.venv/bin/wc")["status"] == "ok"
    assert shell("echo x | wc -w")["content"]["output"] == "1\n"
    assert shell("echo x | wc -w", env={"PATH": "/workspace/work/.venv/bin"})["code"] == "policy_denied"
    for denied in ("work/.venv/bin/wc", "id", "echo $(id)", "echo x > y", "env id", "wc\nid", "A=1 echo x"):
        assert shell(denied)["code"] == "policy_denied"


def test_a_later_call_goes_on_with_the_files_of_a_session(program: Program, skills: Path) -> None:
    def shell(command: str, *session: str) -> str:
        arguments = json.dumps({"command": command})
        output: str = call(program, skills, "{}", "workspace_exec", "--args", arguments, *session)["content"][
            "output"
        ]
        return output

    shell("echo kept > work/x; mkdir -p out/empty", *SESSION)
    assert shell("cat work/x; ls out", *SESSION) == "kept\nempty\n"
    assert shell("cat work/x; ls out", *SESSION) == "kept\nempty\n"
    assert "No such file" in shell("cat work/x", "--session", "other")

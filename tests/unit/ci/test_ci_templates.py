"""The templates for CI systems: they are what these systems read, and their commands are ours."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import yaml

from sandbox_skills.cli.commands import app
from sandbox_skills.cli.late_commands import program
from sandbox_skills.cli.options import GlobalOptions

ROOT = Path(__file__).parents[3]


def read(name: str) -> Any:  # noqa: ANN401  # whatever the file has
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def idle(command: Any) -> Any:  # noqa: ANN401  # typer's own classes are private
    for below in getattr(command, "commands", {}).values():
        idle(below)
    command.callback = lambda **_: None if hasattr(command, "commands") else 0
    return command


def understood(line: str) -> None:
    """Fails for a command line that is none of ours."""
    arguments = shlex.split(re.sub(r".*?sandbox-skills['\"]? ", "", line, count=1))
    idle(program(app)).main(arguments, standalone_mode=False, obj=GlobalOptions())


def test_the_action_is_a_composite_one_whose_inputs_are_no_commands() -> None:
    action = read("config/ci/github/action.yml")
    assert action["runs"]["using"] == "composite"
    for step in action["runs"]["steps"]:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]
        done = subprocess.run(["bash", "-n"], input=step["run"], text=True, check=False, capture_output=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_action_gives_its_inputs_as_options(tmp_path: Path) -> None:
    program = tmp_path / "sandbox-skills/bin/sandbox-skills"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$RUNNER_TEMP/asked"\n', encoding="utf-8")
    program.chmod(0o755)
    step = read("config/ci/github/action.yml")["runs"]["steps"][1]
    given = {
        "PATHS": "skills\nmore/skills others",
        "CHANGED_SINCE": "",
        "SHARD": "2/5; id",
        "RESULTS": "out here",
    }
    environ = {"PATH": "/usr/bin:/bin", "RUNNER_TEMP": str(tmp_path), **given}
    subprocess.run(["bash", "-e", "-c", step["run"]], env=environ, cwd=tmp_path, check=True)
    asked = (tmp_path / "asked").read_text(encoding="utf-8").splitlines()
    assert asked[:3] == ["test", "--shard", "2/5; id"]
    assert asked[-4:] == ["--", "skills", "more/skills", "others"]
    assert asked[3:-4:2] == ["--junit", "--sarif", "--artifacts"]
    assert set(given) == set(step["env"])


def test_the_job_for_gitlab_runs_commands_of_ours() -> None:
    job = read("config/ci/gitlab.yml")["test-skills"]
    for line in job["script"]:
        if "bin/sandbox-skills " in line:
            understood(line)
    assert job["artifacts"]["reports"]["junit"] == "results.xml"
    assert "--junit results.xml" in job["script"][-1]


def test_the_hooks_run_commands_of_ours() -> None:
    validate, test = read(".pre-commit-hooks.yaml")
    understood(f"{validate['entry']} skills/weather/SKILL.md")
    understood(test["entry"])
    assert test["pass_filenames"] is False
    wanted = re.search(
        r"^test = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert wanted
    assert test["additional_dependencies"] == re.findall(r'"([^"]+)"', wanted[1])

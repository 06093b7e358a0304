"""test, from the command line, over the engine that runs nothing real: cases, reports, exit codes."""

from __future__ import annotations

import json
import re
import textwrap
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from sandbox_skills.engines.fake import FakeSandbox
from sandbox_skills.errors import SandboxLostError

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.spec import Command, Outcome
    from tests.unit.cli.conftest import Cli, Done, MakeSkill

FAKE = ("--engine", "fake", "test")
CASES = ("-k", "::case")


def write(skill: Path, text: str, name: str = "basic.yaml") -> None:
    (skill / "tests").mkdir(exist_ok=True)
    (skill / "tests" / name).write_text(textwrap.dedent(text), encoding="utf-8")


@pytest.fixture
def skill(make_skill: MakeSkill) -> Path:
    """A skill with a case that passes; the fake boxes know `printenv`, `sleep` and a little more."""
    folder = make_skill("sample")
    write(
        folder,
        "cases:\n- {name: case one, run: x, expect: {exit: 127, stderr: {contains: command not found}}}\n",
    )
    return folder


def rows(done: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.out.splitlines()]


def statuses(done: Done) -> dict[str, str]:
    return {row["name"]: row["status"] for row in rows(done) if "name" in row}


def test_every_result_has_a_line_and_all_that_pass_is_0(cli: Cli, skill: Path) -> None:
    done = cli(*FAKE, "skills")
    assert done.code == 0
    assert all(line.startswith("passed   sample::") for line in done.out.splitlines())
    assert "sample::case one" in done.out
    assert done.told.startswith("1 skill: 4 passed, in ")


def test_a_failure_is_1_and_is_told_with_its_place_and_difference(cli: Cli, skill: Path) -> None:
    write(skill, "cases:\n\n- {name: case one, run: x, expect: {exit: 127, stderr: {equals: a}}}\n")
    done = cli(*FAKE, "skills", *CASES)
    assert done.code == 1
    lines = done.out.splitlines()
    assert re.fullmatch(
        r"failed   sample::case one  [0-9.]+ s: stderr is not the text that is expected", lines[0]
    )
    assert f"  at {skill}/tests/basic.yaml:3" in lines
    assert "    -a" in lines
    assert "    +bash: command not found" in lines


def test_json_is_one_result_a_line_and_then_the_sum(cli: Cli, skill: Path) -> None:
    done = cli(*FAKE, "skills", "--json")
    *results, last = rows(done)
    assert done.err == ""
    assert [row["status"] for row in results] == ["passed"] * 4
    assert results[-1]["ending"] == {"kind": "exited", "code": 127}
    assert last["summary"]["passed"] == 4
    assert last["summary"]["skills"] == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("cases: [", "tests/basic.yaml:2:1: "),
        (
            "cases:\n- {name: a, run: x, expcet: {}}",
            "tests/basic.yaml:2:29: cases.0.expcet: is no key that is known",
        ),
        (
            "cases:\n- {name: a, script: scripts/no.py}",
            "tests/basic.yaml:2: a: script: the skill has no script",
        ),
        ("cases:\n- {name: a, script: ../x.py}", "tests/basic.yaml:2: a: path '../x.py' leaves its root"),
        ("cases:\n- {name: a, tool: no}", "tests/basic.yaml:2: a: tool: the skill declares no tool 'no'"),
        ("cases:\n- {name: a, run: x, limits: {wall_seconds: 901}}", "no run may take more than 900 seconds"),
        (
            "cases:\n- {name: a, run: x, limits: {stdout_bytes: 99999999}}",
            "no case may have more than the 1,048,576",
        ),
        ("cases:\n- {name: a, run: x, expect: {json: {paths: {'$[': 1}}}}", "'$[' is no JSONPath"),
    ],
)
def test_a_bad_file_of_cases_is_2_and_nothing_is_run(cli: Cli, skill: Path, text: str, told: str) -> None:
    write(skill, text)
    done = cli(*FAKE, "skills", "--junit", "out.xml")
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert not list(skill.parent.parent.glob("out.xml"))


def test_a_summary_of_the_job_that_cannot_be_written_is_2_before_anything_is_run(
    cli: Cli, skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(skill / "no/where.md"))
    done = cli(*FAKE, "skills")
    assert (done.code, done.out) == (2, "")
    assert "GITHUB_STEP_SUMMARY" in done.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["nowhere"], "there is no skill"),
        (["skills", "--shard", "3/2"], "as in 2/5"),
        (["skills", "--junit", "no/where.xml"], "a file cannot be written there"),
        (["skills", "--artifacts", "skills/sample/SKILL.md"], "is no folder"),
        (["skills", "--changed-since", "HEAD"], "git says"),
        (["skills", "-j", "0"], "-j"),
        (["skills", "-k", "case", "-k", "caes"], "-k 'caes' is in the name of no case and no check"),
    ],
)
def test_bad_options_are_2_before_anything_is_run(
    cli: Cli, skill: Path, options: list[str], told: str
) -> None:
    done = cli(*FAKE, *options)
    assert (done.code, done.out) == (2, "")
    assert told in done.err


def test_without_a_path_it_is_the_folders_of_the_settings_or_the_usual_ones(cli: Cli, skill: Path) -> None:
    assert len(statuses(cli(*FAKE, "--json"))) == 4
    assert len(statuses(cli(*FAKE, "--json", "--skills", "skills"))) == 4
    skill.parent.rename(skill.parent.with_name("others"))
    assert "no skills were named" in cli(*FAKE).err


def test_a_reason_skips_a_case_and_a_check(cli: Cli, skill: Path) -> None:
    write(
        skill,
        """
        smoke: {off: {valid: it is odd on purpose}}
        cases:
          - {name: case one, run: x, skip: not written yet}
          - {name: case two, run: x, engine: {needs: [seccomp]}}
        """,
    )
    done = cli(*FAKE, "skills", "--json")
    reasons = {row["name"]: row["reason"] for row in rows(done) if row.get("status") == "skipped"}
    assert done.code == 0
    assert reasons == {
        "smoke: valid": "it is odd on purpose",
        "case one": "not written yet",
        "case two": "the engine does not guarantee seccomp",
    }


def test_reports_are_written_where_they_are_asked_for(
    cli: Cli, skill: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (skill / "SKILL.md").write_text(
        "---\nname: sample\ndescription: d\nlicense: [a]\n---\nBody\n", encoding="utf-8"
    )
    write(skill, "cases:\n- {name: case one, run: x}\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(home / "job.md"))
    done = cli(*FAKE, "skills", "--junit", "a.xml", "--sarif", "a.sarif", "--artifacts", "failed")
    assert done.code == 1
    assert ET.parse(home / "a.xml").getroot().get("failures") == "1"
    (run,) = json.loads((home / "a.sarif").read_text(encoding="utf-8"))["runs"]
    assert [one["ruleId"] for one in run["results"]] == ["license-not-text"]
    assert "sample::case one" in (home / "job.md").read_text(encoding="utf-8")
    assert (home / "failed/sample-case-one/stderr").read_text(encoding="utf-8") == "bash: command not found\n"
    cli(*FAKE, "skills", "--summary", "own.md")
    assert (home / "own.md").is_file()
    assert (home / "job.md").read_text(encoding="utf-8").count("## Skill tests") == 2


class TestSnapshots:
    CASE = "cases:\n- {name: case one, run: x, expect: {exit: 127, stderr: {snapshot: said.txt}}}\n"

    def test_one_that_is_missing_fails_and_update_keeps_it(self, cli: Cli, skill: Path) -> None:
        write(skill, self.CASE)
        first = cli(*FAKE, "skills", *CASES)
        assert first.code == 1
        assert "--update keeps what stderr is now" in first.out
        kept = cli(*FAKE, "skills", *CASES, "--update")
        assert (kept.code, "(kept: said.txt)" in kept.out) == (0, True)
        file = skill / "tests/snapshots/said.txt"
        assert file.read_text(encoding="utf-8") == "bash: command not found\n"
        again = cli(*FAKE, "skills", *CASES, "--update")
        assert (again.code, "kept" in again.out) == (0, False)
        file.write_text("old\n", encoding="utf-8")
        assert cli(*FAKE, "skills", *CASES).code == 1

    def test_a_case_that_fails_otherwise_keeps_nothing(self, cli: Cli, skill: Path) -> None:
        write(skill, self.CASE.replace("127", "0"))
        assert cli(*FAKE, "skills", *CASES, "--update").code == 1
        assert not (skill / "tests/snapshots").exists()

    def test_nothing_is_written_through_a_link_of_the_skill(self, cli: Cli, skill: Path, home: Path) -> None:
        write(skill, self.CASE)
        (home / "elsewhere").mkdir()
        (skill / "tests/snapshots").symlink_to("../scripts")
        done = cli(*FAKE, "skills", *CASES, "--update")
        assert done.code == 1
        assert "cannot be kept" in done.out
        assert list((skill / "scripts").iterdir()) == []


def test_a_sandbox_that_fails_is_125_and_the_rest_is_run(
    cli: Cli, skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(skill, "cases:\n- {name: case one, run: lose}\n- {name: case two, run: x, expect: {exit: 127}}\n")
    run = FakeSandbox.run

    async def losing(self: FakeSandbox, command: Command, **more: Any) -> Outcome:  # noqa: ANN401  # as it is
        if "lose" in command.argv:
            raise SandboxLostError("the box went away")
        return await run(self, command, **more)

    monkeypatch.setattr(FakeSandbox, "run", losing)
    done = cli(*FAKE, "skills", *CASES, "--json")
    assert done.code == 125
    assert statuses(done) == {"case one": "error", "case two": "passed"}
    assert rows(done)[0]["reason"] == "the box went away (sandbox_lost)"


@pytest.mark.slow
@pytest.mark.timeout(120)  # it takes 5 s of a processor's time, which others share
def test_expressions_that_never_end_are_ended(cli: Cli, skill: Path) -> None:
    write(
        skill,
        """
        cases:
          - name: case one
            run: x
            expect: {exit: 127, stderr: {regex: '^(([^A]+)+)+A'}}
          - {name: case two, run: x, expect: {exit: 127, stderr: {regex: not f.und}}}
        """,
    )
    done = cli(*FAKE, "skills", *CASES, "--json")
    assert statuses(done) == {"case one": "failed", "case two": "passed"}
    assert "comparing took more than 5 s" in rows(done)[0]["failures"][0]["message"]


def test_inspect_over_an_engine_that_runs_nothing_says_so(cli: Cli, skill: Path) -> None:
    done = cli("--engine", "fake", "inspect", str(skill), "--", "true")
    assert done.code == 0
    assert done.err.startswith("engine fake: nothing is run\n")


def test_the_schema_is_printed_without_anything_being_run(cli: Cli) -> None:
    done = cli("test", "--schema")
    assert (done.code, done.json["title"]) == (0, "Suite")


def test_nothing_that_changed_is_nothing_to_run(cli: Cli, skill: Path, home: Path) -> None:
    import subprocess

    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "all")):
        subprocess.run(["git", "-C", str(home), *who, *words], check=True, capture_output=True)
    done = cli(*FAKE, "skills", "--changed-since", "HEAD")
    assert (done.code, done.out) == (0, "")
    assert done.told.startswith("0 skills: nothing to run")

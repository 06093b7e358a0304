"""`run` over the fake engine: what is asked for, what is refused before anything starts, what is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.pool import PooledEngine

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.engines.base import Engine
    from sandbox_skills.spec import SandboxSpec
    from tests.unit.cli.conftest import Cli

pytestmark = pytest.mark.usefixtures("skill")

FAKE = ("--engine", "fake", "run", "sample")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--", ""], "the command is empty"),
        (["--command", "  "], "the command is empty"),
        ([], "no command was given"),
        (["--command", "true", "--", "true"], "not both"),
        (["--command", "true", "--script", "scripts/one.py"], "exclude each other"),
        (["--script", "scripts/three.py"], "scripts/one.py, scripts/two.py"),
        (["--script", "../one.py"], "leaves"),
        (["--output", "../x", "--", "true"], "'..'"),
        (["--output", "out/[", "--", "true"], "'['"),
        (["--output", "/etc/passwd", "--", "true"], "'/etc/passwd'"),
        (["--input", "nowhere", "--", "true"], "'nowhere'"),
        (["--input", "skills/sample/SKILL.md:../x", "--", "true"], "'../x'"),
        (["--input", "/dev/null", "--", "true"], "neither a file nor a folder"),
        (["--cwd", "../..", "--", "true"], "leaves"),
        (["--cwd", "/etc", "--", "true"], "leaves"),
        (["--timeout", "901", "--", "true"], "more than 900 seconds"),
        (["--timeout", "0", "--", "true"], "--timeout 0 is no time to run in"),
        (["--env", "NOT_SET_ANYWHERE", "--", "true"], "NOT_SET_ANYWHERE"),
        (["--env", "=x", "--", "true"], "name that is empty"),
        (["--env-file", "nowhere", "--", "true"], "nowhere: cannot be read"),
        (["--output", "out/*", "--out-dir", "skills/sample/SKILL.md", "--", "true"], "not a directory"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(
    cli: Cli, home: Path, options: list[str], told: str
) -> None:
    before = sorted(home.rglob("*"))
    done = cli(*FAKE, *options)
    assert (done.code, done.out) == (2, "")
    assert told in done.err
    assert "Traceback" not in done.err
    assert sorted(home.rglob("*")) == before


def test_an_env_file_that_is_none_is_told_with_the_line(cli: Cli, home: Path) -> None:
    (home / "bad.env").write_text("A=1\n-nonsense-\n", encoding="utf-8")
    done = cli(*FAKE, "--env-file", "bad.env", "--", "true")
    assert done.code == 2
    assert "bad.env:2: not KEY=VALUE" in done.err


def test_inputs_that_are_larger_than_the_workspace_are_refused(cli: Cli, home: Path) -> None:
    with (home / "large").open("wb") as file:
        file.truncate(257 * 1024 * 1024)
    done = cli(*FAKE, "--input", "large", "--json", "--", "true")
    assert (done.code, done.json["error"]["code"]) == (2, "input_invalid")
    assert "sandbox.workspace_bytes" in done.json["error"]["hint"]


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["true"], 0),
        (["false"], 1),
        (["sh", "-c", "exit 3"], 3),
        (["sh", "-c", "exit 255"], 255),
        (["no-such-program"], 127),
        (["sh", "-c", "kill -9 $$"], 137),
        (["sh", "-c", "kill -15 $$"], 143),
    ],
)
def test_the_exit_code_is_the_programs_in_text_and_json(cli: Cli, argv: list[str], code: int) -> None:
    assert cli(*FAKE, "--", *argv).code == code
    assert cli(*FAKE, "--json", "--", *argv).code == code


def test_a_run_that_takes_too_long_is_stopped_and_told(cli: Cli) -> None:
    done = cli(*FAKE, "--timeout", "0.1", "--", "sleep", "5")
    assert (done.code, done.told) == (124, "stopped: wall time\n")
    assert cli(*FAKE, "--timeout", "0.1", "--json", "--", "sleep", "5").json["ending"] == {
        "kind": "stopped",
        "reason": "wall_time",
    }


def test_a_run_that_prints_too_much_is_stopped_and_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOX_SKILLS_RUN__OUTPUT_BYTES", "100KiB")
    done = cli(*FAKE, "--", "yes")
    assert (done.code, done.told) == (141, "stopped: output\n")
    assert len(done.out) >= 100 * 1024


def test_a_signal_is_told(cli: Cli) -> None:
    assert cli(*FAKE, "--", "sh", "-c", "kill -11 $$").told == "ended by signal 11\n"


def test_what_a_program_prints_is_all_there_is_on_stdout(cli: Cli) -> None:
    done = cli(*FAKE, "--", "echo", "-n", "--json", "\x1b[31m[bold]:smile:")
    assert (done.code, done.out, done.told) == (0, "-n --json \x1b[31m[bold]:smile:\n", "")


def test_an_option_of_the_program_is_not_ours(cli: Cli) -> None:
    assert cli(*FAKE, "echo", "--", "--help").out == "--help\n"


def test_variables_of_the_caller_reach_the_program_only_by_name(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "s3cret")
    cli("trust", "sample")
    assert cli(*FAKE, "--", "printenv", "SECRET").code == 1
    assert cli(*FAKE, "--env", "SECRET", "--", "printenv", "SECRET").out == "s3cret\n"
    assert cli(*FAKE, "--env", "SECRET", "--env", "SECRET=x=y", "--", "printenv", "SECRET").out == "x=y\n"


def test_values_that_stand_in_no_argument_list_stand_in_no_output_and_no_record_either(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIN", "of-the-caller")
    (home / "vars.env").write_text("OTHER=of-the-file\n", encoding="utf-8")
    cli("trust", "sample")
    given = ("--env", "PLAIN", "--env-file", "vars.env", "--env", "OPEN=on-the-line")
    assert cli(*FAKE, *given, "--", "printenv", "OTHER").out == "[redacted]\n"
    record = (home.parent / "data" / "audit" / "runs.jsonl").read_text(encoding="utf-8")
    assert "on-the-line" in record
    assert "of-the-" not in record


def test_a_skill_that_was_only_found_gets_no_variables_of_the_caller(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "s3cret")
    (home / "vars.env").write_text("A=b\n")
    for option in (("--env", "SECRET"), ("--env-file", "vars.env")):
        done = cli(*FAKE, *option, "--", "true")
        assert done.code == 2
        assert done.err.endswith(
            "hint: sandbox-skills trust sample, or give --skills skills to this command\n"
        )
    assert cli(*FAKE, "--env", "A=b", "--", "printenv", "A").out == "b\n"
    named = cli("--skills", "skills", *FAKE, "--env", "SECRET", "--", "printenv", "SECRET")
    assert named.out == "s3cret\n"


def test_inputs_are_where_they_are_asked_for(cli: Cli, home: Path) -> None:
    (home / "data").mkdir()
    (home / "data/a.csv").write_text("1,2\n", encoding="utf-8")
    place = ("--cwd", "/workspace")
    assert cli(*FAKE, *place, "--input", "data/a.csv", "--", "cat", "work/inputs/a.csv").out == "1,2\n"
    assert cli(*FAKE, *place, "--input", "data:work/d", "--", "cat", "work/d/a.csv").out == "1,2\n"


def test_outputs_are_saved_and_told(cli: Cli, home: Path) -> None:
    (home / "in.txt").write_text("content", encoding="utf-8")
    run = (*FAKE, "--input", "in.txt:out/in.txt", "--out-dir", "results", "--output", "out/*")
    done = cli(*run, "--", "true")
    assert done.code == 0
    assert done.told == f"saved {home}/results/out/in.txt (7 bytes)\n"
    assert (home / "results/out/in.txt").read_text(encoding="utf-8") == "content"
    assert cli(*run, "--json", "--", "true").json["files"][0]["saved"] == f"{home}/results/out/in.txt"


def test_a_directory_for_outputs_is_made_only_when_there_is_one(cli: Cli, home: Path) -> None:
    done = cli(*FAKE, "--output", "out/*", "--out-dir", "results", "--", "true")
    assert (done.code, done.told) == (0, "nothing matched 'out/*'\n")
    assert not (home / "results").exists()
    assert cli(*FAKE, "--output", "out", "--json", "--", "true").json["unmatched"] == ["out"]


def test_a_directory_for_outputs_alone_asks_for_all_of_out(cli: Cli, home: Path) -> None:
    (home / "in.txt").write_text("content", encoding="utf-8")
    done = cli(*FAKE, "--input", "in.txt:out/a/b.txt", "--out-dir", "results", "--", "true")
    assert (done.code, done.told) == (0, f"saved {home}/results/out/a/b.txt (7 bytes)\n")


def test_outputs_go_to_the_current_directory_by_default(cli: Cli, home: Path) -> None:
    (home / "in.txt").write_text("content", encoding="utf-8")
    assert cli(*FAKE, "--input", "in.txt:out/in.txt", "--output", "out/*", "--", "true").code == 0
    assert (home / "out/in.txt").read_text(encoding="utf-8") == "content"


def test_a_file_that_is_there_and_differs_stays_unless_forced(cli: Cli, home: Path) -> None:
    (home / "in.txt").write_text("new", encoding="utf-8")
    mine = home / "results/out/in.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("old", encoding="utf-8")
    run = (*FAKE, "--input", "in.txt:out/in.txt", "--out-dir", "results")
    done = cli(*run, "--", "false")
    assert (done.code, done.told) == (
        1,
        "left 1 file, there already with other content; --force overwrites: out/in.txt\n",
    )
    as_json = cli(*run, "--json", "--", "true").json
    assert (as_json["files"], as_json["skipped"]) == ([], {"out/in.txt": "exists"})
    assert mine.read_text(encoding="utf-8") == "old"
    assert cli(*run, "--force", "--", "true").told == f"saved {mine} (3 bytes)\n"
    assert mine.read_text(encoding="utf-8") == "new"
    assert cli(*run, "--", "true").told == f"saved {mine} (3 bytes)\n", "the same once more is no conflict"


def test_what_is_in_the_way_of_a_file_costs_neither_the_others_nor_the_programs_exit_code(
    cli: Cli, home: Path
) -> None:
    for name in ("a.txt", "b.txt"):
        (home / name).write_text("new", encoding="utf-8")
    (home / "results/out/a.txt").mkdir(parents=True)
    inputs = ("--input", "a.txt:out/a.txt", "--input", "b.txt:out/b.txt")
    done = cli(*FAKE, *inputs, "--out-dir", "results", "--", "false")
    assert done.code == 1
    assert done.told.splitlines() == [
        f"saved {home}/results/out/b.txt (3 bytes)",
        f"left 1 file, directory in the way: {home}/results/out/a.txt: out/a.txt",
    ]


def test_the_fake_engine_says_that_it_is_one(cli: Cli) -> None:
    assert cli(*FAKE, "--", "true").err == "engine fake: nothing is run\n"
    assert cli(*FAKE, "--json", "--", "true").err == ""


def test_a_target_that_ends_in_a_slash_keeps_the_name_of_an_input(cli: Cli, home: Path) -> None:
    (home / "a.csv").write_text("1,2\n", encoding="utf-8")
    for target, place in (
        ("inputs/b.csv", "work/inputs/b.csv"),
        ("inputs/", "work/inputs/a.csv"),
        ("x/", "x/a.csv"),
    ):
        run = (*FAKE, "--cwd", "/workspace", "--input", f"a.csv:{target}")
        assert cli(*run, "--", "cat", place).out == "1,2\n", target


def test_an_option_of_the_program_without_a_separator_is_told_how_to_write(cli: Cli) -> None:
    for options in (["--script", "scripts/one.py", "--flag"], ["python3", "-V"]):
        done = cli(*FAKE, *options)
        assert done.code == 2
        assert "hint: put -- before the program's own arguments" in done.err
    assert "put --" not in cli("list", "--flag").err


def test_no_command_starts_boxes_ahead(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[object] = []

    class Recorded(PooledEngine):
        def __init__(
            self, engine: Engine, spec: SandboxSpec, *, size: int, max_size: int, max_age_seconds: float
        ) -> None:
            sizes.append(size)
            super().__init__(engine, spec, size=size, max_size=max_size, max_age_seconds=max_age_seconds)

    monkeypatch.setenv("SANDBOX_SKILLS_POOL__SIZE", "4")
    monkeypatch.setattr("sandbox_skills.wiring.live.PooledEngine", Recorded)
    assert cli(*FAKE, "--", "true").code == 0
    assert cli("--engine", "fake", "gc").code == 0
    assert sizes == [0, 0]

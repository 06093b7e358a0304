"""The program on a terminal: a spinner while it waits, and nothing that a skill could do to the terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

    from tests.conftest import Program

FAKE = ("--engine", "fake", "run", "python-math")

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

HIDE_CURSOR = "\x1b[?25l"


def on_terminal(
    program: Program, *arguments: str, columns: int = 80, stdout: BinaryIO | None = None, **environ: str
) -> tuple[int, str]:
    """Returns the exit code and all that the terminal got; stdout may go to a file instead."""
    leader, follower = pty.openpty()
    process = program.start(
        *arguments,
        stdin=follower,
        stdout=stdout or follower,
        stderr=follower,
        environ={"TERM": "xterm", "COLUMNS": str(columns), **environ},
    )
    os.close(follower)
    shown = bytearray()
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        if select.select([leader], [], [], 0.1)[0]:
            try:
                shown += os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
    os.close(leader)
    return process.wait(timeout=5), shown.decode()


def test_a_terminal_shows_a_spinner_while_it_takes_long(program: Program) -> None:
    code, shown = on_terminal(program, *FAKE, "--", "sleep", "1.2")
    assert code == 0
    assert len(set(shown) & set(SPINNER)) > 1, "it turns"
    assert "running" in shown
    assert shown.count(HIDE_CURSOR) == 1
    assert shown.rindex("\x1b[?25h") > shown.rindex(HIDE_CURSOR)


def test_the_spinner_makes_way_for_output(program: Program) -> None:
    code, shown = on_terminal(program, *FAKE, "--", "echo", "hello")
    assert code == 0
    assert shown.endswith("hello\r\n")
    assert not set(shown[shown.index("hello") :]) & set(SPINNER)


def test_the_spinner_stays_where_output_goes_elsewhere(program: Program, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        code, shown = on_terminal(program, *FAKE, "--", "yes", stdout=file)
    assert code == 141
    assert set(shown) & set(SPINNER)
    assert (tmp_path / "out").read_bytes().startswith(b"y\ny\n")


def test_control_characters_of_a_skill_are_made_visible(program: Program) -> None:
    code, shown = on_terminal(program, *FAKE, "--", "echo", "\x1b]0;title\x07\x1b[2Jcafé\u202e\r")
    assert code == 0
    assert shown.endswith("\\x1b]0;title\\x07\\x1b[2Jcafé\\u202e\\x0d\r\n")


def test_a_pipe_gets_no_spinner_and_no_escape_codes(program: Program) -> None:
    for arguments in (["list"], ["show", "python-math"], ["show", "nope"], [*FAKE, "--", "sleep", "1.1"]):
        done = program.run(*arguments, TERM="xterm", COLUMNS="40")
        assert "\x1b" not in done.stdout + done.stderr
        assert not set(done.stdout + done.stderr) & set(SPINNER)


def test_a_list_fits_the_terminal(program: Program) -> None:
    for columns in (40, 80, 200):
        code, shown = on_terminal(program, "list", columns=columns)
        lines = shown.splitlines()
        assert code == 0
        assert len(lines) == len(program.run("list").stdout.splitlines())
        assert all(len(line) <= columns for line in lines)
    narrow = on_terminal(program, "list", columns=60)[1]
    assert narrow.count("…") == len(narrow.splitlines())


def test_an_error_is_red_on_a_terminal_and_plain_without(program: Program) -> None:
    _, shown = on_terminal(program, "show", "nope")
    assert "\x1b[1;31merror: " in shown
    plain = subprocess.run(
        [program.path, "show", "nope"], env=program.environ(), capture_output=True, text=True, check=False
    )
    assert plain.stderr.startswith("error: no skill")


CASES = """\
cases:
  - {name: "case passes", run: x, expect: {exit: 127}}
  - {name: "case waits", run: sleep 1, expect: {ending: any}}
  - {name: "case fails \\e]0;x\\a\\e[2J\\u202e", run: x, expect: {stdout: {equals: "\\e[31mred"}}}
"""


def run_cases(program: Program, folder: Path, *options: str, ci: str = "") -> tuple[int, str]:
    (folder / "sums" / "tests").mkdir(parents=True)
    (folder / "sums" / "SKILL.md").write_text("---\nname: sums\ndescription: d\n---\nx\n", encoding="utf-8")
    (folder / "sums" / "tests" / "a.yaml").write_text(CASES, encoding="utf-8")
    chosen = ("--engine", "fake", "test", str(folder / "sums"), "-k", "::case", *options)
    return on_terminal(program, *chosen, columns=200, CI=ci)


def test_a_terminal_shows_a_bar_while_cases_run_and_then_what_failed(
    program: Program, tmp_path: Path
) -> None:
    code, shown = run_cases(program, tmp_path)
    assert code == 1
    assert "testing" in shown
    assert "0/3" in shown
    assert "3/3" in shown
    assert shown.count(HIDE_CURSOR) == 1
    assert shown.rindex("\x1b[?25h") > shown.rindex(HIDE_CURSOR)
    assert shown.rstrip().endswith("1 skill: 2 passed, 1 failed, in " + shown.rstrip().rsplit(" in ", 1)[1])
    assert "sums::case passes" not in shown, "what passed is only counted"
    assert "sums::case fails" in shown


def test_a_log_of_a_job_gets_lines_and_no_bar(program: Program, tmp_path: Path) -> None:
    code, shown = run_cases(program, tmp_path, ci="true")
    assert code == 1
    assert "sums::case passes" in shown
    assert HIDE_CURSOR not in shown
    assert "testing" not in shown
    colours = program.run(
        "--engine", "fake", "test", str(tmp_path / "sums"), "-k", "::case passes", FORCE_COLOR="1"
    )
    assert "sums::case passes" in colours.stdout
    assert HIDE_CURSOR not in colours.stderr


def test_what_a_case_is_called_and_expects_does_nothing_to_a_terminal(
    program: Program, tmp_path: Path
) -> None:
    _, shown = run_cases(program, tmp_path)
    assert "case fails \\x1b]0;x\\x07\\x1b[2J\\u202e" in shown
    for code in ("\x1b]0", "\x1b[2J\\", "\x1b[31mred", "\u202e", "\x07"):
        assert code not in shown


def test_json_on_a_terminal_has_no_bar(program: Program, tmp_path: Path) -> None:
    code, shown = run_cases(program, tmp_path, "--json")
    assert (code, "\x1b" in shown, "3/3" in shown) == (1, False, False)

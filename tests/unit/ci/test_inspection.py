"""What a skill was seen to do beside what it says of itself: each surprise is marked, and nothing else is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.catalog import load_skill
from sandbox_skills.ci.declared import (
    Declared,
    host_surprise,
    program_surprise,
    read_surprise,
    variable_surprise,
    write_surprise,
)
from sandbox_skills.ci.inspecting import MAX_STARTED, commands_of
from sandbox_skills.ci.inspection import InspectedRun, inspection
from sandbox_skills.ci.named_variables import named_variables
from sandbox_skills.recording import Event, Recording
from sandbox_skills.spec import Exited, Outcome, Stopped

if TYPE_CHECKING:
    from pathlib import Path

SAID = Declared("Asks api.example.com by curl, reads /etc/fonts/x and $API_KEY.")


@pytest.mark.parametrize(
    ("declared", "place", "surprising"),
    [
        (SAID, "api.example.com", False),
        (SAID, "example.com", True),
        (SAID, "api.example.com.evil.example", True),
        (SAID, "evil-api.example.com", True),
        (SAID, "192.0.2.1:80", True),
        (Declared("", "Requires network access"), "a.example", False),
        (Declared("", "Needs the internet for tiles"), "192.0.2.1:80", False),
        (Declared("", "Needs no network"), "a.example", True),
        (Declared("", "Works offline, never uses the internet"), "a.example", True),
        (Declared("", "Python 3.11"), "name server 127.0.0.1:53", True),
        (Declared("It lives at [2001:db8::1]."), "[2001:db8::1]:443", False),
    ],
)
def test_a_host_is_to_be_expected_where_the_skill_names_it_or_the_network(
    declared: Declared, place: str, *, surprising: bool
) -> None:
    assert bool(host_surprise(declared, place)) == surprising


@pytest.mark.parametrize(
    ("declared", "path", "surprising"),
    [
        (SAID, "/usr/bin/curl", False),
        (SAID, "/usr/bin/git", True),
        (SAID, "/usr/bin/python3", False),
        (SAID, "", True),
        (Declared("", allowed_tools=("Bash",)), "/usr/bin/git", False),
        (Declared("Bash(git:*)", allowed_tools=("Bash(git:*)",)), "/usr/bin/git", False),
        (Declared("Bash(git:*)", allowed_tools=("Bash(git:*)",)), "/usr/bin/nc", True),
        (Declared("digit"), "/usr/bin/git", True),
    ],
)
def test_a_program_is_to_be_expected_where_it_is_named_or_usual(
    declared: Declared, path: str, *, surprising: bool
) -> None:
    assert bool(program_surprise(declared, path)) == surprising


@pytest.mark.parametrize(
    ("path", "surprising"),
    [
        ("/workspace/out/a", False),
        ("/workspace/work/x/y", False),
        ("/tmp/x", False),
        ("/skills/ab/__pycache__/a.pyc", False),
        ("/workspace/home/.bashrc", True),
        ("/workspace/x", True),
        ("/etc/cron.d/x", True),
        ("/skills/ab/SKILL.md", True),
        ("/tmpfile", True),
        ("", True),
    ],
)
def test_a_place_to_write_is_to_be_expected_where_a_run_has_it(path: str, *, surprising: bool) -> None:
    assert bool(write_surprise(path)) == surprising


@pytest.mark.parametrize(
    ("path", "surprising"),
    [
        ("/etc/passwd", False),
        ("/proc/self/maps", False),
        ("/workspace/work/inputs/a.csv", False),
        ("/etc/fonts/x", False),
        ("/etc/shadow", True),
        ("/proc/12/environ", True),
        ("/root/.ssh/id_rsa", True),
        ("/etc/passwd-", True),
        ("", True),
    ],
)
def test_a_file_is_to_be_expected_where_every_program_reads_it_or_the_skill_names_it(
    path: str, *, surprising: bool
) -> None:
    assert bool(read_surprise(SAID, path)) == surprising


def test_a_variable_is_to_be_expected_where_it_is_named() -> None:
    assert [bool(variable_surprise(SAID, name)) for name in ("API_KEY", "OUTPUT_DIR", "AWS_KEY")] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("kind", "text", "names"),
    [
        ("python3", "os.environ['A']; os.getenv( \"B\" ); environ.get('C', 'D'); os.environ[name]", "A B C"),
        ("python3", "os.environ.pop('A'); os.getenvb(b'B'); environment['C']; print('$D')", "A B"),
        (
            "node",
            "process.env.A + process.env['B'] + process.env?.C; const {env} = process; env[`D`]",
            "A B C D",
        ),
        ("node", "const { A, B: b, C = 'x' } = process.env; const { D } = other", "A B C"),
        ("types", "Deno.env.get('A'); process.env.A; Bun.env[\"B\"]", "A B"),
        (
            "bash",
            'X=1; echo $X ${A:-1} "$B" ${#C} $lower; for I in 1; do echo $I; done; read -r L; echo $L',
            "A B C",
        ),
        ("sh", "echo $A", "A"),
        ("perl", "$ENV{A}", ""),
    ],
)
def test_names_of_variables_are_found_in_scripts(kind: str, text: str, names: str) -> None:
    assert named_variables(kind, text) == tuple(names.split())


@given(
    st.sampled_from(["python3", "node", "bash"]),
    st.text(alphabet="environ.get([\"' \n${}A_=;", max_size=2000),
)
def test_any_script_is_read(kind: str, text: str) -> None:
    named_variables(kind, text)


def test_scripts_that_are_too_many_to_be_started_are_told(tmp_path: Path) -> None:
    (tmp_path / "sums/scripts").mkdir(parents=True)
    (tmp_path / "sums/SKILL.md").write_text("---\nname: sums\ndescription: d\n---\nx\n", encoding="utf-8")
    for number in range(MAX_STARTED + 3):
        (tmp_path / f"sums/scripts/s{number}.sh").write_text("", encoding="utf-8")
    spec = load_skill(tmp_path / "sums").spec
    assert spec is not None
    commands = commands_of(spec, (), None)
    assert (len(commands.these), commands.left_out) == (MAX_STARTED, 3)
    assert inspection("sums", Declared(""), (), {}, left_out=3).as_dict()["left_out"] == 3


def run(*events: Event, **lost: int) -> InspectedRun:
    counts = {"write": lost["write"]} if lost else {}
    return InspectedRun("x", Outcome(Exited(0), recording=Recording(events, counts)))  # type: ignore[arg-type]


def test_the_same_thing_of_several_runs_is_told_once_and_surprises_come_first() -> None:
    store = "/skills/0123456789abcdef0123"
    runs = (
        run(
            Event("program", f"{store}/bin/tool", f"{store}/bin/tool -x"),
            Event("write", "/tmp/a"),
            Event("write", f"{store}/a", count=2),
            Event("read", "/etc/shadow"),
            Event("connect", "192.0.2.1", "80"),
            Event("connect", "127.0.0.1", "80"),
        ),
        run(Event("write", f"{store}/a"), Event("lookup", "a.example"), write=5),
        InspectedRun("y", Outcome(Stopped("memory"))),
    )
    report = inspection("s", Declared(""), runs, {"TOKEN": "a.py"})
    told = [(one.kind, one.what, one.count, bool(one.surprise)) for one in report.findings]
    assert told == [
        ("network", "192.0.2.1:80", 1, True),
        ("network", "a.example", 1, True),
        ("program", "<skill>/bin/tool", 1, True),
        ("write", "<skill>/a", 3, True),
        ("write", "/tmp/a", 1, False),
        ("read", "/etc/shadow", 1, True),
        ("variable", "TOKEN", 1, True),
    ]
    body = report.as_dict()
    assert (report.surprises, body["surprises"], body["lost"]) == (6, 6, {"write": 5})
    assert [row["recorded"] for row in body["runs"]] == [True, True, False]  # type: ignore[attr-defined]

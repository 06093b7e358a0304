"""Where things lie in a box, and what a run is told of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.errors import CommandError, PathEscapeError
from sandbox_skills.spec import SKILLS, WORKSPACE
from sandbox_skills.workspace.layout import (
    MAX_VARIABLE_BYTES,
    SKILLS_DIR,
    WORKSPACE_VARIABLES,
    check_environment,
    expand_variable,
    run_directory,
    run_environment,
    skill_link,
    working_directory,
)

SKILL = SKILLS / "abc"


def test_a_run_of_a_skill_has_exactly_this_environment() -> None:
    assert run_environment(SKILL, skill_name="python-math", run_id="7") == {
        "WORKSPACE_DIR": "/workspace",
        "SKILLS_DIR": "/workspace/skills",
        "WORK_DIR": "/workspace/work",
        "OUTPUT_DIR": "/workspace/out",
        "RUN_DIR": "/workspace/runs/7",
        "SKILL_NAME": "python-math",
        "HOME": "/workspace/home",
        "TMPDIR": "/tmp",
        "PATH": "/skills/abc/.venv/bin:/usr/local/bin:/usr/bin:/bin:/skills/abc/bin",
        "VIRTUAL_ENV": "/skills/abc/.venv",
        "LANG": "C.UTF-8",
        "SHELL": "/bin/bash",
        "PYTHONPATH": "/skills/abc",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }


def test_a_run_without_a_skill_knows_none() -> None:
    environment = run_environment(None, skill_name="", run_id="7")
    assert environment["PATH"] == "/usr/local/bin:/usr/bin:/bin"
    assert not {"SKILL_NAME", "PYTHONPATH", "VIRTUAL_ENV"} & environment.keys()


def test_what_the_caller_sets_wins() -> None:
    extra = {"PATH": "/x", "OUTPUT_DIR": "/workspace/elsewhere", "A": "é\n"}
    assert run_environment(SKILL, skill_name="s", run_id="7", extra=extra).items() >= extra.items()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("", "x"),
        ("A=B", "x"),
        ("A\0", "x"),
        ("A", "x\0"),
        ("A", "\udcff"),
        ("A", "x" * (MAX_VARIABLE_BYTES - 1)),
    ],
)
def test_a_variable_that_no_program_can_be_given_is_refused(name: str, value: str) -> None:
    with pytest.raises(CommandError) as caught:
        check_environment({name: value})
    assert value not in caught.value.message or len(value) < 2


def test_the_largest_variable_fits_and_nine_of_them_do_not() -> None:
    value = "x" * (MAX_VARIABLE_BYTES - 2)
    check_environment({"A": value})
    with pytest.raises(CommandError, match="more than 1048576"):
        check_environment({f"{number}": value for number in range(9)})


@pytest.mark.parametrize("run_id", ["", "..", "a/b", "a\0"])
def test_a_run_id_is_one_name(run_id: str) -> None:
    with pytest.raises(PathEscapeError):
        run_directory(run_id)


@given(st.text())
def test_a_skill_is_linked_in_its_place_whatever_its_name(name: str) -> None:
    assert skill_link(name).parent == SKILLS_DIR


def test_a_skill_named_like_a_path_is_linked_by_its_last_part() -> None:
    assert skill_link("../../x") == SKILLS_DIR / "x"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$OUTPUT_DIR", "/workspace/out"),
        ("${OUTPUT_DIR}/x", "/workspace/out/x"),
        ("$OUTPUT_DIRX", "$OUTPUT_DIRX"),
        ("${OUTPUT_DIR", "${OUTPUT_DIR"),
        ("$OUTPUT_DIR}", "$OUTPUT_DIR}"),
        ("$UNKNOWN/d", "$UNKNOWN/d"),
        ("x$OUTPUT_DIR", "x$OUTPUT_DIR"),
    ],
)
def test_a_leading_variable_is_expanded_at_a_boundary(text: str, expected: str) -> None:
    assert expand_variable(text, WORKSPACE_VARIABLES) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "/skills/abc"),
        (" ", "/skills/abc"),
        (".", "/skills/abc"),
        ("scripts", "/skills/abc/scripts"),
        ("/skills/abc/scripts", "/skills/abc/scripts"),
        ("$WORK_DIR", "/workspace/work"),
        ("${OUTPUT_DIR}/x", "/workspace/out/x"),
        ("/", "/workspace"),
        ("/work/x", "/workspace/work/x"),
        ("/skills/name", "/workspace/skills/name"),
        ("/workspace/out", "/workspace/out"),
    ],
)
def test_a_working_directory_is_read_from_the_skill(text: str, expected: str) -> None:
    assert str(working_directory(text, skill=SKILL)) == expected


def test_without_a_skill_a_working_directory_is_read_from_the_workspace() -> None:
    assert working_directory("") == WORKSPACE
    assert str(working_directory("out/x")) == "/workspace/out/x"


@pytest.mark.parametrize(
    "text",
    [
        "../../..",
        "..",
        "..\\..\\..",
        "/etc",
        "//etc",
        "$WORKSPACE_DIR/../..",
        "/skills/abc/../other",
        "/work/../../etc",
        "/tmp",
    ],
)
def test_an_escaping_working_directory_is_an_error(text: str) -> None:
    with pytest.raises(PathEscapeError):
        working_directory(text, skill=SKILL)

"""Extension first, then shebang, never the executable bit."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.errors import CommandError, PathEscapeError, ScriptNotFoundError
from sandbox_skills.spec import SKILLS
from sandbox_skills.workspace.interpreters import EXTENSIONS, HEAD_BYTES, read_head, script_argv

if TYPE_CHECKING:
    from pathlib import Path

SKILL = SKILLS / "abc"


def interpreter(script: str, head: bytes = b"") -> list[str]:
    *program, path = script_argv(SKILL, script, (), head)
    assert path == f"/skills/abc/{script}"
    return program


@pytest.mark.parametrize("suffix", EXTENSIONS)
def test_the_extension_decides(suffix: str) -> None:
    assert interpreter(f"scripts/x{suffix}", b"#!/usr/bin/env ruby\n") == [EXTENSIONS[suffix]]
    assert interpreter(f"scripts/x{suffix.upper()}") == [EXTENSIONS[suffix]]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"#!/usr/bin/python3\n", ["python3"]),
        (b"#!/usr/bin/env python\r\nprint(1)\r\n", ["python3"]),
        (b"#!/opt/homebrew/bin/python3.12 -u\n", ["python3", "-u"]),
        (b"\xef\xbb\xbf#!/bin/sh\n", ["sh"]),
        (b"#! /bin/bash -e\n", ["bash", "-e"]),
        (b"#!/usr/bin/env -S node --no-warnings\n", ["node", "--no-warnings"]),
        (b"#!/usr/bin/env -Sbash -eu\n", ["bash", "-eu"]),
        (b"#!/usr/bin/env --split-string=node\n", ["node"]),
        (b"#!/usr/bin/env -i -u HOME A=1 perl -w\n", ["perl", "-w"]),
        (b"#!/usr/bin/env -S uv run --script\n", ["python3"]),
        (b"#!/usr/bin/awk -f\n", ["awk", "-f"]),
        (b"#!/bin/dash", ["sh"]),
    ],
)
def test_a_shebang_decides_where_there_is_no_known_extension(head: bytes, expected: list[str]) -> None:
    assert interpreter("scripts/tool", head) == expected
    assert interpreter("scripts/tool.run", head) == expected


def test_options_of_a_shebang_are_kept_when_it_names_the_same_program() -> None:
    assert interpreter("a.sh", b"#!/bin/sh -e\n") == ["bash", "-e"]
    assert interpreter("a.py", b"#!/usr/bin/env -S python3 -I\n") == ["python3", "-I"]
    assert interpreter("a.py", b"#!/usr/bin/env -S uv run --script\n") == ["python3"]
    assert interpreter("a.py", b"#!/bin/bash -e\n") == ["python3"]


def test_arguments_follow_as_they_are() -> None:
    argv = script_argv(SKILL, "scripts/-x.py", ("--a", "b c", "", "$HOME"), b"")
    assert argv == ("python3", "/skills/abc/scripts/-x.py", "--a", "b c", "", "$HOME")


@pytest.mark.parametrize(
    ("script", "head", "why"),
    [
        ("x.rb", b"#!/usr/bin/env ruby\n", "'ruby', which is not in the image"),
        ("x", b"#!/usr/bin/python2\n", "'python2'"),
        ("x", b"\x7fELF\x02", "compiled program"),
        ("x", b"", "neither"),
        ("x", b"#!\n", "neither"),
        ("x", b"#!/usr/bin/env\n", "neither"),
        ("x", b"#!/usr/bin/env -u\n", "neither"),
        ("x.md", b"# title\n", "neither"),
        ("README", b"text\n#!/bin/sh\n", "neither"),
    ],
)
def test_an_unknown_script_is_refused_with_what_is_known(script: str, head: bytes, why: str) -> None:
    with pytest.raises(CommandError, match=why) as caught:
        script_argv(SKILL, script, (), head)
    assert ".py" in caught.value.hint


def test_an_argument_with_a_nul_is_refused() -> None:
    with pytest.raises(CommandError, match="NUL"):
        script_argv(SKILL, "x.py", ("a\0",), b"")


@pytest.mark.parametrize("script", ["../x.py", "/x.py", "", "a\0.py"])
def test_a_script_outside_the_skill_is_refused(script: str) -> None:
    with pytest.raises(PathEscapeError):
        script_argv(SKILL, script, (), b"")


@given(st.one_of(st.binary(), st.binary().map(lambda data: b"#!" + data)))
def test_any_head_gives_a_known_program_or_an_error(head: bytes) -> None:
    try:
        program = interpreter("x", head)[0]
    except CommandError:
        return
    assert program in {"python3", "bash", "sh", "node", "perl", "awk", "sed"}


# Reading the head.


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("secret")
    root = tmp_path / "skill"
    (root / "scripts").mkdir(parents=True)
    (root / "scripts" / "run.py").write_bytes(b"#!" + b"x" * 1000)
    (root / "run").symlink_to("scripts/run.py")
    (root / "leak").symlink_to("../secret")
    (root / "gone").symlink_to("none")
    (root / "out").symlink_to("/workspace/out")
    os.mkfifo(root / "fifo")
    return root


def test_the_head_of_a_script_is_read_through_links_inside(skill: Path) -> None:
    assert read_head(skill, "scripts/run.py") == read_head(skill, "run") == b"#!" + b"x" * (HEAD_BYTES - 2)


@pytest.mark.parametrize("script", ["leak", "out/x.py", "../secret", "/etc/passwd"])
def test_the_head_of_a_file_outside_is_not_read(skill: Path, script: str) -> None:
    with pytest.raises(PathEscapeError):
        read_head(skill, script)


@pytest.mark.parametrize("script", ["none.py", "scripts", "fifo", "gone", "scripts/run.py/x", "."])
def test_what_is_no_file_is_no_script(skill: Path, script: str) -> None:
    with pytest.raises(ScriptNotFoundError):
        read_head(skill, script)

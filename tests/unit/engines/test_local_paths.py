from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.engines.local_paths import HostPaths, staged_names
from sandbox_skills.spec import Command

PATHS = HostPaths(Path("/d/w"), Path("/d/s"), Path("/d/t"), Path("/d/h"))


@pytest.mark.parametrize(
    ("text", "here"),
    [
        ("/workspace", "/d/w"),
        ("/workspace/out/x", "/d/w/out/x"),
        ("cat /workspace/a /skills/b", "cat /d/w/a /d/s/b"),
        ("x=/workspace/a:/skills/b/bin:/usr/bin", "x=/d/w/a:/d/s/b/bin:/usr/bin"),
        ("cd '/workspace'; ls", "cd '/d/w'; ls"),
        ("/workspaces", "/workspaces"),
        ("/workspace.old", "/workspace.old"),
        ("/my/workspace", "/my/workspace"),
        ("./workspace/x", "./workspace/x"),
        ("a-/skills", "a-/skills"),
        ("", ""),
    ],
)
def test_only_the_boxs_own_directories_are_renamed(text: str, here: str) -> None:
    assert PATHS.text(text) == here


def test_a_command_is_renamed_in_all_its_parts() -> None:
    command = Command(
        ("/skills/ab/run", "--to=/workspace/out"),
        env={"HOME": "/workspace/home", "TMPDIR": "/tmp", "OTHER": "/tmp"},
        cwd=PurePosixPath("/skills/ab"),
        stdin=b"/workspace",
    )
    assert PATHS.command(command) == Command(
        ("/d/s/ab/run", "--to=/d/w/out"),
        env={"HOME": "/d/w/home", "TMPDIR": "/d/t", "OTHER": "/tmp"},
        cwd=PurePosixPath("/d/s/ab"),
        stdin=b"/workspace",
    )


def test_staged_skills_are_found_where_they_are_spoken_of() -> None:
    texts = ["/skills/ab/scripts/x.py", "PATH=/skills/cd/bin:/skills/ab/bin", "/skills", "/my/skills/no"]
    assert staged_names(texts) == {"ab", "cd"}


@given(st.text())
def test_any_text_is_renamed_without_an_exception_and_once(text: str) -> None:
    here = PATHS.text(text)
    assert PATHS.text(here) == here

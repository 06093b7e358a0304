"""A directory that the program makes is its user's alone at every moment, whatever the umask would let others do."""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Program

ROOT = Path(__file__).parents[2]

PRIVATE = 0o700

SHOWN = ("store/mounted", "store/sockets", "sockets", "rootfs")
"""What boxes see, below directories that nobody else can enter."""

FLOWS = (
    ("list",),
    ("run", "python-math", "--output", "out/**", "--", "sh", "-c", "echo x > out/x; sleep 1"),
    (
        "call",
        "workspace_exec",
        "--toolset",
        "workspace",
        "--args",
        '{"command": "echo x > x"}',
        "--session",
        "one",
    ),
    ("test", str(ROOT / "skills" / "python-math")),
    ("new", "mine"),
    ("doctor",),
    ("gc",),
)


ON_ITS_WAY = "store/temporary/copy-*/copy*"
"""A copy of a skill that goes to where boxes see it, and what is in it: it has their modes before it is moved."""


def open_to_others(root: Path) -> Iterator[str]:
    """Yields the directories that others may enter or list, and those of boxes that lie below no private one."""
    for folder, names, _ in os.walk(root):
        for name in [*names]:
            path = Path(folder, name)
            relative = str(path.relative_to(root))
            with suppress(FileNotFoundError):
                if path.is_symlink() or stat.S_IMODE(path.stat().st_mode) & 0o077 == 0:
                    continue
                names.remove(name)
                if not is_shown(relative):
                    yield f"{stat.S_IMODE(path.stat().st_mode):o} {relative}"


def is_shown(relative: str) -> bool:
    below = tuple(f"{one}/" for one in SHOWN)
    return relative in SHOWN or relative.startswith(below) or fnmatch(relative, ON_ITS_WAY)


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_directory_is_the_users_alone(program: Program, tmp_path: Path) -> None:
    data, temporary = tmp_path / "data", tmp_path / "temporary"
    temporary.mkdir(mode=0o777)
    own = replace(program, data_dir=data)
    seen: set[str] = set()
    for words in FLOWS:
        process = own.start(*words, environ={"TMPDIR": str(temporary)}, umask=0)
        while process.poll() is None:
            seen.update(open_to_others(data), open_to_others(temporary))
            time.sleep(0.02)
        out, errors = process.communicate()
        assert process.returncode in {0, 1}, (words, out, errors)
        if data.exists():
            assert stat.S_IMODE(data.stat().st_mode) == PRIVATE
    assert seen == set()
    assert stat.S_IMODE((data / "store").stat().st_mode) == PRIVATE
    assert list(temporary.iterdir()) == []

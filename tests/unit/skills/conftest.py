"""Runs a script of a sample skill the way a box does: closed input, from the skill's folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Protocol

import pytest

SKILLS = Path(__file__).parents[3] / "skills"


class Script(Protocol):
    """A sample's script, given by skill and file name."""

    def __call__(
        self, skill: str, name: str, *arguments: str, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]: ...


@pytest.fixture
def script() -> Script:
    """Runs one Python script of a sample skill; nothing of the caller's environment but PATH is seen."""

    def run(
        skill: str, name: str, *arguments: str, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-B", str(SKILLS / skill / "scripts" / name), *arguments],
            cwd=cwd or SKILLS / skill,
            env={"PATH": os.defpath},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=15,
        )

    return run


@pytest.fixture
def skills() -> Path:
    """Where the samples are."""
    return SKILLS

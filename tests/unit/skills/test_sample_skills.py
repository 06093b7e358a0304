"""What every sample skill has, since each is there to be copied."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from tests.unit.skills.conftest import Script

SAMPLES = sorted(path.parent for path in (Path(__file__).parents[3] / "skills").glob("*/SKILL.md"))
PROGRAMS = [
    path
    for sample in SAMPLES
    for path in sorted(sample.glob("scripts/*.py"))
    if path.read_text().startswith("#!")
]


def front_matter(sample: Path) -> dict[str, str]:
    _, header, _ = (sample / "SKILL.md").read_text(encoding="utf-8").split("---\n", 2)
    found: dict[str, str] = yaml.safe_load(header)
    return found


def test_samples_are_there() -> None:
    assert [sample.name for sample in SAMPLES] == [
        "csv-chart",
        "escape-artist",
        "hello-ts",
        "python-math",
        "team-chat",
        "text-report",
        "weather",
    ]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_front_matter_is_complete_and_strict(sample: Path) -> None:
    header = front_matter(sample)
    assert set(header) == {"name", "description", "license", "compatibility"}
    assert header["name"] == sample.name
    assert 0 < len(header["description"]) <= 1024


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_readme_lists_the_sample(sample: Path) -> None:
    assert f"({sample.name}/SKILL.md)" in (sample.parent / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_program_explains_itself(script: Script, program: Path) -> None:
    done = script(program.parents[1].name, program.name, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage:" in done.stdout


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.name)
def test_bad_option_is_said_on_stderr_with_exit_2(script: Script, program: Path) -> None:
    done = script(program.parents[1].name, program.name, "--no-such-option")
    assert (done.returncode, done.stdout) == (2, "")
    assert "error:" in done.stderr

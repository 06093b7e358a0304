"""The examples of the README do what it says, run in a directory like a checkout."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Program

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = {
    name: (language, text)
    for name, language, text in re.findall(r"<!-- example: (\w+) -->\n```(\w+)\n(.*?)```", README, re.DOTALL)
}


@pytest.fixture
def checkout(program: Program) -> Path:
    shutil.copytree(ROOT / "skills", program.cwd / "skills")
    shutil.copy(ROOT / "README.md", program.cwd)
    return program.cwd


def run(argv: list[str], program: Program) -> str:
    """Returns what an example prints; it must succeed, and complain of nothing."""
    path = f"{Path(program.path).parent}:/usr/bin:/bin"
    done = subprocess.run(
        argv,
        cwd=program.cwd,
        env=program.environ(PATH=path, SKILLS_ROOT=""),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr
    return done.stdout


@pytest.mark.parametrize("name", [name for name, (language, _) in EXAMPLES.items() if language == "console"])
def test_every_line_of_a_console_example_works(name: str, program: Program, checkout: Path) -> None:
    lines = re.findall(r"^\$ (.+)$", EXAMPLES[name][1], re.MULTILINE)
    assert lines
    for line in lines:
        before = saved(checkout)
        run(["bash", "-c", line], program)
        assert (saved(checkout) > before) == ("--out-dir results" in line), line


def saved(checkout: Path) -> set[Path]:
    return {path for path in (checkout / "results").rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", [name for name, (language, _) in EXAMPLES.items() if language == "python"])
def test_every_python_example_works(name: str, program: Program, checkout: Path) -> None:
    printed = run([sys.executable, "-W", "error", "-c", EXAMPLES[name][1]], program)
    assert printed == "Exited(code=0) ['out/fib.txt']\n"


def test_the_demo_prints_what_the_readme_shows(program: Program) -> None:
    block = re.search(r"```console\n\$ make demo\n(.*?)```", README, re.DOTALL)
    assert block
    shown, printed = (
        re.sub(r"\d+\.\d\d s", "T s", text) for text in (block[1], run([program.path, "demo"], program))
    )
    assert printed == shown

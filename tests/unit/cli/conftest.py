"""The command line run inside this process: quick, with everything it prints and a directory of its own."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from sandbox_skills.cli.main import run_program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


FAKE_NOTICE = "engine fake: nothing is run\n"


@dataclass(frozen=True, slots=True)
class Done:
    """What one command line did."""

    code: int
    out: str
    err: str

    @property
    def told(self) -> str:
        """What is on stderr, but for the notice that the fake engine is one."""
        return self.err.removeprefix(FAKE_NOTICE)

    @property
    def json(self) -> Any:  # noqa: ANN401  # whatever the command prints
        """The one JSON value on stdout; anything else there fails."""
        return json.loads(self.out)


class Cli(Protocol):
    """Runs one command line."""

    def __call__(self, *arguments: str) -> Done: ...


class MakeSkill(Protocol):
    """Makes a skill and returns its folder."""

    def __call__(
        self, name: str, *, root: str = "skills", description: str = ..., scripts: tuple[str, ...] = ()
    ) -> Path: ...


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory of a user who has configured nothing."""
    for variable in ("SKILLS_ROOT", "SANDBOX_SKILLS_CONFIG", "DOCKER_HOST"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    monkeypatch.setenv("SANDBOX_SKILLS_DATA_DIR", str(tmp_path / "data"))
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


@pytest.fixture
def cli(home: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    def run(*arguments: str) -> Done:
        capfd.readouterr()
        code = run_program(arguments)
        return Done(code, *capfd.readouterr())

    return run


@pytest.fixture
def make_skill(home: Path) -> MakeSkill:
    def make(
        name: str,
        *,
        root: str = "skills",
        description: str = "Does what a test needs.",
        scripts: tuple[str, ...] = (),
    ) -> Path:
        folder = home / root / name
        (folder / "scripts").mkdir(parents=True)
        text = f"""\
            ---
            name: {name}
            description: {json.dumps(description)}
            ---
            # {name}
            """
        (folder / "SKILL.md").write_text(textwrap.dedent(text), encoding="utf-8")
        for script in scripts:
            (folder / "scripts" / script).write_text("print(1)\n", encoding="utf-8")
        return folder

    return make


@pytest.fixture
def skill(make_skill: MakeSkill) -> Path:
    """The skill `sample`, with two scripts."""
    return make_skill("sample", scripts=("one.py", "two.py"))

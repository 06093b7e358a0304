"""The README promises nothing that is not there: commands, options, targets, files, exit codes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer.main

from sandbox_skills.cli import exits
from sandbox_skills.cli.commands import app
from sandbox_skills.cli.options import GlobalOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TEXTS = (
    README,
    *((ROOT / name).read_text(encoding="utf-8") for name in ("CONTRIBUTING.md", "skills/README.md")),
)


def commands_of(text: str) -> Iterator[str]:
    """Yields command lines: what follows a prompt in a block, and whole code spans."""
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        yield from re.findall(r"^\$ (.+)$", block, re.MULTILINE)
    yield from re.findall(
        r"`((?:sandbox-skills|make) [^`…]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    )


COMMANDS = sorted({command for text in TEXTS for command in commands_of(text)})


def idle(command: Any) -> Any:  # noqa: ANN401  # typer's own classes are private
    """Returns a command that takes its options and does nothing."""
    for below in getattr(command, "commands", {}).values():
        idle(below)
    command.callback = lambda **_: None if hasattr(command, "commands") else 0
    return command


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("sandbox-skills ")])
def test_every_command_line_is_one_that_is_understood(line: str) -> None:
    arguments = shlex.split(line, comments=True)[1:]
    idle(typer.main.get_command(app)).main(arguments, standalone_mode=False, obj=GlobalOptions())


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("make ")])
def test_every_target_is_in_the_makefile(line: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for word in shlex.split(line, comments=True)[1:]:
        assert "=" in word or re.search(rf"^{re.escape(word)}:", makefile, re.MULTILINE), word


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\((?!https?:)([^)#]+)", README))))
def test_every_link_leads_to_a_file(path: str) -> None:
    assert (ROOT / path).exists()


def test_the_table_of_exit_codes_is_the_one_in_force() -> None:
    told = {int(code) for code in re.findall(r"\| (\d+) \|", README)}
    ours = {exits.USAGE, exits.SANDBOX_FAILED, exits.INTERRUPTED, *exits.STOPPED.values()}
    assert told == ours


def test_examples_are_marked_so_that_they_are_run() -> None:
    for mark, language in re.findall(r"(<!-- example: \w+ -->\n)?```(python)\n", README):
        assert mark, language
    block = re.search(r"<!-- example: list -->\n```console\n(.*?)```", README, re.DOTALL)
    assert block
    assert "sandbox-skills run " in block[1]

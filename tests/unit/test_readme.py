"""The README promises nothing that is not there: commands, options, targets, files, exit codes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from sandbox_skills.catalog.scaffold import scaffold
from sandbox_skills.cli import exits, signals
from sandbox_skills.cli.commands import app
from sandbox_skills.cli.late_commands import program
from sandbox_skills.cli.options import GlobalOptions
from sandbox_skills.spec import SIGNAL_BASE, STOPPED_CODES

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
    idle(program(app)).main(arguments, standalone_mode=False, obj=GlobalOptions())


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("make ")])
def test_every_target_is_in_the_makefile(line: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for word in shlex.split(line, comments=True)[1:]:
        assert "=" in word or re.search(rf"^{re.escape(word)}:", makefile, re.MULTILINE), word


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\((?!https?:)([^)#]+)", README))))
def test_every_link_leads_to_a_file(path: str) -> None:
    assert (ROOT / path).exists()


def test_the_table_of_exit_codes_is_the_one_in_force() -> None:
    text = re.sub(r"<!-- figures -->.*?<!-- /figures -->", "", README, flags=re.DOTALL)
    told = {int(code) for code in re.findall(r"\| (\d+) \|", text)}
    ours = {exits.USAGE, exits.MODEL_FAILED, exits.SANDBOX_FAILED, exits.INTERRUPTED, *STOPPED_CODES.values()}
    assert told == ours | {SIGNAL_BASE + number for number in signals.ENDING}


def test_the_table_of_commands_is_what_the_help_says() -> None:
    told = dict(re.findall(r"^\| `([a-z ]+)` \| ([A-Z][^|]+) \|$", README, re.MULTILINE))
    assert told == dict(summaries(program(app)))


def summaries(group: Any, prefix: str = "") -> Iterator[tuple[str, str]]:  # noqa: ANN401  # typer's own classes
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from summaries(command, f"{name} ")
        else:
            yield prefix + name, command.help


def figures() -> list[str]:
    """What the table of figures has measured."""
    (block,) = re.findall(r"<!-- figures -->\n(.*?)<!-- /figures -->", README, re.DOTALL)
    return re.findall(r"^\| ([^|]+?) \|", block, re.MULTILINE)[1:]


def forms(named: str) -> list[re.Pattern[str]]:
    """What the bench calls what `named` finds in its files, with anything where a value is filled in.

    Texts with less of their own than a word are no names: they would fit anything.
    """
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests/bench").glob("*.py"))
    parts = [re.split(r"\{[^}]*\}", name) for name in re.findall(named, sources)]
    return [
        re.compile(".+".join(map(re.escape, one))) for one in parts if re.search(r"[A-Za-z]{4}", "".join(one))
    ]


def fits(name: str, known: list[re.Pattern[str]]) -> bool:
    return any(form.fullmatch(name) for form in known)


def test_the_figures_are_what_the_bench_measures() -> None:
    known = forms(r'f?"([^"\n]+)"')
    assert [name for name in figures() if not fits(name, known)] == []
    assert not fits("a row that nobody measures", known)
    assert not fits(f"{figures()[0]} and more", known)


def test_what_the_bench_calls_its_rows_is_in_the_table() -> None:
    named = forms(r'Row\(\s*f?"([^"]+)"')
    assert len(named) > 20
    assert [form.pattern for form in named if not any(map(form.fullmatch, figures()))] == []


def test_the_format_of_test_cases_is_the_one_that_a_new_skill_has() -> None:
    text = (ROOT / "skills/README.md").read_text(encoding="utf-8")
    (case,) = yaml.safe_load(scaffold("sums").files["tests/basic.yaml"])["cases"]
    assert case.keys() == {"name", "run", "expect"}
    assert case["expect"].keys() == {"exit", "stdout"}
    assert all(f"`{word}`" in text for word in ("cases", *case, "exit", "tests/basic.yaml"))
    assert "`stdout: {contains: TEXT}`" in text


def test_examples_are_marked_so_that_they_are_run() -> None:
    for mark, language in re.findall(r"(<!-- example: [\w-]+ -->\n)?```(python|dockerfile)\n", README):
        assert mark, language
    block = re.search(r"<!-- example: list -->\n```console\n(.*?)```", README, re.DOTALL)
    assert block
    assert "sandbox-skills run " in block[1]

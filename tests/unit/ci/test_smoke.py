"""The checks that every skill gets: what each finds, what a person is told, and that each can be switched off."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.catalog import load_skill
from sandbox_skills.ci.references import missing_files, named_files
from sandbox_skills.ci.smoke import HELP_SECONDS, broken_trial, scripts_of, smoke_trials
from sandbox_skills.ci.suite import SmokeChoice
from sandbox_skills.ci.syntax import MAX_SCRIPTS, kind_of, syntax_command
from sandbox_skills.ci.trial import Looked, Sandboxed, Skipped
from sandbox_skills.workspace.manager import Script

if TYPE_CHECKING:
    from sandbox_skills.catalog import SkillSpec
    from sandbox_skills.ci.trial import Trial

ARGPARSE = "import argparse\nargparse.ArgumentParser().parse_args()\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "sums"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: sums\ndescription: Adds.\n---\nBody\n", encoding="utf-8")
    return folder


def spec_of(folder: Path) -> SkillSpec:
    spec = load_skill(folder).spec
    assert spec is not None
    return spec


def trials(folder: Path, **off: str) -> dict[str, Trial]:
    choice = SmokeChoice(off=off)  # type: ignore[arg-type]
    return {one.name: one for one in smoke_trials(spec_of(folder), choice)}


def told(trial: Trial) -> list[str]:
    assert isinstance(trial.work, Looked)
    return [failure.message for failure in trial.work.look()]


def test_a_sound_skill_without_scripts_gets_three_looks_that_find_nothing(folder: Path) -> None:
    found = trials(folder)
    assert list(found) == ["smoke: valid", "smoke: tools load", "smoke: files that are named are there"]
    assert [told(one) for one in found.values()] == [[], [], []]


def test_what_validate_calls_an_error_is_a_failure(folder: Path) -> None:
    (folder / "tools.json").write_text('[{"name": "Bad Name", "description": "d"}]', encoding="utf-8")
    (message,) = told(trials(folder)["smoke: valid"])
    assert message.startswith("tools.json:")
    assert "is not a tool name" in message
    assert message.endswith("Start with a-z; go on with a-z, 0-9 and underscores.")


def test_a_skill_that_does_not_load_fails_with_the_reason(folder: Path) -> None:
    (folder / "SKILL.md").write_text("# Sums\n", encoding="utf-8")
    (message,) = told(broken_trial(folder, str(folder / "SKILL.md")))
    assert message.startswith("SKILL.md:1: frontmatter: is missing")


def test_a_tool_with_a_built_in_name_or_without_its_script_is_a_failure(folder: Path) -> None:
    tools = [
        {"name": "use_skill", "description": "d"},
        {"name": "add", "description": "d", "script": "scripts/no.py"},
    ]
    (folder / "tools.json").write_text(json.dumps(tools), encoding="utf-8")
    messages = told(trials(folder)["smoke: tools load"])
    assert any("is the name of a built-in tool" in message for message in messages)
    assert any("is not a file of the skill" in message for message in messages)


class TestReferences:
    @pytest.mark.parametrize(
        ("body", "names"),
        [
            ("See [the guide](references/guide.md#part).", ["references/guide.md"]),
            ("![x](assets/a%20b.png 'title') [y](<assets/c.txt>)", ["assets/a%20b.png", "assets/c.txt"]),
            ("Run `python3 scripts/x.py 5`, then scripts/sub/y.sh.", ["scripts/x.py", "scripts/sub/y.sh"]),
            ("[web](https://example.org/a.md) [mail](mailto:a@b.c) [top](#top) [abs](/etc/passwd)", []),
            ("scripts/*.py, scripts/<name>.py, my/scripts/x.py, $DIR/scripts/x.py, scripts/{name}.py", []),
            ("[a](x.md) [a](x.md)", ["x.md"]),
        ],
    )
    def test_names_of_files_are_read_from_links_and_places(self, body: str, names: list[str]) -> None:
        assert [name.replace(" ", "%20") for name in named_files(body)] == names

    def test_a_file_that_is_named_and_not_there_is_told(self, folder: Path) -> None:
        text = "[a](references/a.md)\nscripts/x.py\n[up](../other.md)\n[dir](scripts)"
        (folder / "SKILL.md").write_text(f"---\nname: sums\ndescription: d\n---\n{text}\n", encoding="utf-8")
        (folder.parent / "other.md").write_text("", encoding="utf-8")
        messages = [failure.message for failure in missing_files(spec_of(folder))]
        assert messages == [
            f"SKILL.md names {name}, which is not in the skill"
            for name in ("references/a.md", "../other.md", "scripts/x.py")
        ]


class TestHelp:
    def test_only_scripts_that_have_one_and_are_meant_to_be_started_are_asked(self, folder: Path) -> None:
        files = {
            "scripts/has.py": ARGPARSE,
            "scripts/usage.sh": "case $1 in --help) ;; esac\n",
            "scripts/module.py": "X = 1\n",
            "lib/deep.py": ARGPARSE,
            "top.mjs": "import { parseArgs } from 'node:util';\n",
            "tests/test_x.py": ARGPARSE,
            "node_modules/a/b.js": "// --help\n",
        }
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        found = [name for name in trials(folder) if name.endswith("--help")]
        assert found == [
            f"smoke: {path} --help" for path in ("scripts/has.py", "scripts/usage.sh", "top.mjs")
        ]

    def test_it_must_end_with_0_within_ten_seconds(self, folder: Path) -> None:
        (folder / "scripts/a.py").write_text(ARGPARSE, encoding="utf-8")
        work = trials(folder)["smoke: scripts/a.py --help"].work
        assert isinstance(work, Sandboxed)
        assert work.invocation == Script("scripts/a.py", ("--help",))
        assert (work.case.limits.wall_seconds, work.case.expect.exit) == (HELP_SECONDS, 0)


def test_each_check_can_be_switched_off_with_a_reason(folder: Path) -> None:
    (folder / "scripts/a.py").write_text(ARGPARSE, encoding="utf-8")
    every = ("valid", "tools", "references", "syntax", "help", "network")
    found = trials(folder, **dict.fromkeys(every, "because of x"))
    assert len(found) == 6
    assert {one.work for one in found.values()} == {Skipped("because of x")}


def test_what_a_skill_has_too_many_of_is_told(folder: Path) -> None:
    for number in range(MAX_SCRIPTS + 7):
        (folder / f"scripts/s{number:03}.py").write_text(ARGPARSE, encoding="utf-8")
    work = {name: one.work for name, one in trials(folder).items() if "other scripts" in name}
    assert work == {
        "smoke: other scripts can be read": Skipped("7 more than the 300 scripts of a skill that are tried"),
        "smoke: other scripts --help": Skipped("257 more than the 50 scripts of a skill that are tried"),
        "smoke: other scripts start without the network": Skipped(
            "257 more than the 50 scripts of a skill that are tried"
        ),
    }
    for path in sorted((folder / "scripts").iterdir())[50:]:
        path.unlink()
    assert not [name for name in trials(folder) if "other scripts" in name]


class TestSyntax:
    def test_the_kind_is_known_by_the_ending(self) -> None:
        names = ("a.py", "a.SH", "a.mjs", "a.ts", "a.pl", "a.pyz", "a.md", "a")
        kinds = [kind_of(PurePosixPath(name)) for name in names]
        assert kinds == ["python3", "bash", "node", "types", "perl", "", "", ""]

    def test_without_an_ending_it_is_known_by_the_first_line(self, folder: Path) -> None:
        heads = {
            "py": "#!/usr/bin/env -S uv run --script", "node": "#!/usr/bin/env node", "sh": "#!/bin/sh -e",
            "awk": "#!/usr/bin/awk -f", "text": "Read me", "a.md": "#!/bin/sh",
        }  # fmt: skip
        for name, line in heads.items():
            (folder / "scripts" / name).write_text(f"{line}\n# --help\n", encoding="utf-8")
        found = {path.name: kind for path, kind in scripts_of(spec_of(folder)).items()}
        assert found == {"py": "python3", "node": "node", "sh": "sh"}
        names = list(trials(folder))
        assert "smoke: scripts/sh --help" in names
        assert "smoke: scripts/sh starts without the network" in names

    def test_python_and_shell_are_read_and_their_faults_told_with_the_line(self, tmp_path: Path) -> None:
        (tmp_path / "good.py").write_text("async def f():\n    await f()\n", encoding="utf-8")
        (tmp_path / "bad.py").write_text("x = 1\ny = = 2\n", encoding="utf-8")
        (tmp_path / "nul.py").write_bytes(b"x = '\0'\n")
        (tmp_path / "bad.sh").write_text("if true; then\n", encoding="utf-8")
        (tmp_path / "-good.sh").write_text("echo 1\n", encoding="utf-8")
        (tmp_path / "subprocess.py").write_text("raise SystemExit(9)\n", encoding="utf-8")
        (tmp_path / "tool").write_text("#!/bin/sh\nif true; then\n", encoding="utf-8")
        paths = [PurePosixPath(path.name) for path in sorted(tmp_path.iterdir())]
        kinds = {path: kind_of(path) or "sh" for path in paths}
        _, *words = syntax_command(kinds).argv
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert [line.partition(": ")[0] for line in done.stderr.splitlines() if line.startswith("./")] == [
            "./bad.py", "./bad.sh", "./nul.py", "./tool",
        ]  # fmt: skip
        assert "./bad.py: line 2: invalid syntax" in done.stderr
        assert not list(tmp_path.glob("__pycache__"))

"""What the user accepted is what runs, from the command line; and what he stands on or names may be gone or a trap."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Cli, MakeSkill

RUN = ("--engine", "fake", "run", "--json")


def rename(skill: Path, name: str) -> None:
    file = skill / "SKILL.md"
    file.write_text(file.read_text().replace(f"name: {skill.name}", f"name: {name}"))


def test_a_pinned_skill_whose_content_changed_is_refused_at_run_with_a_diff_of_file_names(
    cli: Cli, skill: Path
) -> None:
    cli("trust", "sample")
    (skill / "scripts" / "one.py").write_text("import evil\n")
    (skill / "scripts" / "two.py").unlink()
    (skill / "new.txt").write_text("")
    refused = cli(*RUN, "sample", "--", "true")
    assert refused.code == 2
    assert refused.json["error"]["code"] == "skill_changed"
    assert refused.json["error"]["message"] == (
        "skill 'sample' is not what was pinned: added 'new.txt'; changed 'scripts/one.py'; removed 'scripts/two.py'"
    )
    assert "sandbox-skills trust sample" in refused.json["error"]["hint"]


@pytest.mark.parametrize("name", ["sample2", "Sample", "SAMPLE"])
@pytest.mark.parametrize("secret", [(), ("--env", "HOME"), ("--skills", "skills", "--env", "HOME")])
def test_nor_is_it_run_by_another_name_or_given_a_secret(
    cli: Cli, skill: Path, name: str, secret: tuple[str, ...]
) -> None:
    cli("trust", "sample")
    (skill / "scripts" / "one.py").write_text("import evil\n")
    rename(skill, name)
    for asked in ("sample", name):
        refused = cli(*RUN, asked, *secret, "--", "true").json["error"]
        assert refused["code"] == "skill_changed"
        assert f"was pinned as 'sample', now calls itself '{name}'" in refused["message"]
        assert "'scripts/one.py'" in refused["message"]
    assert cli("show", name, "--json").json["trust"] == "changed"
    assert cli("trust", "sample").code == 0
    assert cli(*RUN, "sample", *secret, "--", "true").code == 0


def test_an_added_skill_keeps_its_pin_under_another_name(cli: Cli, make_skill: MakeSkill, home: Path) -> None:
    make_skill("sums", root="elsewhere")
    cli("add", "elsewhere/sums")
    installed = home.parent / "data" / "skills" / "sums"
    rename(installed, "sums2")
    for asked in ("sums", "sums2"):
        assert cli(*RUN, asked, "--", "true").json["error"]["code"] == "skill_changed"
    assert cli("update", "sums", "--yes").code == 0
    assert cli(*RUN, "sums", "--env", "HOME", "--", "true").code == 0


@pytest.mark.parametrize("named", [(), ("--skills", "../data/skills")])
def test_what_is_not_pinned_among_the_added_skills_gets_no_variables_even_where_their_folder_is_named(
    cli: Cli, make_skill: MakeSkill, named: tuple[str, ...]
) -> None:
    make_skill("placed", root="../data/skills")
    (row,) = cli("list", "--json", *named).json
    assert row["trust"] == "unpinned"
    assert "nothing" in cli("show", "placed", *named).out
    refused = cli(*RUN, "placed", *named, "--env", "HOME", "--", "true").json["error"]
    assert refused["message"] == "skill 'placed' is unpinned, so it gets no variables of yours"
    assert refused["hint"] == "sandbox-skills trust placed"
    assert cli(*RUN, "placed", *named, "--", "true").code == 0


def test_a_removed_skill_leaves_no_pin_of_the_name_it_had(
    cli: Cli, make_skill: MakeSkill, home: Path
) -> None:
    source = make_skill("sums", root="elsewhere")
    rename(source, "Sums Of All")
    cli("add", "elsewhere/sums")
    assert cli("remove", "sums-of-all").code == 0
    assert cli("trust", "Sums Of All", "--revoke").code == 2


def test_a_pin_is_revoked_by_the_folder_s_name_as_well(cli: Cli, skill: Path) -> None:
    rename(skill, "Other Name")
    cli("trust", "sample")
    assert cli("trust", "SAMPLE", "--revoke").code == 0
    assert cli("show", "sample", "--json").json["trust"] == "found"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--config", "pipe", "list"),
        (*RUN, "sample", "--env-file", "pipe", "--", "true"),
        ("add", "pipe"),
        ("validate", "pipe"),
        ("validate", "trap/SKILL.md"),
        ("--skills", "pipe", "list"),
    ],
)
def test_a_fifo_that_nobody_writes_to_is_refused_at_once(
    cli: Cli, skill: Path, home: Path, arguments: tuple[str, ...]
) -> None:
    (home / "trap").mkdir()
    os.mkfifo(home / "pipe")
    os.mkfifo(home / "trap" / "SKILL.md")
    assert cli(*arguments).code == 2


def test_a_fifo_for_a_lock_is_refused_at_once(cli: Cli, skill: Path, home: Path) -> None:
    (home.parent / "data").mkdir(exist_ok=True)
    os.mkfifo(home.parent / "data" / "skills.lock")
    for arguments in (("list",), ("trust", "sample"), (*RUN, "sample", "--", "true")):
        done = cli(*arguments)
        assert done.code == 2
        assert "not a regular file" in done.out + done.err


def test_no_settings_at_all_are_named_as_people_do(cli: Cli, skill: Path) -> None:
    assert cli("--config", "/dev/null", "list").code == 0


@pytest.mark.parametrize(
    "arguments",
    [("list",), ("add", "x"), ("validate", "x"), ("new", "x"), ("--config", "x", "list"), ("gc",)],
)
def test_a_current_directory_that_is_gone_is_told(cli: Cli, home: Path, arguments: tuple[str, ...]) -> None:
    shutil.rmtree(home)
    done = cli(*arguments)
    assert done.code == 2
    assert "current directory" in done.err

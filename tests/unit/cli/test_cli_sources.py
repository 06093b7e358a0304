"""add, update, remove and trust, from the command line."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING

import pytest
import typer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Cli, MakeSkill


def test_an_added_skill_is_listed_as_pinned_and_removed_again(
    cli: Cli, make_skill: MakeSkill, home: Path
) -> None:
    make_skill("sums", root="elsewhere", scripts=("run.py",))
    shutil.make_archive("sums", "zip", home / "elsewhere")
    done = cli("add", "sums.zip")
    assert done.code == 0
    assert done.out.startswith("added sums: ")
    (row,) = cli("list", "--json").json
    assert (row["name"], row["trust"]) == ("sums", "pinned")
    assert cli("add", "sums.zip").code == 2
    assert cli("remove", "sums").code == 0
    assert cli("list", "--json").json == []
    assert cli("remove", "sums").code == 2
    lock = json.loads((home.parent / "data" / "skills.lock").read_text())
    assert lock == {"skills": [], "version": 1}


def test_what_was_added_is_told_as_json(cli: Cli, make_skill: MakeSkill, home: Path) -> None:
    make_skill("a", root="many/a")
    make_skill("b", root="many/b", scripts=("run.py",))
    assert cli("add", "many", "--json").json["error"]["code"] == "source_invalid"
    added = cli("add", "many", "--path", "b/b", "--json").json
    assert (added["name"], added["source"], added["path"]) == ("b", str(home / "many"), "b/b")
    assert added["changes"] == {
        "added": ["SKILL.md", "scripts", "scripts/run.py"],
        "changed": [],
        "removed": [],
    }


def test_an_update_shows_the_files_and_waits_for_a_yes(cli: Cli, make_skill: MakeSkill, home: Path) -> None:
    source = make_skill("sums", root="elsewhere", scripts=("run.py", "old.py"))
    cli("add", "elsewhere/sums")
    assert cli("update", "sums").out == "sums is up to date\n"
    (source / "scripts" / "old.py").unlink()
    (source / "scripts" / "run.py").write_text("print('other')\n")
    (source / "new.txt").write_text("")
    installed = home.parent / "data" / "skills" / "sums"
    refused = cli("update", "sums")
    assert refused.code == 2
    assert refused.out.splitlines() == ["+ new.txt", "~ scripts/run.py", "- scripts/old.py"]
    assert "--yes" in refused.err
    assert (installed / "scripts" / "old.py").exists()
    done = cli("update", "sums", "--yes")
    assert (done.code, done.out.splitlines()[-1]) == (0, "sums is updated")
    assert (installed / "new.txt").exists()
    assert not (installed / "scripts" / "old.py").exists()
    (row,) = cli("list", "--json").json
    assert row["trust"] == "pinned"


@pytest.mark.parametrize("answer", [True, False])
def test_on_a_terminal_the_user_is_asked(
    cli: Cli,
    make_skill: MakeSkill,
    monkeypatch: pytest.MonkeyPatch,
    answer: bool,  # noqa: FBT001 - pytest gives it
) -> None:
    source = make_skill("sums", root="elsewhere")
    cli("add", "elsewhere/sums")
    (source / "new.txt").write_text("")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(typer, "confirm", lambda question, err: answer)
    assert cli("update", "sums").code == (0 if answer else 2)


def test_a_skill_that_was_not_fetched_cannot_be_updated(cli: Cli, make_skill: MakeSkill) -> None:
    make_skill("placed", root="../data/skills")
    assert "came from" in cli("update", "placed").err
    assert cli("update", "nothing").code == 2


def test_a_found_skill_is_trusted_and_refused_once_it_changed(cli: Cli, skill: Path) -> None:
    done = cli("trust", "sample")
    assert (done.code, done.out.splitlines()[0]) == (0, "+ SKILL.md")
    assert cli("show", "sample", "--json").json["trust"] == "pinned"
    run = ("--engine", "fake", "run", "sample", "--json", "--", "true")
    assert cli(*run).code == 0
    (skill / "scripts" / "one.py").write_text("print('other')\n")
    assert cli("show", "sample", "--json").json["trust"] == "changed"
    refused = cli(*run)
    assert (refused.code, refused.json["error"]["code"]) == (2, "skill_changed")
    assert "scripts/one.py" in refused.json["error"]["message"]
    again = cli("trust", "sample", "--json").json
    assert again["changes"] == {"added": [], "changed": ["scripts/one.py"], "removed": []}
    assert cli(*run).code == 0


def test_a_pin_can_be_revoked(cli: Cli, skill: Path) -> None:
    cli("trust", "sample")
    assert cli("trust", "sample", "--revoke").code == 0
    assert cli("show", "sample", "--json").json["trust"] == "found"
    assert cli("trust", "sample", "--revoke", "--json").json["error"]["code"] == "skill_not_found"
    cli("trust", "sample")
    assert cli("trust", "sample", "--revoke", "--json").json == {"name": "sample", "digest": None}


def test_a_damaged_lock_runs_nothing(cli: Cli, skill: Path, home: Path) -> None:
    (home.parent / "data").mkdir(exist_ok=True)
    (home.parent / "data" / "skills.lock").write_text("{}")
    done = cli("--engine", "fake", "run", "sample", "--json", "--", "true")
    assert (done.code, done.json["error"]["code"]) == (2, "settings_invalid")


def test_the_place_of_the_lock_is_a_setting(cli: Cli, skill: Path, home: Path) -> None:
    (home / "mine.yaml").write_text("skills: {lock: here.lock}\n")
    assert cli("--config", "mine.yaml", "trust", "sample").code == 0
    assert (home / "here.lock").exists()


def test_names_of_strangers_cannot_steer_a_terminal(cli: Cli, make_skill: MakeSkill) -> None:
    source = make_skill("sums", root="elsewhere")
    cli("add", "elsewhere/sums")
    (source / "a\u202eb").write_text("")
    done = cli("update", "sums", "--yes")
    assert "\u202e" not in done.out + done.err
    assert "\\u202e" in done.out

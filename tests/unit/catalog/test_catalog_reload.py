"""The live catalog sees every change on the next call, and costs little where there is none."""

from __future__ import annotations

import os
import shutil
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.catalog import (
    LENIENT,
    Catalog,
    Checked,
    ParseOptions,
    SkillRoot,
    SkillSpec,
    catalog,
    check_skill,
    default_roots,
    listing,
    render_skills_block,
    search_order,
    skill_file,
)
from sandbox_skills.errors import SkillNotFoundError
from tests.file_times import past_the_tick

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.catalog import Precedence


def put(root: Path, name: str, description: str = "Adds.") -> Path:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n---\nBody\n")
    return folder


def names(live: Catalog) -> list[str]:
    return [spec.name for spec in live.list()]


@pytest.fixture
def live(tmp_path: Path) -> Catalog:
    put(tmp_path, "sums")
    return Catalog([SkillRoot(str(tmp_path))])


@pytest.fixture
def aged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets fresh files count as settled, so that stamps decide: a change is later than they are, then."""
    past_the_tick()
    monkeypatch.setattr(skill_file, "SETTLED_NS", -(10**12))


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the skills that were parsed, in order."""
    paths: list[str] = []
    original = check_skill

    def counting(contents: bytes, path: str, options: ParseOptions) -> Checked:
        paths.append(path)
        return original(contents, path, options)

    monkeypatch.setattr(listing, "check_skill", counting)
    return paths


def test_an_added_a_changed_and_a_removed_skill_is_seen_on_the_next_call(
    live: Catalog, tmp_path: Path
) -> None:
    assert names(live) == ["sums"]
    put(tmp_path, "more")
    assert names(live) == ["more", "sums"]
    put(tmp_path, "sums", "Subtracts.")
    assert live.require("sums").description == "Subtracts."
    shutil.rmtree(tmp_path / "sums")
    assert names(live) == ["more"]
    assert not live.has("sums")


def test_a_change_of_the_same_size_and_time_is_seen_by_its_other_stamps(
    live: Catalog, tmp_path: Path, aged: None
) -> None:
    file = tmp_path / "sums" / "SKILL.md"
    before = file.stat()
    assert names(live) == ["sums"]
    put(tmp_path, "sums", "Muls.")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert live.require("sums").description == "Muls."


def test_where_nothing_has_changed_the_same_object_is_returned(live: Catalog, aged: None) -> None:
    assert live.snapshot() is live.snapshot()


def test_a_file_that_was_only_touched_is_not_parsed_again(
    live: Catalog, tmp_path: Path, aged: None, parsed: list[str]
) -> None:
    before = live.snapshot()
    os.utime(tmp_path / "sums" / "SKILL.md")
    (tmp_path / "empty").mkdir()
    after = live.snapshot()
    assert after.registry.list()[0] is before.registry.list()[0]
    assert len(parsed) == 1


def test_an_unknown_name_reads_the_disk_once_more_whatever_the_stamps_say(
    live: Catalog, aged: None, parsed: list[str]
) -> None:
    live.snapshot()
    with pytest.raises(SkillNotFoundError, match="sumz"):
        live.require("sumz")
    assert len(parsed) == 2


def test_unknown_names_cannot_keep_the_disk_busy(live: Catalog, aged: None, parsed: list[str]) -> None:
    for number in range(20):
        assert live.get(f"unknown-{number}") is None
    assert len(parsed) == 2


def test_a_skill_that_only_a_rescan_finds_is_returned_by_the_same_call(
    live: Catalog, tmp_path: Path, aged: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.snapshot()
    put(tmp_path, "late")
    monkeypatch.setattr(listing.ScanIndex, "unchanged", lambda self: True)  # as a clock that stands
    assert names(live) == ["sums"]
    assert live.require("late").name == "late"
    monkeypatch.setattr(catalog, "RESCAN_SECONDS", 0.0)
    shutil.rmtree(tmp_path / "late")
    assert live.get("elsewhere") is None
    assert names(live) == ["sums"]


def test_the_later_root_counts_where_precedence_is_last(tmp_path: Path) -> None:
    for root in ("a", "b"):
        put(tmp_path / root, "sums", f"From {root}.")
    roots = [SkillRoot(str(tmp_path / "a")), SkillRoot(str(tmp_path / "b"))]
    found = {
        order: Catalog(roots, replace(LENIENT, precedence=order)).snapshot().registry
        for order in ("first", "last")
    }
    assert found["first"].require("sums").description == "From a."
    assert found["last"].require("sums").description == "From b."
    assert [lost.spec.description for lost in found["last"].shadowed] == ["From a."]


@pytest.mark.parametrize(("order", "place"), [("first", "a"), ("last", "b")])
def test_precedence_holds_for_the_id_of_skills_with_different_names(
    tmp_path: Path, order: Precedence, place: str
) -> None:
    for root in ("a", "b"):
        file = tmp_path / root / "sums" / "SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text(f"---\nname: {root}\ndescription: d\n---\nBody")
    roots = [SkillRoot(str(tmp_path / "a")), SkillRoot(str(tmp_path / "b"))]
    assert Catalog(roots, replace(LENIENT, precedence=order)).require("sums").name == place


def test_named_roots_count_before_installed_and_found_ones_whatever_the_precedence(tmp_path: Path) -> None:
    named = [SkillRoot(str(tmp_path / "named"))]
    installed = SkillRoot(str(tmp_path / "installed"), scope="user")
    found = default_roots(tmp_path)
    for root in (*named, installed, *found):
        put(tmp_path / root.path, "sums", root.path)
    for order in ("first", "last"):
        roots = search_order(named, installed, found, precedence=order)
        skill = Catalog(roots, replace(LENIENT, precedence=order)).require("sums")
        assert skill.description == named[0].path
        roots = search_order([], installed, found, precedence=order)
        skill = Catalog(roots, replace(LENIENT, precedence=order)).require("sums")
        assert skill.description == installed.path


def test_a_found_root_that_is_also_named_is_only_named(tmp_path: Path) -> None:
    root = SkillRoot(str(tmp_path / "skills"))
    assert search_order([root], SkillRoot("/x"), default_roots(tmp_path)).count(root) == 1
    assert all(
        other.path != root.path or other.named
        for other in search_order([root], SkillRoot("/x"), default_roots(tmp_path), precedence="last")
    )


def test_a_found_skill_enters_a_prompt_only_when_a_review_accepts_it(tmp_path: Path) -> None:
    put(tmp_path / "skills", "sums")
    accepted: set[str] = set()

    def review(skills: tuple[SkillSpec, ...]) -> tuple[SkillSpec, ...]:
        return tuple(replace(spec, accepted=spec.name in accepted) for spec in skills)

    live = Catalog(default_roots(tmp_path), review=review)
    assert not live.require("sums").trusted
    assert render_skills_block(live.snapshot().registry, ["sums"]) == ""
    accepted.add("sums")
    assert live.require("sums").trusted
    assert "sums" in render_skills_block(live.snapshot().registry, ["sums"])


def test_threads_see_whole_snapshots_while_skills_come_and_go(live: Catalog, tmp_path: Path) -> None:
    faults: list[str] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            if "sums" not in names(live) or live.get("sums") is None:
                faults.append("sums was gone")

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(30):
        put(tmp_path, f"skill-{number}")
        time.sleep(0.002)
        shutil.rmtree(tmp_path / f"skill-{number}")
    stop.set()
    for thread in threads:
        thread.join()
    assert faults == []

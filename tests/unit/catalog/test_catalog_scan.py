"""Finding skills on a real disk."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.catalog import (
    Diagnostic,
    ScanOptions,
    ScanResult,
    Severity,
    SkillRoot,
    SkillScanner,
    listing,
    load_skill,
    scan_skill_dirs,
    skill_file,
)
from sandbox_skills.errors import SkillLoadError
from tests.file_times import past_the_tick

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LENIENT = ScanOptions(mode="lenient", max_depth=6)


def put(directory: Path, name: str = "", *, description: str = "Adds.", filename: str = "SKILL.md") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / filename
    file.write_text(f"---\nname: {name or directory.name}\ndescription: {description}\n---\nBody\n")
    return directory


def scan(*roots: Path | SkillRoot, options: ScanOptions = LENIENT) -> ScanResult:
    named = [root if isinstance(root, SkillRoot) else SkillRoot(str(root)) for root in roots]
    return SkillScanner(named, options).scan()


def names(result: ScanResult) -> list[str]:
    return [spec.name for spec in result.skills]


def codes(result: ScanResult) -> dict[str, list[str]]:
    return {issue.path: [item.code for item in issue.diagnostics] for issue in result.issues}


def test_skills_are_found_in_the_order_of_roots_and_paths(tmp_path: Path) -> None:
    for name in ("b/two", "b/one", "a/three"):
        put(tmp_path / name)
    found = scan_skill_dirs([tmp_path / "b", tmp_path / "a"])
    assert [spec.name for spec in found] == ["one", "two", "three"]
    assert found[0].path == str(tmp_path / "b/one/SKILL.md")
    assert found[0].root == SkillRoot(str(tmp_path / "b"))


def test_bodies_are_read_when_asked_for(tmp_path: Path) -> None:
    put(tmp_path / "sums")
    (spec,) = scan_skill_dirs([tmp_path])
    assert spec.held_body is None
    assert (spec.body, spec.body_chars) == ("Body", 4)
    (tmp_path / "sums/SKILL.md").unlink()
    with pytest.raises(SkillLoadError, match="No such file"):
        _ = spec.body


def test_a_body_that_lost_its_frontmatter_is_an_error(tmp_path: Path) -> None:
    put(tmp_path / "sums")
    (spec,) = scan_skill_dirs([tmp_path])
    (tmp_path / "sums/SKILL.md").write_text("# Only this")
    with pytest.raises(SkillLoadError, match="starts with a heading"):
        _ = spec.body


def test_a_huge_file_is_not_read_whole(tmp_path: Path) -> None:
    with (put(tmp_path / "sums") / "SKILL.md").open("r+") as file:
        file.truncate(1 << 40)
    assert codes(scan(tmp_path)) == {str(tmp_path / "sums/SKILL.md"): ["file-too-large"]}


def test_a_link_to_a_file_is_nothing_to_a_scan(tmp_path: Path) -> None:
    put(tmp_path / "sums")
    (tmp_path / "note.md").symlink_to("sums/SKILL.md")
    result = scan(tmp_path)
    assert (names(result), result.issues) == (["sums"], ())


def test_absent_roots_are_skipped_and_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = scan(tmp_path / "absent", tmp_path / "file")
    assert (names(result), codes(result)) == ([], {str(tmp_path / "file"): ["root-not-directory"]})


def test_a_root_can_be_a_skill_itself(tmp_path: Path) -> None:
    assert [spec.name for spec in scan_skill_dirs([put(tmp_path / "sums")])] == ["sums"]


@pytest.mark.parametrize(("depth", "found"), [(0, []), (1, ["one"]), (2, ["one", "two"])])
def test_depth_counts_from_the_root(tmp_path: Path, depth: int, found: list[str]) -> None:
    put(tmp_path / "one")
    put(tmp_path / "x/two")
    assert [spec.name for spec in scan_skill_dirs([tmp_path], max_depth=depth)] == found


def test_the_default_depth_is_three(tmp_path: Path) -> None:
    put(tmp_path / "a/b/three")
    put(tmp_path / "a/b/c/four")
    assert [spec.name for spec in scan_skill_dirs([tmp_path])] == ["three"]


def test_hidden_private_and_dependency_directories_are_not_entered(tmp_path: Path) -> None:
    for name in (".git/a", "_old/b", "node_modules/c", "ok/d"):
        put(tmp_path / name)
    assert [spec.name for spec in scan_skill_dirs([tmp_path])] == ["d"]
    assert len(scan_skill_dirs([tmp_path], skip_prefixes=())) == 4


def test_a_root_may_be_hidden(tmp_path: Path) -> None:
    put(tmp_path / ".claude/skills/sums")
    assert [spec.name for spec in scan_skill_dirs([tmp_path / ".claude/skills"])] == ["sums"]


def test_another_filename_can_be_looked_for(tmp_path: Path) -> None:
    put(tmp_path / "sums", filename="AGENT.md")
    assert [spec.name for spec in scan_skill_dirs([tmp_path], filename="AGENT.md")] == ["sums"]


def test_strict_raises_at_the_first_bad_file(tmp_path: Path) -> None:
    put(tmp_path / "a")
    put(tmp_path / "b", "Not_Good")
    with pytest.raises(SkillLoadError) as caught:
        scan_skill_dirs([tmp_path])
    assert caught.value.path == str(tmp_path / "b/SKILL.md")
    assert len(caught.value.violations) == 2


def test_lenient_tells_of_a_bad_file_and_goes_on(tmp_path: Path) -> None:
    put(tmp_path / "b")
    (put(tmp_path / "a") / "SKILL.md").write_text("# No header")
    told: list[tuple[str, tuple[Diagnostic, ...]]] = []
    found = scan_skill_dirs(
        [tmp_path], mode="lenient", on_issue=lambda path, items: told.append((path, items))
    )
    assert [spec.name for spec in found] == ["b"]
    ((path, (item,)),) = told
    assert (path, item.code) == (str(tmp_path / "a/SKILL.md"), "frontmatter-heading-first")
    assert item.severity is Severity.ERROR


@pytest.mark.parametrize(("precedence", "winner"), [("first", "one"), ("last", "two")])
def test_the_shadowed_skill_stays_visible_with_both_places(
    tmp_path: Path, precedence: str, winner: str
) -> None:
    put(tmp_path / "one/sums")
    put(tmp_path / "two/sums")
    options = ScanOptions(mode="lenient", precedence="first" if precedence == "first" else "last")
    result = scan(tmp_path / "one", tmp_path / "two", options=options)
    (kept,), (shadowed,) = result.skills, result.shadowed
    assert kept.dir == str(tmp_path / winner / "sums")
    assert shadowed.winner is kept
    (issue,) = result.issues
    assert issue.path == shadowed.spec.path
    assert issue.diagnostics[0].code == "skill-shadowed"
    assert kept.dir in issue.diagnostics[0].message


def test_lower_case_is_accepted_with_a_warning_and_only_leniently(tmp_path: Path) -> None:
    put(tmp_path / "sums", filename="skill.md")
    (spec,) = scan(tmp_path).skills
    assert [item.code for item in spec.diagnostics] == ["file-name-case"]
    assert scan_skill_dirs([tmp_path]) == ()


def test_the_proper_name_is_preferred_where_both_exist(tmp_path: Path) -> None:
    put(tmp_path / "sums", filename="skill.md", description="lower")
    put(tmp_path / "sums", description="upper")
    (spec,) = scan(tmp_path).skills
    assert (spec.description, spec.diagnostics) == ("upper", ())


def test_the_outer_skill_wins_and_the_inner_is_reported(tmp_path: Path) -> None:
    put(tmp_path / "outer")
    put(tmp_path / "outer/examples/inner")
    result = scan(tmp_path)
    assert names(result) == ["outer"]
    assert codes(result) == {str(tmp_path / "outer/examples/inner/SKILL.md"): ["skill-nested"]}
    assert [spec.name for spec in scan_skill_dirs([tmp_path])] == ["outer"]


def test_the_search_within_a_skill_is_bounded(tmp_path: Path) -> None:
    put(tmp_path / "outer")
    for number in range(100):
        put(tmp_path / f"outer/s{number:03}")
    assert len(codes(scan(tmp_path))) == 64


def test_a_linked_skill_is_followed_inside_the_roots_and_counted_once(tmp_path: Path) -> None:
    put(tmp_path / "root/deep/z-real")
    (tmp_path / "root/a-link").symlink_to("deep/z-real")
    result = scan(tmp_path / "root")
    assert [spec.dir for spec in result.skills] == [str(tmp_path / "root/deep/z-real")]
    assert result.issues == ()


def test_a_link_into_a_root_of_less_precedence_lifts_its_skill(tmp_path: Path) -> None:
    put(tmp_path / "shared/sums")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/sums").symlink_to(tmp_path / "shared/sums")
    (spec,) = scan(tmp_path / "mine", tmp_path / "shared").skills
    assert spec.dir == str(tmp_path / "shared/sums")
    assert spec.root == SkillRoot(str(tmp_path / "mine"))


def test_a_cycle_of_links_gives_one_entry(tmp_path: Path) -> None:
    put(tmp_path / "a/sums")
    (tmp_path / "a/up").symlink_to("..")
    (tmp_path / "a/self").symlink_to("self")
    result = scan(tmp_path)
    assert names(result) == ["sums"]
    assert codes(result) == {str(tmp_path / "a/self"): ["link-dangling"]}


def test_a_linked_directory_outside_the_roots_needs_trust(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere/sums")
    (tmp_path / "root").mkdir()
    (tmp_path / "root/sums").symlink_to(tmp_path / "elsewhere/sums")
    result = scan(tmp_path / "root")
    assert (names(result), codes(result)) == ([], {str(tmp_path / "root/sums"): ["link-outside-roots"]})
    assert names(scan(SkillRoot(str(tmp_path / "root"), trust_links=True))) == ["sums"]


def test_a_skill_file_that_links_out_of_its_skill_is_refused_unless_trusted(tmp_path: Path) -> None:
    put(tmp_path / "store", "sums")
    (tmp_path / "root/sums").mkdir(parents=True)
    (tmp_path / "root/sums/SKILL.md").symlink_to(tmp_path / "store/SKILL.md")
    result = scan(tmp_path / "root")
    assert (names(result), codes(result)) == (
        [],
        {str(tmp_path / "root/sums/SKILL.md"): ["link-leaves-skill"]},
    )
    with pytest.raises(SkillLoadError, match="outside its skill"):
        scan_skill_dirs([tmp_path / "root"])
    (spec,) = scan(SkillRoot(str(tmp_path / "root"), trust_links=True)).skills
    assert (spec.dir, spec.body) == (str(tmp_path / "root/sums"), "Body")


def test_a_skill_file_may_be_a_link_within_its_skill(tmp_path: Path) -> None:
    put(tmp_path / "sums", filename="real.md")
    (tmp_path / "sums/SKILL.md").symlink_to("real.md")
    assert names(scan(tmp_path)) == ["sums"]


def test_links_to_nothing_are_told(tmp_path: Path) -> None:
    (tmp_path / "sums").mkdir()
    (tmp_path / "sums/SKILL.md").symlink_to("gone.md")
    (tmp_path / "away").symlink_to("gone")
    (tmp_path / "note").symlink_to(tmp_path / "sums/SKILL.md")
    assert codes(scan(tmp_path)) == {
        str(tmp_path / "sums/SKILL.md"): ["link-dangling"],
        str(tmp_path / "away"): ["link-dangling"],
        str(tmp_path / "note"): ["link-dangling"],
    }


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_regular_file_is_not_read_and_not_waited_for(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    (tmp_path / "sums").mkdir()
    make(tmp_path / "sums/SKILL.md")
    assert codes(scan(tmp_path)) == {str(tmp_path / "sums/SKILL.md"): ["file-unreadable"]}
    with pytest.raises(SkillLoadError, match="not a regular file"):
        scan_skill_dirs([tmp_path])


def test_a_directory_that_cannot_be_listed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "good")
    (tmp_path / "shut").mkdir()
    scandir = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("shut"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    result = scan(tmp_path)
    assert (names(result), codes(result)) == (["good"], {str(tmp_path / "shut"): ["directory-unreadable"]})


def test_a_directory_within_a_skill_that_cannot_be_listed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (put(tmp_path / "sums") / "shut").mkdir()
    scandir = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("shut"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert names(scan(tmp_path)) == ["sums"]


def test_a_scan_ends_at_its_limit_of_directories_and_says_so_once(tmp_path: Path) -> None:
    for number in range(10):
        put(tmp_path / f"s{number}")
    result = scan(tmp_path, options=ScanOptions(mode="lenient", max_directories=5))
    assert (names(result), result.directories) == (["s0", "s1", "s2", "s3"], 5)
    assert list(codes(result).values()) == [["scan-capped"]]


def test_a_name_that_is_not_utf8_does_not_break_the_scan(tmp_path: Path) -> None:
    directory = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(directory)  # noqa: PTH102 — a Path holds no bytes
    with open(directory + b"/SKILL.md", "w") as file:  # noqa: PTH123 — likewise
        file.write("---\ndescription: d\n---\nBody")
    (spec,) = scan(tmp_path).skills
    assert (spec.name, spec.id, spec.body) == ("caf\N{REPLACEMENT CHARACTER}", "caf", "Body")


def test_spaces_and_leading_dashes_in_names_are_ordinary(tmp_path: Path) -> None:
    put(tmp_path / "-my skills/-a b")
    (spec,) = scan(tmp_path).skills
    assert (spec.name, spec.id) == ("-a b", "a-b")


class Rescan:
    """A tree old enough for its time stamps to be believed, and a scanner that has seen it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.reads: list[str] = []
        for name in ("a/one", "a/two", "b/three"):
            put(root / name)
        (root / "a/one/scripts").mkdir()
        past_the_tick()  # or a change would not show in the stamps that are believed
        later = time.time_ns() + 2 * skill_file.SETTLED_NS
        monkeypatch.setattr(time, "time_ns", lambda: later)
        monkeypatch.setattr(listing, "read_skill_file", self._read)
        self.scanner = SkillScanner([SkillRoot(str(root))], LENIENT)
        self.first = self.scanner.scan()
        self.reads.clear()

    def _read(self, path: str) -> skill_file.FileRead:
        self.reads.append(path)
        return skill_file.read_skill_file(path)

    def scan(self) -> ScanResult:
        return self.scanner.scan()


@pytest.fixture
def rescan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rescan:
    return Rescan(tmp_path, monkeypatch)


def test_an_unchanged_tree_gives_the_very_same_result_without_a_read(rescan: Rescan) -> None:
    assert rescan.scan() is rescan.first
    assert rescan.reads == []


def test_a_changed_skill_is_read_again_and_no_other(rescan: Rescan) -> None:
    put(rescan.root / "a/two", description="Subtracts.")
    result = rescan.scan()
    assert [spec.description for spec in result.skills] == ["Adds.", "Subtracts.", "Adds."]
    assert rescan.reads == [str(rescan.root / "a/two/SKILL.md")]
    assert result.skills[0] is rescan.first.skills[0]


def test_a_change_of_the_same_size_and_time_is_seen(rescan: Rescan) -> None:
    file = rescan.root / "a/two/SKILL.md"
    before = file.stat()
    put(rescan.root / "a/two", description="Subs.")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert rescan.scan().skills[1].description == "Subs."


def test_added_and_removed_skills_are_seen(rescan: Rescan) -> None:
    put(rescan.root / "a/four")
    (rescan.root / "b/three/SKILL.md").unlink()
    assert names(rescan.scan()) == ["four", "one", "two"]


def test_a_skill_added_within_a_skill_is_seen(rescan: Rescan) -> None:
    put(rescan.root / "a/one/scripts/inner")
    assert list(codes(rescan.scan()).values()) == [["skill-nested"]]


def test_a_root_that_goes_and_comes_is_seen(rescan: Rescan, tmp_path_factory: pytest.TempPathFactory) -> None:
    away = tmp_path_factory.mktemp("away") / "tree"
    rescan.root.rename(away)
    assert names(rescan.scan()) == []
    away.rename(rescan.root)
    assert names(rescan.scan()) == ["one", "two", "three"]


def test_a_file_that_cannot_be_looked_at_any_more_is_told(
    rescan: Rescan, monkeypatch: pytest.MonkeyPatch
) -> None:
    lstat = os.lstat

    def refuse(path: str) -> os.stat_result:
        if path.endswith("two/SKILL.md"):
            raise PermissionError(13, "Permission denied")
        return lstat(path)

    monkeypatch.setattr(os, "lstat", refuse)
    assert codes(rescan.scan()) == {str(rescan.root / "a/two/SKILL.md"): ["file-unreadable"]}


def test_a_fresh_stamp_is_not_believed(tmp_path: Path) -> None:
    put(tmp_path / "sums")
    scanner = SkillScanner([SkillRoot(str(tmp_path))], LENIENT)
    assert scanner.scan() is not scanner.scan()


def test_a_link_that_changes_its_target_is_seen(rescan: Rescan) -> None:
    link = rescan.root / "b/link"
    link.symlink_to("gone")
    assert list(codes(rescan.scan()).values()) == [["link-dangling"]]
    put(rescan.root / "b/gone")
    assert names(rescan.scan()) == ["one", "two", "gone", "three"]


def test_after_a_strict_failure_the_next_scan_starts_over(tmp_path: Path) -> None:
    put(tmp_path / "a", "Bad_Name")
    scanner = SkillScanner([SkillRoot(str(tmp_path))])
    with pytest.raises(SkillLoadError):
        scanner.scan()
    put(tmp_path / "a")
    assert names(scanner.scan()) == ["a"]


def test_one_skill_loads_by_its_directory_or_its_file(tmp_path: Path) -> None:
    put(tmp_path / "sums", filename="skill.md")
    for path in (tmp_path / "sums", tmp_path / "sums/skill.md"):
        checked = load_skill(path)
        assert checked.spec is not None
        assert [item.code for item in checked.diagnostics] == ["file-name-case"]


def test_a_path_without_a_skill_is_a_finding(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "gone"):
        checked = load_skill(path)
        assert checked.spec is None
        assert [item.code for item in checked.diagnostics] == ["file-unreadable"]

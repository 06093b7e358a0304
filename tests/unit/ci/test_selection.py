"""Which trials are run: by name, by part, by what Git says has changed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.catalog.listing import Listing, ScanIndex
from sandbox_skills.ci.discovery import FoundSkill, find_skills
from sandbox_skills.ci.selection import changed_skills, chosen, parse_shard, shard
from sandbox_skills.ci.trial import Skipped, Trial
from sandbox_skills.errors import InputError


def trial(name: str) -> Trial:
    return Trial("Sums", Path("sums"), name, Skipped("why"))


def test_a_word_is_looked_for_in_skill_and_name_in_any_case() -> None:
    trials = [trial("adds"), trial("smoke: valid")]
    assert [one.name for one in chosen(trials, ["SMOKE"])] == ["smoke: valid"]
    assert [one.name for one in chosen(trials, ["sums::add", "valid"])] == ["adds", "smoke: valid"]
    assert chosen(trials, []) == trials
    assert chosen(trials, ["nothing"]) == []


@given(st.lists(st.integers(), max_size=30), st.integers(1, 12))
def test_parts_are_together_all_and_each_once(items: list[int], parts: int) -> None:
    every = [item for part in range(1, parts + 1) for item in shard(list(enumerate(items)), part, parts)]
    assert sorted(every) == list(enumerate(items))


@pytest.mark.parametrize("text", ["", "0/3", "4/3", "1", "a/b", "-1/3", "1/0", "1/3/5"])
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="as in 2/5"):
        parse_shard(text)


def write_skill(root: Path, name: str) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: d\n---\nBody\n", encoding="utf-8")
    return folder


class TestDiscovery:
    def test_skills_come_in_the_order_of_folders_each_once_broken_ones_too(self, tmp_path: Path) -> None:
        for name in ("b", "a", "group/c"):
            write_skill(tmp_path, name)
        (write_skill(tmp_path, "bad") / "SKILL.md").write_text("# no front matter\n", encoding="utf-8")
        found = find_skills([tmp_path, tmp_path / "a", tmp_path / "b/SKILL.md"])
        assert [one.folder.relative_to(tmp_path).as_posix() for one in found] == ["a", "b", "bad", "group/c"]
        assert [one.spec is None for one in found] == [False, False, True, False]

    def test_two_skills_of_one_name_are_both_there(self, tmp_path: Path) -> None:
        write_skill(tmp_path / "x", "same")
        write_skill(tmp_path / "y", "same")
        assert len(find_skills([tmp_path])) == 2

    def test_what_was_looked_at_in_part_is_refused(self, tmp_path: Path) -> None:
        for name in ("a", "b", "c"):
            write_skill(tmp_path, name)
        assert len(find_skills([tmp_path], max_directories=4)) == 3
        with pytest.raises(InputError, match="too many directories; the rest was not looked at") as caught:
            find_skills([tmp_path], max_directories=3)
        assert "skills.max_directories" in caught.value.hint

    def test_a_folder_that_cannot_be_listed_is_refused_unless_it_is_a_skills_own(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write_skill(tmp_path, "a")
        listing = ScanIndex.listing

        def closed(self: ScanIndex, path: str) -> Listing:
            if Path(path).name == "closed":
                raise PermissionError(13, "Permission denied")
            return listing(self, path)

        monkeypatch.setattr(ScanIndex, "listing", closed)
        (tmp_path / "a/closed").mkdir()
        assert len(find_skills([tmp_path])) == 1
        (tmp_path / "closed").mkdir()
        with pytest.raises(InputError, match="cannot be listed"):
            find_skills([tmp_path])

    def test_a_path_without_skills_is_refused(self, tmp_path: Path) -> None:
        for path in (tmp_path, tmp_path / "nowhere"):
            with pytest.raises(InputError, match="there is no skill"):
                find_skills([path])


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


class TestChanged:
    @pytest.fixture
    def skills(self, tmp_path: Path) -> list[FoundSkill]:
        root = tmp_path / "repository"
        for name in ("changed", "new", "same", "staged"):
            folder = write_skill(root / "skills", name)
            (folder / "x é.txt").write_text("1", encoding="utf-8")
        git(root, "init", "-q")
        git(root, "add", "skills/changed", "skills/same", "skills/staged")
        git(root, "commit", "-qm", "first")
        (root / "skills/changed/x é.txt").write_text("2", encoding="utf-8")
        (root / "skills/staged/x é.txt").unlink()
        git(root, "add", "skills/staged")
        return find_skills([root / "skills"])

    def names(self, skills: list[FoundSkill]) -> list[str]:
        return [one.folder.name for one in skills]

    def test_only_skills_with_a_file_that_differs_are_kept(self, skills: list[FoundSkill]) -> None:
        assert self.names(changed_skills(skills, "HEAD")) == ["changed", "new", "staged"]
        git(skills[0].folder, "add", "-A")
        git(skills[0].folder, "commit", "-qam", "second")
        assert changed_skills(skills, "HEAD") == []
        assert self.names(changed_skills(skills, "HEAD~1")) == ["changed", "new", "staged"]

    def test_a_hook_of_git_finds_the_same(
        self, skills: list[FoundSkill], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = tmp_path / "other"
        git(skills[0].folder, "worktree", "add", "-q", str(other))
        (other / "skills/same/x é.txt").write_text("3", encoding="utf-8")
        # As Git starts the hooks of a worktree.
        monkeypatch.setenv("GIT_DIR", str(tmp_path / "repository/.git/worktrees/other"))
        monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "repository/.git/worktrees/other/index"))
        assert self.names(changed_skills(find_skills([other / "skills"]), "HEAD")) == ["same"]
        monkeypatch.setenv("GIT_DIR", ".git")
        assert self.names(changed_skills(skills, "HEAD")) == ["changed", "new", "staged"]

    @pytest.mark.parametrize(
        ("revision", "told"),
        [("no-such", "git says: fatal: bad revision"), ("--output=x", "that is no revision")],
    )
    def test_what_is_no_revision_is_refused(self, skills: list[FoundSkill], revision: str, told: str) -> None:
        with pytest.raises(InputError, match=told):
            changed_skills(skills, revision)

    def test_a_folder_that_git_does_not_know_is_refused(self, tmp_path: Path) -> None:
        write_skill(tmp_path, "a")
        with pytest.raises(InputError, match="not a git repository"):
            changed_skills(find_skills([tmp_path]), "HEAD")

    def test_no_setting_of_the_repository_starts_a_program(
        self, skills: list[FoundSkill], tmp_path: Path
    ) -> None:
        program = tmp_path / "program"
        program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n", encoding="utf-8")
        program.chmod(0o755)
        for name in ("core.fsmonitor", "diff.external", "core.pager"):
            git(skills[0].folder, "config", name, str(program))
        changed_skills(skills, "HEAD")
        assert not (tmp_path / "started").exists()

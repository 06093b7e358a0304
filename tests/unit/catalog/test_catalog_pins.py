"""The lock file: the same bytes for the same pins, whole or untouched, and never read as empty when damaged."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.catalog import Changes, LockFile, Pin
from sandbox_skills.catalog.pin_text import parse_pins, render_pins
from sandbox_skills.catalog.pins import changed_since, compare
from sandbox_skills.errors import EngineError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SUMS = Pin("sums", "aa", {"SKILL.md": "file 11", "run": "executable 22", "lib": "directory"})
FETCHED = Pin("pdf", "bb", {"SKILL.md": "file 33"}, "https://example.org/pdf.zip", "skills/pdf", "/s/pdf")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PINS = st.builds(Pin, TEXT, TEXT, st.dictionaries(TEXT, TEXT, max_size=3), TEXT, TEXT, TEXT)


@pytest.fixture
def lock(tmp_path: Path) -> LockFile:
    return LockFile(tmp_path / "data" / "skills.lock")


@given(st.lists(PINS, max_size=4))
def test_what_is_written_is_read_again(pins: list[Pin]) -> None:
    assert parse_pins(render_pins(pins)) == tuple(sorted(pins, key=lambda pin: (pin.name, pin.folder)))


def test_equal_pins_give_equal_bytes_in_any_order() -> None:
    turned = Pin("sums", "aa", dict(reversed(list(SUMS.files.items()))))
    assert render_pins([SUMS, FETCHED]) == render_pins([FETCHED, turned])


def test_the_form_of_the_file_is_stable() -> None:
    assert json.loads(render_pins([SUMS, FETCHED])) == {
        "version": 1,
        "skills": [
            {
                "name": "pdf",
                "folder": "/s/pdf",
                "digest": "bb",
                "files": {"SKILL.md": "file 33"},
                "source": "https://example.org/pdf.zip",
                "path": "skills/pdf",
            },
            {"name": "sums", "digest": "aa", "files": dict(SUMS.files)},
        ],
    }


@given(st.text(max_size=60) | st.recursive(st.none() | st.integers() | TEXT, st.lists).map(json.dumps))
def test_any_other_text_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_pins(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"version": 2, "skills": []}',
        '{"version": 1}',
        '{"version": 1, "skills": {}}',
        '{"version": 1, "skills": [{"name": "a", "digest": 1, "files": {}}]}',
        '{"version": 1, "skills": [{"name": "a", "digest": "x"}]}',
        '{"version": 1, "skills": [{"digest": "x", "files": {}}]}',
        '{"version": 1, "skills": [{"name": "a", "digest": "x", "files": {"f": null}}]}',
        '{"version": 1, "skills": [], "more": 1}',
        "[" * 100_000,
    ],
)
def test_a_damaged_lock_is_an_error_and_not_an_empty_one(lock: LockFile, text: str) -> None:
    lock.path.parent.mkdir()
    lock.path.write_text(text)
    with pytest.raises(SettingsError, match=r"skills\.lock"):
        lock.pins()
    with pytest.raises(SettingsError):
        lock.put(SUMS)
    assert lock.path.read_text() == text


def test_a_lock_that_is_too_long_is_not_read(lock: LockFile, monkeypatch: pytest.MonkeyPatch) -> None:
    lock.put(SUMS)
    monkeypatch.setattr("sandbox_skills.catalog.lock_file.MAX_BYTES", 10)
    with pytest.raises(SettingsError, match="longer than 10 bytes"):
        LockFile(lock.path).pins()


def test_pins_are_set_and_dropped_and_seen_by_others(lock: LockFile) -> None:
    other = LockFile(lock.path)
    assert other.pins() == ()
    lock.put(SUMS)
    lock.put(FETCHED)
    assert other.pins() == (FETCHED, SUMS)
    assert other.drop(lambda pin: pin.name == "sums")
    assert not other.drop(lambda pin: pin.name == "sums")
    assert lock.pins() == (FETCHED,)
    lock.path.unlink()
    assert other.pins() == ()


def test_a_pin_takes_the_place_of_the_one_with_its_name_and_folder_and_of_those_that_are_said(
    lock: LockFile,
) -> None:
    elsewhere = replace(SUMS, folder="/elsewhere")
    newer = replace(SUMS, digest="cc")
    for pin in (SUMS, elsewhere, FETCHED, newer):
        lock.put(pin)
    assert lock.pins() == (FETCHED, newer, elsewhere)
    lock.put(SUMS, replaced=lambda old: old.folder == "/elsewhere")
    assert lock.pins() == (FETCHED, SUMS)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_lock_that_is_no_regular_file_is_an_error_at_once(
    lock: LockFile, make: Callable[[Path], None]
) -> None:
    lock.path.parent.mkdir()
    make(lock.path)
    with pytest.raises(SettingsError, match="is not a regular file"):
        lock.pins()


def test_what_a_writer_that_was_killed_left_goes_with_the_next_write(lock: LockFile) -> None:
    lock.path.parent.mkdir()
    lock.path.with_name(".skills.lock-new").write_text("half")
    lock.put(SUMS)
    assert [path.name for path in lock.path.parent.iterdir()] == ["skills.lock"]


def test_a_write_that_fails_leaves_the_file_as_it_was(
    lock: LockFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock.put(SUMS)
    before = lock.path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(EngineError, match="No space left"):
        lock.put(FETCHED)
    assert lock.path.read_bytes() == before
    assert [path.name for path in lock.path.parent.iterdir()] == ["skills.lock"]


def test_writers_lose_no_pin_of_each_other(lock: LockFile) -> None:
    def write(number: int) -> None:
        LockFile(lock.path).put(Pin(f"skill-{number}", "x", {}))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(lock.pins()) == 16


def test_changes_are_told_by_path() -> None:
    now = {"SKILL.md": "file 12", "lib": "directory", "new": "link x"}
    changes = compare(SUMS.files, now)
    assert changes == Changes(added=("new",), changed=("SKILL.md",), removed=("run",))
    assert str(changes) == "added 'new'; changed 'SKILL.md'; removed 'run'"
    assert not compare(now, now)
    assert str(compare(now, now)) == "nothing"


def test_an_error_says_what_a_skill_was_pinned_as_and_calls_itself_now() -> None:
    error = changed_since(SUMS, {**SUMS.files, "SKILL.md": "file 12"}, name="sums 2; rm x")
    assert (
        error.message
        == "skill 'sums' was pinned as 'sums', now calls itself 'sums 2; rm x': changed 'SKILL.md'"
    )
    assert "sandbox-skills trust 'sums 2; rm x'" in error.hint


def test_an_error_names_a_few_paths_and_counts_the_rest() -> None:
    error = changed_since(SUMS, {f"{number:03}\n": "file 1" for number in range(100)})
    assert "and 95 more" in error.message
    assert "\n" not in error.message
    assert (len(error.added), error.code) == (100, "skill_changed")
    assert "sandbox-skills trust sums" in error.hint

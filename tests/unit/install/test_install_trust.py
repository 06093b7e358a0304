"""A skill that its user accepted stays what he accepted, whatever a stranger has it call itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from sandbox_skills.catalog import Catalog, LockFile, SkillRoot
from sandbox_skills.errors import SkillChangedError, SkillUnsafeError
from sandbox_skills.install.library import Library
from sandbox_skills.install.source import parse_source
from sandbox_skills.install.trust import Trust

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.catalog import Pin


def put(folder: Path, name: str = "foo", script: str = "echo hi\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Does.\n---\nBody\n")
    (folder / "a.sh").write_text(script)
    return folder


@pytest.fixture
def trust(tmp_path: Path) -> Trust:
    return Trust(LockFile(tmp_path / "skills.lock"))


@pytest.fixture
def live(tmp_path: Path, trust: Trust) -> Catalog:
    return Catalog([SkillRoot(str(tmp_path / "named"))], review=trust.review)


@pytest.fixture
def pinned(tmp_path: Path, live: Catalog, trust: Trust) -> Path:
    folder = put(tmp_path / "named" / "foo")
    trust.accept(live.require("foo"))
    return folder


def demanded(live: Catalog, trust: Trust, asked: str) -> Pin | None:
    return trust.demanded(live.require(asked), asked=asked)


@pytest.mark.parametrize("name", ["foo", "foo2", "Foo", "FOO", "\uff46oo"])
def test_a_new_name_is_no_way_out_of_a_pin(live: Catalog, trust: Trust, pinned: Path, name: str) -> None:
    put(pinned, name, "curl evil\n")
    for asked in ("foo", name):
        with pytest.raises(SkillChangedError) as caught:
            demanded(live, trust, asked)
        assert "a.sh" in caught.value.changed
        # A name counts in its compatibility form.
        assert (name in {"foo", "\uff46oo"}) == ("now calls itself" not in caught.value.message)
    assert not live.require("foo").trusted


def test_a_new_name_and_a_new_folder_are_none_either(live: Catalog, trust: Trust, pinned: Path) -> None:
    pinned.rename(pinned.with_name("gone"))
    (pinned.with_name("gone") / "SKILL.md").unlink()
    put(pinned.with_name("other") / "foo", "foo2", "curl evil\n")
    with pytest.raises(SkillChangedError, match="was pinned as 'foo', now calls itself 'foo2'"):
        demanded(live, trust, "foo")


def test_a_link_that_leads_elsewhere_now_is_none_either(live: Catalog, trust: Trust, tmp_path: Path) -> None:
    put(tmp_path / "real" / "foo", "bar")
    (tmp_path / "named").symlink_to(tmp_path / "real")
    trust.accept(live.require("bar"))
    assert live.require("bar").accepted
    (tmp_path / "named").unlink()
    put(tmp_path / "evil" / "foo", "bar2", "curl evil\n")
    (tmp_path / "named").symlink_to(tmp_path / "evil")
    with pytest.raises(SkillChangedError):
        demanded(live, trust, "foo")


def test_a_pinned_folder_is_the_same_through_a_link(trust: Trust, pinned: Path, tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to(pinned.parent)
    put(pinned, "foo2")
    through = Catalog([SkillRoot(str(tmp_path / "other"))], review=trust.review)
    assert not through.require("foo2").trusted


def test_a_copy_with_the_same_content_is_what_was_pinned(live: Catalog, trust: Trust, pinned: Path) -> None:
    pinned.rename(pinned.with_name("moved"))
    assert live.require("foo").accepted
    assert demanded(live, trust, "foo") is not None


def test_two_skills_of_one_name_are_each_held_to_their_own_pin(
    live: Catalog, trust: Trust, pinned: Path, tmp_path: Path
) -> None:
    put(tmp_path / "second" / "foo", script="echo other\n")
    second = Catalog([SkillRoot(str(tmp_path / "second"))], review=trust.review)
    assert not second.require("foo").trusted
    trust.accept(second.require("foo"))
    assert (second.require("foo").accepted, live.require("foo").accepted) == (True, True)
    assert demanded(live, trust, "foo") != demanded(second, trust, "foo")


def test_what_is_accepted_anew_takes_the_place_of_all_that_was_pinned_there(
    live: Catalog, trust: Trust, pinned: Path
) -> None:
    put(pinned, "foo2", "echo new\n")
    accepted = trust.accept(live.require("foo"))
    assert accepted.changes.changed == ("SKILL.md", "a.sh")
    assert trust.pins_at(pinned) == (accepted.pin,)
    assert demanded(live, trust, "foo") == accepted.pin
    assert live.require("foo2").accepted


def test_a_skill_that_nothing_is_pinned_for_may_be_anything(
    live: Catalog, trust: Trust, pinned: Path
) -> None:
    put(pinned.with_name("bar"), "bar")
    assert demanded(live, trust, "bar") is None


def test_a_pinned_skill_that_cannot_be_read_is_not_run(live: Catalog, trust: Trust, pinned: Path) -> None:
    spec = live.require("foo")
    (pinned / "out").symlink_to("/etc/passwd")
    with pytest.raises(SkillUnsafeError):
        trust.demanded(spec)


@pytest.mark.parametrize("name", ["foo", "foo2"])
def test_a_removed_skill_leaves_no_pin_whatever_it_calls_itself(
    trust: Trust, tmp_path: Path, name: str
) -> None:
    library = Library(tmp_path / "installed", trust)
    with library.incoming() as incoming:
        source = parse_source(str(put(tmp_path / "foo")), base=tmp_path)
        place = library.place(anyio.run(library.fetch, source, incoming))
    put(place, name)
    trust.accept(Catalog([SkillRoot(str(library.root))], review=trust.review).require(name))
    assert [pin.source for pin in trust.pins_at(place)] == [str(tmp_path / "foo")]
    assert library.remove("foo") == place
    assert trust.pins_at(place) == ()
    assert not trust.forget(name)

"""Contents of skills on disk: whole or not there, never written again, and gone when nobody keeps them."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.daemon.service.skill_folders import SkillFolders
from sandbox_skills.daemon.service.skill_upload import Upload, taken_from
from sandbox_skills.errors import SkillLoadError, SourceError
from sandbox_skills.install.limits import FetchLimits
from sandbox_skills.install.received import ReceivedFile

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.install.taking import Taken

TEXT = "---\nname: sums\ndescription: Adds numbers.\n---\nRun it.\n"


@pytest.fixture
def folders(tmp_path: Path) -> SkillFolders:
    return SkillFolders(tmp_path / "tenants")


def sent(incoming: Path, **files: str) -> Taken:
    received = []
    for number, (name, text) in enumerate(files.items()):
        path = incoming / f"sent-{number}"
        path.write_text(text, encoding="utf-8")
        received.append(ReceivedFile(name.replace("__", "."), path))
    return taken_from(Upload(files=tuple(received)), incoming, FetchLimits())


def add(folders: SkillFolders, tenant: str, **files: str) -> tuple[str, Path]:
    with folders.incoming(tenant=tenant) as incoming:
        taken = sent(incoming, **files)
        return taken.content.digest, folders.add(taken, tenant=tenant)


def test_a_content_is_found_by_its_digest_by_its_tenant_alone(folders: SkillFolders, tmp_path: Path) -> None:
    digest, place = add(folders, "a", SKILL__md=TEXT, more="x")
    assert folders.find(digest, tenant="a") == place
    assert place == tmp_path / "tenants" / "a" / digest / "sums"
    assert folders.find(digest, tenant="b") is None
    assert (place / "more").read_text() == "x"
    assert [path.name for path in (tmp_path / "tenants" / "a").iterdir()] == [digest]


def test_nothing_in_it_can_be_written(folders: SkillFolders) -> None:
    _, place = add(folders, "a", SKILL__md=TEXT)
    assert stat.S_IMODE(place.stat().st_mode) == 0o555
    assert stat.S_IMODE((place / "SKILL.md").stat().st_mode) == 0o444


def test_the_same_content_twice_is_one(folders: SkillFolders) -> None:
    assert add(folders, "a", SKILL__md=TEXT) == add(folders, "a", SKILL__md=TEXT)


def test_what_nobody_keeps_is_swept_and_the_rest_stays(folders: SkillFolders) -> None:
    kept, place = add(folders, "a", SKILL__md=TEXT)
    other, _ = add(folders, "a", SKILL__md=TEXT, more="x")
    assert folders.sweep({kept}, tenant="a") == [other]
    assert folders.find(other, tenant="a") is None
    assert (place / "SKILL.md").exists()
    assert folders.sweep({kept}, tenant="a") == []
    assert folders.sweep((), tenant="nobody") == []
    assert folders.tenants() == ["a"]


def test_whoever_has_opened_a_folder_reads_on_after_it_was_swept(folders: SkillFolders) -> None:
    _, place = add(folders, "a", SKILL__md=TEXT)
    with (place / "SKILL.md").open() as opened:
        folders.sweep((), tenant="a")
        assert opened.read() == TEXT


@pytest.mark.parametrize(
    ("files", "error"),
    [({"notes": "x"}, SourceError), ({"SKILL__md": "no frontmatter"}, SkillLoadError), ({}, SourceError)],
)
def test_an_upload_that_is_no_skill_leaves_nothing(
    folders: SkillFolders, tmp_path: Path, files: dict[str, str], error: type[Exception]
) -> None:
    with pytest.raises(error) as raised:
        add(folders, "a", **files)
    assert str(tmp_path) not in str(raised.value)
    assert list((tmp_path / "tenants" / "a").iterdir()) == []

"""Skills that are added, updated, removed and trusted: nothing enters but what was checked and pinned."""

from __future__ import annotations

import os
import shutil
import zipfile
from typing import TYPE_CHECKING

import anyio
import pytest

from sandbox_skills.catalog import Catalog, LockFile, SkillRoot, default_roots
from sandbox_skills.errors import (
    PathEscapeError,
    SettingsError,
    SkillLoadError,
    SkillNotFoundError,
    SkillUnsafeError,
    SourceError,
)
from sandbox_skills.install.download import is_public, redirect_fault
from sandbox_skills.install.library import Library
from sandbox_skills.install.source import Source, parse_source
from sandbox_skills.install.taking import locate
from sandbox_skills.install.trust import Trust

if TYPE_CHECKING:
    from pathlib import Path


def put(folder: Path, name: str = "", description: str = "Adds.") -> Path:
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        f"---\nname: {name or folder.name}\ndescription: {description}\n---\nBody\n"
    )
    (folder / "scripts" / "run.sh").write_text("echo hi\n")
    (folder / "scripts" / "run.sh").chmod(0o755)
    return folder


@pytest.fixture
def trust(tmp_path: Path) -> Trust:
    return Trust(LockFile(tmp_path / "skills.lock"))


@pytest.fixture
def library(tmp_path: Path, trust: Trust) -> Library:
    return Library(tmp_path / "installed", trust)


def add(library: Library, text: str, path: str = "", *, replacing: str | None = None) -> Path:
    with library.incoming() as incoming:
        source = parse_source(text, path, base=library.root.parent)
        fetched = anyio.run(library.fetch, source, incoming)
        return library.place(fetched, replacing=replacing)


def test_a_folder_is_copied_pinned_and_trusted(library: Library, trust: Trust, tmp_path: Path) -> None:
    put(tmp_path / "sums")
    (tmp_path / "sums" / ".git").mkdir()
    place = add(library, "sums")
    assert place == library.root / "sums"
    assert sorted(path.name for path in place.rglob("*")) == ["SKILL.md", "run.sh", "scripts"]
    assert (place / "scripts" / "run.sh").stat().st_mode & 0o777 == 0o755
    live = Catalog([SkillRoot(str(library.root))], review=trust.review)
    skill = live.require("sums")
    assert (skill.trusted, skill.accepted) == (True, True)
    (pin,) = trust.pins_at(place)
    assert (pin.source, pin.digest) == (str(tmp_path / "sums"), skill.digest)
    assert [path.name for path in library.root.iterdir()] == ["sums"]


def test_an_archive_with_one_skill_somewhere_needs_no_path(library: Library, tmp_path: Path) -> None:
    put(tmp_path / "repo" / "main" / ".claude" / "skills" / "sums")
    shutil.make_archive(str(tmp_path / "a"), "gztar", tmp_path / "repo")
    assert add(library, "a.tar.gz").name == "sums"


def test_a_source_with_several_skills_asks_for_a_path(library: Library, tmp_path: Path) -> None:
    put(tmp_path / "many" / "a" / "sums")
    put(tmp_path / "many" / "b" / "sums", "sums")
    with pytest.raises(SourceError, match="2 skills") as caught:
        add(library, "many")
    assert "a/sums, b/sums" in caught.value.hint
    assert add(library, "many", "b/sums").name == "sums"


def test_a_skill_goes_by_its_name_and_never_by_a_path_in_it(library: Library, tmp_path: Path) -> None:
    put(tmp_path / "x", "../../Etc / Passwd")
    assert add(library, "x") == library.root / "etc-passwd"


def test_a_skill_that_is_there_is_not_overwritten(library: Library, tmp_path: Path) -> None:
    put(tmp_path / "sums")
    add(library, "sums")
    with pytest.raises(SourceError, match="already"):
        add(library, "sums")


def test_a_skill_that_does_not_load_is_refused_and_leaves_nothing(library: Library, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "SKILL.md").write_text("# no front matter")
    with pytest.raises(SkillLoadError):
        add(library, "x")
    assert list(library.root.iterdir()) == []


@pytest.mark.parametrize("leads_to", ["/etc/passwd", "../../../etc/passwd"])
def test_a_skill_with_a_link_that_leaves_it_is_refused(
    library: Library, trust: Trust, tmp_path: Path, leads_to: str
) -> None:
    put(tmp_path / "sums")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(tmp_path / "sums" / "SKILL.md", "sums/SKILL.md")
        info = zipfile.ZipInfo("sums/link")
        info.create_system, info.external_attr = 3, 0o120777 << 16
        archive.writestr(info, leads_to)
    with pytest.raises(SkillUnsafeError, match="link"):
        add(library, "a.zip")
    assert trust.pins_at(library.root / "sums") == ()
    assert list(library.root.iterdir()) == []


def test_a_fifo_in_a_folder_is_refused(library: Library, tmp_path: Path) -> None:
    os.mkfifo(put(tmp_path / "sums") / "pipe")
    with pytest.raises(SkillUnsafeError, match="FIFO"):
        add(library, "sums")


def test_a_source_without_a_skill_and_a_path_without_a_folder_are_told(
    library: Library, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match=r"no SKILL\.md"):
        add(library, "empty")
    with pytest.raises(SourceError, match="no folder 'x'"):
        add(library, "empty", "x")


def test_a_path_goes_through_no_link(tmp_path: Path) -> None:
    put(tmp_path / "sums")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to("../sums")
    with pytest.raises(PathEscapeError):
        locate(tmp_path / "root", "link")
    assert locate(tmp_path, "sums/SKILL.md") == tmp_path / "sums"


def test_an_update_replaces_the_whole_skill_and_its_pin(
    library: Library, trust: Trust, tmp_path: Path
) -> None:
    source = put(tmp_path / "sums")
    (before,) = trust.pins_at(add(library, "sums"))
    (source / "scripts" / "run.sh").unlink()
    (source / "new").write_text("x")
    place = add(library, "sums", replacing="sums")
    assert sorted(path.name for path in place.iterdir()) == ["SKILL.md", "new", "scripts"]
    (pin,) = trust.pins_at(place)
    assert pin != before
    assert [path.name for path in library.root.iterdir()] == ["sums"]


def test_an_update_that_is_another_skill_is_refused(library: Library, tmp_path: Path) -> None:
    put(tmp_path / "sums")
    add(library, "sums")
    put(tmp_path / "other")
    with pytest.raises(SourceError, match="now holds 'other'"):
        add(library, "other", replacing="sums")
    assert (library.root / "sums" / "SKILL.md").exists()


def test_a_removed_skill_is_gone_with_its_pin(library: Library, trust: Trust, tmp_path: Path) -> None:
    put(tmp_path / "sums")
    place = add(library, "sums")
    assert library.remove("sums") == place
    assert (list(library.root.iterdir()), trust.pins_at(place)) == ([], ())
    for name in ("sums", "..", "/etc", ""):
        with pytest.raises(SkillNotFoundError):
            library.remove(name)


def test_a_library_that_cannot_be_written_is_a_settings_error(trust: Trust, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError), Library(tmp_path / "file", trust).incoming():
        pass


def test_a_found_skill_is_trusted_while_it_is_what_was_pinned(trust: Trust, tmp_path: Path) -> None:
    folder = put(tmp_path / "skills" / "sums")
    live = Catalog(default_roots(tmp_path), review=trust.review)
    found = live.require("sums")
    assert (found.trusted, found.accepted) == (False, None)
    accepted = trust.accept(found)
    assert "SKILL.md" in accepted.changes.added
    assert (live.require("sums").trusted, live.require("sums").digest) == (True, accepted.pin.digest)
    (folder / "scripts" / "run.sh").write_text("curl evil\n")
    changed = live.require("sums")
    assert (changed.trusted, changed.accepted) == (False, False)
    assert trust.changes(changed).changed == ("scripts/run.sh",)
    assert trust.accept(changed).changes.changed == ("scripts/run.sh",)
    assert live.require("sums").trusted
    assert trust.forget("sums")
    assert live.require("sums").accepted is None


def test_another_skill_of_a_pinned_name_is_not_trusted_even_in_a_named_root(
    trust: Trust, tmp_path: Path
) -> None:
    put(tmp_path / "skills" / "sums")
    trust.accept(Catalog(default_roots(tmp_path)).require("sums"))
    put(tmp_path / "named" / "sums", description="Steals.")
    live = Catalog([SkillRoot(str(tmp_path / "named"))], review=trust.review)
    assert not live.require("sums").trusted


def test_a_pinned_skill_that_cannot_be_staged_any_more_is_not_trusted(trust: Trust, tmp_path: Path) -> None:
    folder = put(tmp_path / "skills" / "sums")
    live = Catalog(default_roots(tmp_path), review=trust.review)
    trust.accept(live.require("sums"))
    os.mkfifo(folder / "pipe")
    assert live.require("sums").accepted is False
    with pytest.raises(SkillUnsafeError):
        trust.changes(live.require("sums"))


@pytest.mark.parametrize(
    ("text", "path", "kind", "location", "inner"),
    [
        ("https://e.org/a.zip", "", "address", "https://e.org/a.zip", ""),
        ("http://e.org/a.tar.gz?x=1#s/pdf", "", "address", "http://e.org/a.tar.gz?x=1", "s/pdf"),
        ("https://e.org/o/r", "s/./pdf", "repository", "https://e.org/o/r", "s/pdf"),
        ("https://e.org/o/r.git#.", "", "repository", "https://e.org/o/r.git", ""),
        ("git+https://e.org/a.zip", "", "repository", "git+https://e.org/a.zip", ""),
        ("git@e.org:o/r.git", "x", "repository", "git@e.org:o/r.git", "x"),
        ("ssh://git@e.org/o/r", "", "repository", "ssh://git@e.org/o/r", ""),
        ("git+repo", "", "repository", "git+BASE/repo", ""),
        ("HTTP://e.org/o/r", "", "repository", "http://e.org/o/r", ""),
        ("git+HttpS://e.org/A.zip", "", "repository", "git+https://e.org/A.zip", ""),
        ("HTTPS://e.org/A.ZIP", "", "address", "https://e.org/A.ZIP", ""),
        ("folder", "", "folder", "BASE/folder", ""),
        ("file#1.zip", "", "archive", "BASE/file#1.zip", ""),
    ],
)
def test_a_source_is_what_it_looks_like(
    tmp_path: Path, text: str, path: str, kind: str, location: str, inner: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file#1.zip").write_text("")
    source = parse_source(text, path, base=tmp_path)
    where = location.replace("BASE", str(tmp_path))
    assert source == Source(kind, where, inner)  # type: ignore[arg-type]
    assert parse_source(source.location, source.path, base=tmp_path / "elsewhere") == source


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "-x",
            "file:///etc",
            "ftp://e.org/a.zip",
            "git://e.org/r",
            "ext::sh -c id",
            "missing",
            "a\0b",
            "a\nb",
        ),
        *("https://u:p@e.org/a.zip", "https://token@e.org/r", "https:///a.zip", "ssh://-oProxyCommand=x/r"),
        *("git+file:///repo", "https://[/a.zip", "https://e.org/r#a"),
    ],
)
def test_no_other_source_is_taken(tmp_path: Path, text: str) -> None:
    with pytest.raises(SourceError):
        parse_source(text, "x", base=tmp_path)


@pytest.mark.parametrize("path", ["../x", "/x", "a\\b"])
def test_a_path_within_a_source_stays_in_it(tmp_path: Path, path: str) -> None:
    with pytest.raises(PathEscapeError):
        parse_source("https://e.org/r", path, base=tmp_path)


@pytest.mark.parametrize(
    ("following", "from_inside", "to_inside", "fault"),
    [
        ("https://b.org/", False, False, ""),
        ("http://b.org/", False, False, "is not encrypted"),
        ("file:///etc/passwd", False, False, "is not fetched"),
        ("https://10.0.0.1/", False, True, "is an address of this host or its network"),
        ("https://10.0.0.1/", True, True, ""),
    ],
)
def test_a_redirect_leads_a_public_address_only_to_public_ones(
    following: str, fault: str, *, from_inside: bool, to_inside: bool
) -> None:
    found = redirect_fault("https://a.org/", following, from_inside=from_inside, to_inside=to_inside)
    assert found == fault


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "fe80::1%eth0", "::ffff:10.0.0.1"]
)
def test_addresses_of_this_host_and_its_network_are_not_public(address: str) -> None:
    assert not is_public(address)
    assert is_public("1.1.1.1")

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from sandbox_skills.engines.image import base as image_base
from sandbox_skills.engines.image.base import (
    REGISTRY_BASE,
    BaseRequest,
    bootstrap_command,
    bootstrap_tag,
    has_base,
    mirrors_of,
    provide_base,
    serves,
)
from sandbox_skills.engines.image_source import read_sources
from sandbox_skills.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox_skills.engines.image.daemon import ImageDaemon

SOURCE = Path(__file__).parents[3] / "runner-image"
SLIM, FULL = read_sources("slim", SOURCE), read_sources("full", SOURCE)
MADE = bootstrap_tag(SLIM.packages)


class FakeDaemon:
    """Remembers what it was asked for; has the images it was given, and a registry that answers or not."""

    def __init__(self, *has: str, registry: bool = False) -> None:
        self.has = set(has)
        self.registry = registry
        self.did: list[str] = []

    def find(self, reference: str) -> object:
        return object() if reference in self.has else None

    def registry_answers(self, reference: str) -> bool:
        self.did.append(f"asked {reference}")
        return self.registry

    def pull(self, reference: str, progress: Callable[[str], None]) -> None:
        progress("pulling")
        self.did.append(f"pulled {reference}")

    def import_tar(self, tar: Path, tag: str, label: str) -> None:
        assert tar.is_file()
        assert label == "sandbox-skills.bootstrap"
        self.did.append(f"imported {tag}")


@pytest.fixture
def mmdebstrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that writes an empty tar and does nothing else."""
    program = tmp_path / "bin" / "mmdebstrap"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nfor a; do case $a in *.tar) : > "$a" ;; esac; done\n')
    program.chmod(0o755)
    monkeypatch.setattr("shutil.which", {"mmdebstrap": str(program)}.get)
    return program


def provide(daemon: FakeDaemon, cache: Path, base: image_base.Base, *, fresh: bool = False) -> str:
    request = BaseRequest(SLIM, base, fresh=fresh)
    return provide_base(cast("ImageDaemon", daemon), request, cache, lambda _: None)


def test_a_base_that_is_there_is_taken_without_asking_a_registry(tmp_path: Path) -> None:
    for held, base in (
        (REGISTRY_BASE, "auto"),
        (REGISTRY_BASE, "registry"),
        (MADE, "auto"),
        (MADE, "bootstrap"),
    ):
        daemon = FakeDaemon(held)
        assert provide(daemon, tmp_path, cast("image_base.Base", base)) == held
        assert daemon.did == []


def test_a_registry_that_answers_is_pulled_from(tmp_path: Path) -> None:
    daemon = FakeDaemon(registry=True)
    assert provide(daemon, tmp_path, "auto") == REGISTRY_BASE
    assert daemon.did == [f"asked {REGISTRY_BASE}", f"pulled {REGISTRY_BASE}"]


def test_without_a_registry_the_base_is_made(tmp_path: Path, mmdebstrap: Path) -> None:
    daemon = FakeDaemon()
    assert provide(daemon, tmp_path, "auto") == MADE
    assert daemon.did == [f"asked {REGISTRY_BASE}", f"imported {MADE}"]
    assert not list(tmp_path.glob("base-*"))


def test_bootstrap_never_asks_a_registry(tmp_path: Path, mmdebstrap: Path) -> None:
    daemon = FakeDaemon(REGISTRY_BASE, registry=True)
    assert provide(daemon, tmp_path, "bootstrap") == MADE
    assert daemon.did == [f"imported {MADE}"]


def test_fresh_gets_a_base_again(tmp_path: Path, mmdebstrap: Path) -> None:
    daemon = FakeDaemon(MADE, REGISTRY_BASE)
    assert provide(daemon, tmp_path, "auto", fresh=True) == MADE
    assert daemon.did == [f"asked {REGISTRY_BASE}", f"imported {MADE}"]


def test_a_bootstrap_that_fails_leaves_nothing_behind(tmp_path: Path, mmdebstrap: Path) -> None:
    mmdebstrap.write_text("#!/bin/sh\necho E: no mirror; exit 25\n")
    daemon = FakeDaemon()
    with pytest.raises(ImageError, match="exit code 25\nE: no mirror"):
        provide(daemon, tmp_path, "bootstrap")
    assert daemon.did == []
    assert not list(tmp_path.glob("base-*"))


def test_a_missing_mmdebstrap_tells_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    with pytest.raises(ImageError) as caught:
        provide(FakeDaemon(), tmp_path, "auto")
    assert caught.value.hint == "apt-get install --yes mmdebstrap"


@pytest.mark.parametrize(
    ("daemon", "expected"),
    [(FakeDaemon(), False), (FakeDaemon(MADE), True), (FakeDaemon(registry=True), True)],
)
def test_has_base_is_whether_none_must_be_made(daemon: FakeDaemon, expected: bool) -> None:  # noqa: FBT001  # a case
    assert has_base(cast("ImageDaemon", daemon), BaseRequest(SLIM)) is expected


def test_the_base_s_tag_follows_its_packages_and_not_its_mirror() -> None:
    assert bootstrap_tag(FULL.packages) != MADE
    assert MADE.startswith("sandbox-skills-base:trixie-")


def test_the_command_installs_the_packages_and_forgets_the_host() -> None:
    command = bootstrap_command("/bin/mmdebstrap", ["git", "jq"], Path("/c/base.tar"), ["deb A trixie main"])
    assert command[0] == "/bin/mmdebstrap"
    assert "--include=git,jq" in command
    assert command[-3:] == ["trixie", "/c/base.tar", "deb A trixie main"]
    assert any(part.startswith("--customize-hook=") and "sources.list" in part for part in command)


def test_mirrors_are_those_of_a_debian_host() -> None:
    listed = "Debian\tA/debian/\nDebian\tB/other/\nDebian-Security\tA/security/\nOther\tC/\n"
    assert mirrors_of(listed) == [
        "deb A/debian/ trixie main",
        "deb A/debian/ trixie-updates main",
        "deb A/security/ trixie-security main",
    ]


@pytest.mark.parametrize("listed", ["", "Ubuntu\tU/\n", "garbage\n", "Debian-Security\tA/\n"])
def test_a_host_without_debian_s_mirror_leaves_the_choice(listed: str) -> None:
    assert mirrors_of(listed) == []


def test_a_host_without_apt_has_no_mirrors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert image_base._host_mirrors() == []


@pytest.mark.parametrize(
    ("base", "reference", "expected"),
    [
        ("auto", MADE, True),
        ("auto", "anything", True),
        ("bootstrap", MADE, True),
        ("bootstrap", REGISTRY_BASE, False),
        ("registry", REGISTRY_BASE, True),
        ("registry", MADE, False),
    ],
)
def test_a_built_image_serves_who_asks_for_its_base(base: str, reference: str, expected: bool) -> None:  # noqa: FBT001  # a case
    assert serves(cast("image_base.Base", base), reference) is expected

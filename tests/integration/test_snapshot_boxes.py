"""Snapshots of real workspaces: what programs left there is there again, and what leads out of it is not."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING, cast

import pytest

from sandbox_skills.spec import Command, Exited, SandboxSpec
from sandbox_skills.workspace.choices import SnapshotLimits
from sandbox_skills.workspace.snapshot import restore_snapshot, take_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.engines.base import Engine, Sandbox
    from sandbox_skills.workspace.snapshot import Snapshot

pytestmark = pytest.mark.anyio


@pytest.fixture(
    params=[pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("docker", "bubblewrap")]
)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine whose boxes are a Linux of their own."""
    return cast("Engine", request.getfixturevalue(f"{request.param}_engine"))


LIST = "cd /workspace && find work out -mindepth 1 -printf '%y %m %p %l\\n' | sort"


async def shell(sandbox: Sandbox, text: str) -> list[str]:
    env = {"PATH": "/usr/bin:/bin", "HOME": "/workspace/home"}
    outcome = await sandbox.run(Command(("bash", "-c", text), env=env))
    assert outcome.ending == Exited(0), outcome.stderr.decode()
    return outcome.stdout.decode(errors="backslashreplace").splitlines()


async def taken(sandbox: Sandbox, path: Path, limits: SnapshotLimits | None = None) -> Snapshot:
    return await take_snapshot(sandbox, path, tenant="t", limits=limits)


async def test_links_empty_folders_and_modes_come_back(engine: Engine, tmp_path: Path) -> None:
    make = (
        "mkdir -p work/a/b work/empty/deep out/private out/closed && cd work && ln -s a/b near && ln -s ../out far"
        " && ln -s nowhere dangling && ln -s loop loop && ln -s /workspace/work/a a/absolute"
        " && ln -s /usr/bin/python3 python && echo x > a/x && chmod 751 a && chmod 640 a/x && ln a/x a/hard"
        " && printf '#!/bin/sh\\n' > run.sh && chmod 700 run.sh && chmod 700 ../out/private"
        " && echo y > ../out/closed/y && chmod 555 ../out/closed && mkdir $'new\\nline' && ln -s ☃ $'l\\t☃'"
    )
    async with engine.open(SandboxSpec()) as one, engine.open(SandboxSpec()) as two:
        await shell(one, make)
        before = await shell(one, LIST)
        snapshot = await taken(one, tmp_path / "s.tar")
        assert (snapshot.files, snapshot.links, snapshot.skipped) == (4, 7, {})
        assert snapshot.as_dict()["folders"] == snapshot.folders
        await restore_snapshot(two, snapshot, tenant="t")
        assert await shell(two, LIST) == before
        assert await shell(two, "cat work/near/../x out/closed/y; work/python -c 'print(1)'") == [
            "x",
            "y",
            "1",
        ]


async def test_a_virtual_environment_goes_on(engine: Engine, tmp_path: Path) -> None:
    async with engine.open(SandboxSpec()) as one, engine.open(SandboxSpec()) as two:
        await shell(one, "python3 -m venv --without-pip work/.venv")
        await restore_snapshot(two, await taken(one, tmp_path / "s.tar"), tenant="t")
        prefix = await shell(two, "work/.venv/bin/python -c 'import sys; print(sys.prefix)'")
        assert prefix == ["/workspace/work/.venv"]


async def test_what_leads_out_or_is_special_is_dropped_and_told(engine: Engine, tmp_path: Path) -> None:
    make = (
        "cd out && ln -s /etc/passwd a && ln -s ../../etc b && ln -s d/../../../etc c && ln -s /proc/1/root d"
        " && ln -s //etc e && mkfifo f && ln -s ../skills/../../etc g && ln -s /skills h && echo ok > ok"
        " && mkdir $'caf\\xe9' && ln -s $'caf\\xe9' i && mkdir closed && touch closed/x && chmod 0 closed"
    )
    async with engine.open(SandboxSpec()) as one, engine.open(SandboxSpec()) as two:
        await shell(one, make)
        snapshot = await taken(one, tmp_path / "s.tar")
        links = dict.fromkeys((f"out/{name}" for name in "abcdeghi"), "link")
        others = {"out/f": "special", "out/closed": "unreadable", "out/caf\\xe9": "name"}
        assert snapshot.skipped == {**links, **others}
        await restore_snapshot(two, snapshot, tenant="t")
        assert await shell(two, "ls out; stat -c %a out/closed") == ["closed", "ok", "0"]


async def test_a_root_that_is_a_link_or_gone_is_no_way_out(engine: Engine, tmp_path: Path) -> None:
    async with engine.open(SandboxSpec()) as one:
        await shell(one, "rm -rf work out && ln -s /etc out")
        snapshot = await taken(one, tmp_path / "s.tar")
    assert (snapshot.files, snapshot.links, snapshot.folders) == (0, 0, 0)


async def test_folders_and_links_count_and_those_too_many_are_told(engine: Engine, tmp_path: Path) -> None:
    few = SnapshotLimits(files=5, bytes=1000)
    async with engine.open(SandboxSpec()) as one, engine.open(SandboxSpec()) as two:
        await shell(one, "cd out && touch 1 2 3 && mkdir 4 && ln -s 4 5 && ln -s 4 6")
        snapshot = await taken(one, tmp_path / "s.tar", few)
        assert snapshot.files + snapshot.folders + snapshot.links == 5
        assert list(snapshot.skipped.values()) == ["collected_files"]
        await restore_snapshot(two, snapshot, tenant="t", limits=few)


async def test_a_listing_that_was_cut_is_told(engine: Engine, tmp_path: Path) -> None:
    deep = "/".join(["d" * 200] * 12)
    async with engine.open(SandboxSpec()) as one:
        await shell(one, f"mkdir -p out/{deep} && cd out/{deep} && mkdir $(seq 2000)")
        snapshot = await taken(one, tmp_path / "s.tar")
    assert snapshot.skipped["out"] == "collected_files"
    with tarfile.open(snapshot.path) as tar:
        assert len(tar.getmembers()) == snapshot.folders > 1000


@pytest.mark.parametrize("take_place", ["touch work/inputs", "ln -s ../out work/inputs"])
async def test_what_took_the_place_of_a_folder_of_every_box_comes_back(
    engine: Engine, tmp_path: Path, take_place: str
) -> None:
    async with engine.open(SandboxSpec()) as one, engine.open(SandboxSpec()) as two:
        await shell(one, f"rmdir work/inputs && {take_place} && ln -s ../out work/.venv")
        before = await shell(one, LIST)
        await restore_snapshot(two, await taken(one, tmp_path / "s.tar"), tenant="t")
        assert await shell(two, LIST) == before


async def test_a_box_that_is_busy_gives_its_files_and_tells_of_the_rest(
    engine: Engine, tmp_path: Path
) -> None:
    async with engine.open(SandboxSpec()) as one:
        await shell(one, "echo x > out/x; ln -s x out/l")
        async with one.start(Command(("cat",))):
            snapshot = await taken(one, tmp_path / "s.tar")
    assert (snapshot.files, snapshot.links) == (1, 0)
    assert snapshot.skipped == {"out/l": "link", "work": "collected_files", "out": "collected_files"}

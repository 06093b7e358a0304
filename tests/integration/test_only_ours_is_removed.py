"""`gc` and the reaping of other processes take what is labelled as ours, and nothing that only looks like it."""

from __future__ import annotations

import json
import secrets
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.engines.bubblewrap import BubblewrapEngine, BubblewrapEngineOptions
from sandbox_skills.engines.bubblewrap.cgroup import hierarchies
from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.engines.image import image_tag
from sandbox_skills.engines.instance import Instance
from sandbox_skills.spec import Command, SandboxSpec
from tests.docker_host import connection

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path

    import docker

    from sandbox_skills.engines.base import Engine
    from sandbox_skills.workspace.staging import SkillStore
    from tests.conftest import Program

pytestmark = pytest.mark.anyio

PAST = "1000000000"
"""Unix time of 2001: expired by any clock."""

TRUE = Command(("true",), env={"PATH": "/bin"})


@dataclass(frozen=True, slots=True)
class LookAlike:
    """A container of somebody else. `ours` is whether its labels say that it is one of ours after all."""

    name: str
    labels: Mapping[str, str]
    ours: bool = False


def look_alikes(instance: str) -> list[LookAlike]:
    """What is there on a daemon that others use as well; `instance` is one of ours that is dead."""
    mark = secrets.token_hex(8)
    managed, expires = {"sandbox-skills.managed": "1"}, {"sandbox-skills.expires-at": PAST}
    of_dead = {"sandbox-skills.instance": instance}
    return [
        LookAlike(f"sandbox-{mark}", {}),
        LookAlike(f"sandbox-skills-export-{mark}", {}),
        LookAlike(f"sandbox-skills-{mark}", {"com.example.sandbox-skills.managed": "1"}),
        LookAlike(f"sandbox-{mark}-dead", {**of_dead, **expires}),
        LookAlike(f"sandbox-{mark}-no", {"sandbox-skills.managed": "0", **of_dead, **expires}),
        LookAlike(f"sandbox-{mark}-true", {"sandbox-skills.managed": "1x", **of_dead, **expires}),
        LookAlike(f"sandbox-{mark}-living", {**managed, "sandbox-skills.instance": f"{instance}0"}),
        LookAlike(f"sandbox-{mark}-when", {**managed, "sandbox-skills.expires-at": "long ago"}),
        LookAlike(f"nothing-like-it-{mark}", {**managed, **of_dead}, ours=True),
        LookAlike(f"nothing-like-it-{mark}-old", {**managed, **expires}, ours=True),
    ]


@contextmanager
def made(daemon: docker.APIClient, containers: list[LookAlike]) -> Generator[None]:
    """Creates containers that never start, and a volume that is called as ours might be."""
    api: Any = daemon
    volume = f"sandbox-skills-{secrets.token_hex(8)}"
    api.create_volume(volume)
    try:
        for one in containers:
            body = {"Image": image_tag("slim"), "Entrypoint": ["none"], "Labels": dict(one.labels)}
            api.create_container_from_config(body, name=one.name)
        yield
        assert [row["Name"] for row in api.volumes(filters={"name": volume})["Volumes"]] == [volume]
    finally:
        for name in there(daemon, containers):
            api.remove_container(name, force=True)
        api.remove_volume(volume)


def there(daemon: docker.APIClient, containers: list[LookAlike]) -> set[str]:
    names = {row["Names"][0].lstrip("/") for row in daemon.containers(all=True)}
    return names & {one.name for one in containers}


@pytest.mark.docker
def test_gc_goes_by_labels_and_never_by_names(program: Program, daemon: docker.APIClient) -> None:
    dead = Instance(program.data_dir / "instances")
    dead.close(forget=False)
    containers = look_alikes(dead.id)
    with made(daemon, containers):
        done = program.run("gc", "--json")
        assert done.returncode == 0, done.stderr
        removed = set(json.loads(done.stdout)["sandboxes"])
        ours = {one.name for one in containers if one.ours}
        assert removed >= ours
        assert there(daemon, containers) == {one.name for one in containers} - ours
        assert removed.isdisjoint(there(daemon, containers))


@pytest.mark.bubblewrap
@pytest.mark.root
async def test_cgroups_of_others_stay(tmp_path: Path, store: SkillStore, root_file_systems: Path) -> None:
    options = BubblewrapEngineOptions(tmp_path, store.mount_dir, store.marker(), rootfs_dir=root_file_systems)
    dead = Instance(tmp_path / "bubblewrap" / "instances")
    dead.close(forget=False)
    names = {
        f"sandbox-skills-{dead.id}-sandbox-1": True,
        f"sandbox-skills-{dead.id}0-sandbox-1": False,
        f"sandbox-skills-{dead.id}": False,
        f"sandbox-skills-{secrets.token_hex(8)}-sandbox-1": False,
        f"sandbox-skills-of-mine-{dead.id}-sandbox-1": False,
    }
    groups = {each.parent / name: ours for each in hierarchies() for name, ours in names.items()}
    engine = BubblewrapEngine(options)
    try:
        for group in groups:
            group.mkdir()
        assert await engine.reap(()) == ["sandbox-1"]
        assert {group for group in groups if group.exists()} == {g for g, ours in groups.items() if not ours}
    finally:
        await engine.aclose()
        for group in groups:
            if group.exists():
                group.rmdir()


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("docker", marks=pytest.mark.docker),
        pytest.param("bubblewrap", marks=[pytest.mark.bubblewrap, pytest.mark.root]),
    ],
)
@pytest.mark.parametrize("shared", [True, False], ids=["one data directory", "two data directories"])
async def test_two_instances_never_touch_each_others(
    kind: str, store: SkillStore, tmp_path: Path, request: pytest.FixtureRequest, *, shared: bool
) -> None:
    def engine(folder: Path) -> Engine:
        options = DockerEngineOptions(folder, connection(), store.mount_dir, store.marker())
        if kind == "docker":
            return DockerEngine(options)
        tree = request.getfixturevalue("root_file_systems")
        return BubblewrapEngine(
            BubblewrapEngineOptions(folder, store.mount_dir, store.marker(), rootfs_dir=tree)
        )

    one, other = engine(tmp_path / "one"), engine(tmp_path / ("one" if shared else "other"))
    spec = replace(SandboxSpec(), ttl_seconds=3600.0)
    try:
        async with one.open(spec) as mine, other.open(spec) as theirs:
            for _ in range(3):
                assert mine.id not in await other.reap(())
                assert theirs.id not in await one.reap(())
            assert (await mine.run(TRUE)).ok
            assert (await theirs.run(TRUE)).ok
            async with other.open(spec) as second:
                assert (await second.run(TRUE)).ok
            assert (await mine.run(TRUE)).ok
        async with one.open(spec) as mine:
            # The end of one is not the end of what the other has.
            await other.aclose()
            assert (await mine.run(TRUE)).ok
    finally:
        await one.aclose()
        await other.aclose()

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.bubblewrap.cgroup import Hierarchy, found
from sandbox_skills.engines.cgroup_mounts import group_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sandbox_skills.engines.cgroup_mounts import Mount

V1_GROUPS = "9:name=systemd:/\n8:pids:/\n4:memory:/api/abc\n2:cpu,cpuacct:/\n0::/\n"
V1_MOUNTS = """\
30 25 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
32 30 0:29 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
33 30 0:30 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
34 30 0:31 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
V2_GROUPS = "0::/user.slice/user-7.slice/user@7.service/app.slice/run.scope\n"
V2_MOUNTS = "30 25 0:27 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def given(by_path: dict[str, tuple[str, ...]]) -> Callable[[Path, Mount], Collection[str]]:
    return lambda parent, _: by_path.get(str(parent), ())


def all_of(parent: Path, mount: Mount) -> Collection[str]:
    return mount.controllers


def test_version_1_has_a_place_for_each_mount_below_our_own_group() -> None:
    assert list(found(V1_GROUPS, V1_MOUNTS, all_of)) == [
        Hierarchy(1, ("cpu",), Path("/sys/fs/cgroup/cpu,cpuacct")),
        Hierarchy(1, ("memory",), Path("/sys/fs/cgroup/memory/api/abc")),
        Hierarchy(1, ("pids",), Path("/sys/fs/cgroup/pids")),
    ]


def test_version_2_is_looked_for_upwards_as_far_as_controllers_are_handed_down() -> None:
    slice_ = "/sys/fs/cgroup/user.slice/user-7.slice/user@7.service/app.slice"
    service = "/sys/fs/cgroup/user.slice/user-7.slice/user@7.service"
    places = given({slice_: (), service: ("cpu", "memory", "pids")})
    assert list(found(V2_GROUPS, V2_MOUNTS, places)) == [
        Hierarchy(2, ("memory", "pids", "cpu"), Path(service))
    ]


def test_what_is_handed_down_in_part_is_used_in_part() -> None:
    places = given({"/sys/fs/cgroup": ("memory", "pids")})
    assert list(found(V2_GROUPS, V2_MOUNTS, places)) == [
        Hierarchy(2, ("memory", "pids"), Path("/sys/fs/cgroup"))
    ]


def test_where_nothing_may_be_made_nothing_is_found() -> None:
    assert list(found(V2_GROUPS, V2_MOUNTS, given({}))) == []
    assert list(found(V1_GROUPS, V1_MOUNTS, given({}))) == []
    assert list(found("", "", all_of)) == []


def test_a_container_sees_its_own_group_as_the_root_of_the_mount() -> None:
    groups, mounts = "4:memory:/docker/x\n", "32 30 0:29 /docker/x /cg/memory ro - cgroup cgroup rw,memory\n"
    assert list(found(groups, mounts, all_of)) == [Hierarchy(1, ("memory",), Path("/cg/memory"))]


def test_a_group_outside_of_the_mount_is_no_place() -> None:
    groups, mounts = "4:memory:/docker/y\n", "32 30 0:29 /docker/x /cg/memory ro - cgroup cgroup rw,memory\n"
    assert list(found(groups, mounts, all_of)) == []


@pytest.mark.parametrize(
    ("hierarchy", "join", "oom", "places"),
    [
        (Hierarchy(1, ("memory",), Path("/m")), "tasks", "memory.oom_control", ("memory",)),
        (Hierarchy(1, ("cpu", "pids"), Path("/m")), "tasks", "", ("cpu", "pids")),
        (Hierarchy(2, ("memory", "cpu"), Path("/m")), "cgroup.procs", "memory.events", ("",)),
        (Hierarchy(2, ("pids",), Path("/m")), "cgroup.procs", "", ("",)),
    ],
)
def test_where_a_hierarchy_is_joined_counts_and_is_shown(
    hierarchy: Hierarchy, join: str, oom: str, places: tuple[str, ...]
) -> None:
    assert (hierarchy.join_file, hierarchy.oom_file, hierarchy.places) == (join, oom, places)


def test_a_process_that_is_not_there_is_in_no_group() -> None:
    assert group_of(2**22 + 1, "memory") is None


def test_no_group_is_found_by_a_controller_that_there_is_not() -> None:
    assert group_of(os.getpid(), "no-such-controller") is None

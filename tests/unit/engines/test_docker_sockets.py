"""When the memory of a container's sockets is limited from here, and whose group is never touched."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

import pytest

from sandbox_skills.engines.cgroup_mounts import SOCKET_MEMORY, group_of
from sandbox_skills.engines.docker_sockets import counts_them_apart, limit_sockets

if TYPE_CHECKING:
    import docker


class DaemonElsewhere:
    """A daemon of another machine: the number of its container's first process is one of ours, of something else."""

    def inspect_container(self, name: str) -> dict[str, Any]:
        return {"Id": f"{name}-is-not-in-any-path", "State": {"Pid": os.getpid()}}


@pytest.mark.parametrize(
    ("info", "who"),
    [({"CgroupVersion": "1"}, "root"), ({}, "root"), ({"CgroupVersion": "2"}, "nobody")],
)
def test_version_2_counts_them_as_memory(info: dict[str, str], who: str) -> None:
    assert counts_them_apart(info) is (who == "root" and os.geteuid() == 0)


def test_a_process_that_is_not_the_containers_is_left_alone() -> None:
    group = group_of(os.getpid(), "memory")
    file = None if group is None else group / SOCKET_MEMORY
    before = file.read_text(encoding="ascii") if file is not None and file.exists() else None
    limit_sockets(cast("docker.APIClient", DaemonElsewhere()), "box", 4096)
    if file is not None and before is not None:
        assert file.read_text(encoding="ascii") == before

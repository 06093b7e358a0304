"""Memory of a container's sockets on hosts with control groups of version 1, for which Docker has no word.

Version 2 counts the buffers of sockets as memory. Version 1 counts them apart, and only where a limit is set: without
one, a box of 512 MiB filled 3 GiB of the host's, up to where no program of the host could send any more (seen). The
API's `KernelMemoryTCP` is one that runc does not know any longer, so that the file is written here.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sandbox_skills.engines.cgroup_mounts import SOCKET_MEMORY, group_of
from sandbox_skills.engines.docker_client import translated

if TYPE_CHECKING:
    from collections.abc import Mapping

    import docker


def counts_them_apart(info: Mapping[str, Any]) -> bool:
    """Whether a daemon's containers need the limit, and this process may be the one to set it."""
    return info.get("CgroupVersion", "1") == "1" and os.geteuid() == 0


def limit_sockets(client: docker.APIClient, sandbox_id: str, memory: int) -> None:
    """Limits the buffers of a running container's sockets to as much as its memory.

    Does nothing where it cannot: the daemon's containers may be another machine's, or another kernel's. Blocking;
    raises EngineError.
    """
    untyped: Any = client  # the stubs of docker-py leave out what it returns
    with translated("inspect a container", lost=True):
        found: Mapping[str, Any] = untyped.inspect_container(sandbox_id)
    group = group_of(int(found["State"]["Pid"]), "memory")
    # Of a daemon elsewhere, the number is some other process here; a container's own group has its name.
    if group is not None and found["Id"] in str(group):
        with suppress(OSError):
            (group / SOCKET_MEMORY).write_text(str(memory), encoding="ascii")

"""What bubblewrap's boxes need of this host: `examine_bubblewrap` looks, the rest judges, pure."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from sandbox_skills.engines.bubblewrap import rootfs
from sandbox_skills.engines.bubblewrap.faults import NAMESPACES_HINT
from sandbox_skills.engines.bubblewrap.host import look
from sandbox_skills.engines.bubblewrap.leftovers import leftovers
from sandbox_skills.engines.bubblewrap.order import lost_guarantees
from sandbox_skills.engines.doctor.checks import GC, Check, guarantee_check
from sandbox_skills.engines.image_source import UID_FIRST
from sandbox_skills.engines.instance import dead_instances
from sandbox_skills.spec import Guarantee

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from sandbox_skills.engines.bubblewrap.order import Host

TESTED = (0, 8)
"""What Debian 12 has."""

TRY_SECONDS = 10.0
"""A box around `true` takes 10 ms."""

DELEGATE = (
    "run as root, or with cgroup v2 in a scope of your own: `systemd-run --user --scope -p Delegate=yes COMMAND`; or "
    "do without: bubblewrap.without in the settings"
)

FIXES: Mapping[Guarantee, str] = {
    Guarantee.MEMORY: DELEGATE,
    Guarantee.PIDS: DELEGATE,
    Guarantee.CPU: DELEGATE,
    Guarantee.OWN_UID: "run as root, or do without: bubblewrap.without in the settings",
    Guarantee.SECCOMP: "use x86_64 or aarch64",
}


def examine_bubblewrap(
    program: Path | None, folder: Path, wanted: rootfs.Wanted, instances: Path, needs: Collection[Guarantee]
) -> list[Check]:
    """Returns every finding; `folder` has the root file systems. Raises EngineUnavailableError without bubblewrap."""
    host = look(program)
    dead = dead_instances(instances)
    left = sum(box.instance in dead for box in leftovers(host.hierarchies))
    return [
        _engine(host),
        namespaces_check(_tried(host)),
        *limit_checks(host, needs),
        _root(rootfs.find(folder, wanted), wanted),
        leftovers_check(left),
    ]


def _engine(host: Host) -> Check:
    version = ".".join(map(str, host.version))
    who = "root: each box has a uid of its own" if host.is_root else "a user who is not root"
    detail = f"bubblewrap {version} at {host.program}, as {who}"
    if host.version < TESTED:
        return Check("engine", "warning", f"{detail}; 0.8 is tested", "use bubblewrap 0.8 or newer")
    return Check("engine", "ok", detail)


def _tried(host: Host) -> str:
    """Returns what a box around `true` said, nothing where it came up."""
    namespaces = ("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup")
    argv = [str(host.program), *namespaces, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]
    try:
        done = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            check=False,
            timeout=TRY_SECONDS,
            cwd="/",
            # As its boxes do: root becomes another first.
            user=UID_FIRST if host.is_root else None,
            group=UID_FIRST if host.is_root else None,
            extra_groups=[] if host.is_root else None,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return "" if done.returncode == 0 else str(done.stderr).strip() or f"exit code {done.returncode}"


def namespaces_check(said: str) -> Check:
    """Returns whether a box can be made at all, from what one said."""
    if said:
        return Check("namespaces", "failed", f"a box cannot be made: {said}", NAMESPACES_HINT)
    return Check("namespaces", "ok", "user, process, network, host name and cgroup namespaces can be made")


def limit_checks(host: Host, needs: Collection[Guarantee]) -> Iterator[Check]:
    """Yields what this host cannot enforce, with the fix; or that it enforces all."""
    lost = lost_guarantees(host)
    for guarantee, reason in lost.items():
        yield guarantee_check("limits", guarantee, reason, FIXES[guarantee], needs=needs)
    if not lost:
        places = ", ".join(str(hierarchy.parent) for hierarchy in host.hierarchies)
        yield Check("limits", "ok", f"memory, number of processes and CPU time are limited, in {places}")


def _root(found: rootfs.RootFileSystem | None, wanted: rootfs.Wanted) -> Check:
    if found is None:
        return Check("image", "failed", f"the root file system of {wanted} is missing", wanted.hint)
    return Check("image", "ok", f"the root file system of {wanted} is there: {wanted.name}")


def leftovers_check(left: int) -> Check:
    """Returns whether cgroups have outlived the processes that made them."""
    if left:
        return Check("leftovers", "warning", f"the cgroups of {left} sandboxes whose processes ended", GC)
    return Check("leftovers", "ok", "none")

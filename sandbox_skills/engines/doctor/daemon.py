"""What a Docker daemon says of itself, judged for sandboxes. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from sandbox_skills.engines.docker_config import (
    CRUN,
    GVISOR,
    LOST_IN_GVISOR,
    chosen_runtime,
    has_apparmor,
    lost_guarantees,
)
from sandbox_skills.engines.doctor.checks import Check, guarantee_check
from sandbox_skills.engines.doctor.kinds import kind_checks
from sandbox_skills.spec import BASE_GUARANTEES, Guarantee

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from sandbox_skills.engines.doctor.facts import Daemon

AppArmor = Literal["auto", "required", "off"]

TESTED_API = (1, 41)
"""Docker 20.10, what Debian 12 has."""

LEAST_API = (1, 40)
"""The first that knows a bind mount without what is mounted below it; an older daemon ignores that wish."""

TESTED_DRIVERS = frozenset({"overlay2", "overlayfs", "overlay"})
"""Docker's overlay2, the same with containerd's image store, and Podman's name for it."""

TESTED_RUNTIMES = frozenset({"runc", CRUN, GVISOR})

DELEGATE_FIX = (
    "use cgroup v2 and delegate it: `Delegate=cpu cpuset io memory pids` below `[Service]` in "
    "/etc/systemd/system/user@.service.d/delegate.conf, then `systemctl daemon-reload` and log in again"
)

LIMIT_FIXES = {
    Guarantee.MEMORY: "boot the kernel with cgroup_enable=memory",
    Guarantee.CPU: "use a kernel with CONFIG_CFS_BANDWIDTH",
    Guarantee.PIDS: "use a kernel with CONFIG_CGROUP_PIDS",
    Guarantee.SECCOMP: "use x86_64 or arm64, a kernel with CONFIG_SECCOMP_FILTER and a daemon built with seccomp",
}


def daemon_checks(
    daemon: Daemon,
    *,
    needs: Collection[Guarantee] = BASE_GUARANTEES,
    runtime: str | None = None,
    apparmor: AppArmor = "auto",
) -> list[Check]:
    """Returns what speaks for and against this daemon; `runtime` is the one asked for, None the default.

    `apparmor` is what the settings say of it.
    """
    system = daemon.text("OSType", "linux")
    if system != "linux":
        return [
            Check(
                "platform", "failed", f"the daemon runs {system} containers", "switch it to Linux containers"
            )
        ]
    return [
        _platform(daemon),
        _api(daemon),
        *kind_checks(daemon, needs),
        _cgroup(daemon),
        *_limits(daemon, needs),
        *_swap(daemon),
        _storage(daemon),
        *_seccomp(daemon, needs),
        _apparmor(daemon, needs, apparmor),
        *_selinux(daemon),
        _user_namespaces(daemon),
        *_runtimes(daemon, runtime, needs),
        *_proxies(daemon),
    ]


def _platform(daemon: Daemon) -> Check:
    engine = "Podman" if daemon.podman else "Docker"
    system = f"{daemon.text('OperatingSystem')}, Linux {daemon.text('KernelVersion')}"
    return Check(
        "platform",
        "ok",
        f"{engine} {daemon.text('ServerVersion')} on {system}, {daemon.text('Architecture')}",
    )


def _api(daemon: Daemon) -> Check:
    text: str = daemon.version.get("ApiVersion", "")
    match = re.fullmatch(r"(\d{1,6})\.(\d{1,6})", text)
    version: tuple[int, ...] = tuple(map(int, match.groups())) if match else ()
    if version >= TESTED_API:
        return Check("api version", "ok", f"{text}; 1.41 or newer is expected to work")
    fix = "use Docker 20.10 or newer"
    if version >= LEAST_API:
        return Check("api version", "warning", f"{text} is older than what is tested, 1.41", fix)
    return Check("api version", "failed", f"{text or 'none given'}, and 1.40 is needed", fix)


def _cgroup(daemon: Daemon) -> Check:
    return Check(
        "cgroup", "ok", f"version {daemon.text('CgroupVersion')}, driver {daemon.text('CgroupDriver')}"
    )


def _limits(daemon: Daemon, needs: Collection[Guarantee]) -> Iterator[Check]:
    lost = lost_guarantees(daemon.info)
    limits = [name for name in (Guarantee.MEMORY, Guarantee.PIDS, Guarantee.CPU) if name in lost]
    for name in limits:
        fix = DELEGATE_FIX if daemon.rootless else LIMIT_FIXES[name]
        yield guarantee_check("limits", name, lost[name], fix, needs=needs)
    if not limits:
        yield Check("limits", "ok", "memory, number of processes and CPU time are limited")


def _swap(daemon: Daemon) -> Iterator[Check]:
    if daemon.info.get("MemoryLimit") is True and daemon.info.get("SwapLimit") is not True:
        detail = "a sandbox that reaches its memory limit goes on in swap, which the kernel does not limit"
        yield Check(
            "swap limit", "warning", detail, "boot with swapaccount=1, or switch swap off: `swapoff -a`"
        )


def _storage(daemon: Daemon) -> Check:
    driver = daemon.text("Driver")
    if driver in TESTED_DRIVERS:
        return Check("storage driver", "ok", driver)
    fix = "configure Docker's storage-driver overlay2"
    if driver == "vfs":
        return Check("storage driver", "warning", "vfs copies the whole image for every sandbox", fix)
    return Check("storage driver", "warning", f"{driver} is not tested; sandboxes may start slower", fix)


def _seccomp(daemon: Daemon, needs: Collection[Guarantee]) -> Iterator[Check]:
    lost = lost_guarantees(daemon.info).get(Guarantee.SECCOMP)
    if lost is not None:
        fix = LIMIT_FIXES[Guarantee.SECCOMP]
        yield guarantee_check("seccomp", Guarantee.SECCOMP, lost, fix, needs=needs)
        return
    own = daemon.security("seccomp") or "not named"
    yield Check("seccomp", "ok", f"sandboxes bring their own profile; the daemon's is {own}")


def _apparmor(daemon: Daemon, needs: Collection[Guarantee], wanted: AppArmor) -> Check:
    if wanted == "off":
        return Check(
            "apparmor", "warning", "not applied: docker.apparmor is off", "set docker.apparmor to auto"
        )
    if has_apparmor(daemon.info):
        return Check("apparmor", "ok", "docker-default is applied")
    why, fix = "the daemon has none", "install apparmor on the daemon's host and boot a kernel with it"
    if daemon.rootless:
        why, fix = "a rootless daemon cannot apply it", ""
    if Guarantee.APPARMOR not in needs:
        why += f"; optional here: docker.apparmor is {wanted}"
    return guarantee_check("apparmor", Guarantee.APPARMOR, why, fix, needs=needs)


def _selinux(daemon: Daemon) -> Iterator[Check]:
    if daemon.security("selinux") is not None:
        detail = "SELinux is on, and is not tested: sandboxes read the skill store only with its label for containers"
        yield Check("selinux", "warning", detail, "chcon -R -t container_file_t on the skill store")


def _user_namespaces(daemon: Daemon) -> Check:
    name = "user namespaces"
    if daemon.security("userns") is not None:
        return Check(name, "warning", "userns-remap is not tested; it is stronger, and expected to work")
    if daemon.rootless:
        return Check(name, "ok", "sandboxes live in that of the rootless daemon")
    return Check(name, "ok", "not remapped; each sandbox has an unprivileged uid of its own")


def _runtimes(daemon: Daemon, runtime: str | None, needs: Collection[Guarantee]) -> Iterator[Check]:
    yield _runtime(daemon, runtime)
    if runtime == GVISOR:
        fix = "do without: docker.without in the settings; or set docker.runtime to runc"
        for guarantee, reason in LOST_IN_GVISOR.items():
            yield guarantee_check(GVISOR, guarantee, reason, fix, needs=needs)


def _runtime(daemon: Daemon, runtime: str | None) -> Check:
    default = daemon.text("DefaultRuntime", "runc")
    runtimes: Mapping[str, object] = daemon.info.get("Runtimes", {})
    # The daemon names its own shims besides: the same runc by another way.
    listed = sorted(name for name in runtimes if not name.startswith("io.containerd."))
    have = f"the daemon has {', '.join(listed) or 'none'}"
    if runtime is not None and runtime not in runtimes:
        return Check(
            "runtime", "failed", f"{runtime} is asked for; {have}", f"install {runtime} and register it"
        )
    if runtime is None and default == GVISOR:
        detail = f"{GVISOR} is the daemon's default, and sandboxes are checked as for runc"
        return Check("runtime", "failed", detail, f"set docker.runtime to {GVISOR}")
    chosen = chosen_runtime(daemon.info, runtime) or default
    if chosen not in TESTED_RUNTIMES:
        return Check("runtime", "warning", f"{chosen} is not tested; {have}", "set docker.runtime to runc")
    boundary = "has a kernel of its own" if chosen == GVISOR else "shares the daemon's kernel"
    return Check("runtime", "ok", f"{chosen}, which {boundary}; {have}")


def _proxies(daemon: Daemon) -> Iterator[Check]:
    # Not shown: a proxy's address may carry a password.
    if any(daemon.info.get(name) for name in ("HttpProxy", "HttpsProxy")):
        yield Check("proxies", "ok", "the daemon pulls images through one; no sandbox is told of it")

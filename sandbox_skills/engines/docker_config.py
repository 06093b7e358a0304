"""From a spec to the body of `POST /containers/create`, and what a daemon can guarantee. Pure.

The body says everything that decides isolation, so that neither an image nor a daemon's default can.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from sandbox_skills.engines.box import (
    ARCHITECTURES,
    CORE_LIMIT,
    ENVIRONMENT,
    IPC_SYSCTLS,
    RUNNER_ARGV,
    SHM,
    SHM_INODES,
    TMP,
    TMP_INODES,
    check_spec,
)
from sandbox_skills.engines.seccomp.profile import profile_digest, seccomp_profile
from sandbox_skills.engines.socket_channel import SOCKET_NAME
from sandbox_skills.spec import BASE_GUARANTEES, SKILLS, WORKSPACE, Guarantee

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sandbox_skills.spec import SandboxId, SandboxLimits, SandboxSpec

__all__ = [
    "DockerOptions",
    "create_body",
    "guarantees",
    "has_apparmor",
    "lost_guarantees",
    "profile_digest",
    "seccomp_profile",
    "socket_may_work",
]

CHANNEL_DIR = PurePosixPath("/run/sandbox-skills")
"""Where a box finds the socket it is to connect to: an empty directory as soon as it has."""

LABEL_MANAGED = "sandbox-skills.managed"
LABEL_INSTANCE = "sandbox-skills.instance"
LABEL_SANDBOX = "sandbox-skills.sandbox"
LABEL_TENANT = "sandbox-skills.tenant"
LABEL_RUN = "sandbox-skills.run"
LABEL_EXPIRES = "sandbox-skills.expires-at"
"""Unix time in whole seconds after which anyone may remove the box."""

GVISOR = "runsc"
CRUN = "crun"

LOST_IN_GVISOR = {
    Guarantee.INODES: "gVisor's tmpfs counts no inodes; only the memory limit holds them",
    Guarantee.PROTECTED_RUNNER: "gVisor lets a program open the files of the runner, whose uid it has, and so write "
    "into the channel: what the box tells of a run may be forged by that run",
}
"""Seen in release 20221219, each by a test in tests/security/test_gvisor.py."""

GVISOR_PIDS = 512
"""gVisor's own threads count against the pids limit; with less it does not start."""

STOP_SECONDS = 1
"""The runner ends when its channel closes; waiting longer for a signal only delays the kill."""

NANO = 1_000_000_000

EMPTIED = (
    "ALL_PROXY",
    "FTP_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NODE_OPTIONS",
    "NO_PROXY",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "all_proxy",
    "ftp_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
)
"""Variables of an image cannot be unset: what carries proxy passwords or loads code is emptied."""


@dataclass(frozen=True, slots=True)
class DockerOptions:
    """What is the same for every box of one engine.

    `seccomp` is the profile's JSON, `skills_dir` the store on the daemon's host, `runtime` None the daemon's default.
    """

    instance: str
    seccomp: str
    runtime: str | None = None
    skills_dir: Path | None = None
    apparmor: bool = False
    oom_score_adj: int = 500


def create_body(
    spec: SandboxSpec,
    *,
    image_id: str,
    uid: int,
    options: DockerOptions,
    now: float,
    sandbox_id: SandboxId,
    channel_dir: Path | None = None,
) -> dict[str, Any]:
    """Returns the body that makes one box; `uid` is its group too, `now` is Unix time.

    `channel_dir` is a directory of the daemon's host with a socket in it, for a box that is to connect to one.

    Raises SettingsError for limits or a time to live that no box can have.
    """
    check_spec(spec, uid)
    return {
        "Image": image_id,
        "Entrypoint": list(RUNNER_ARGV),
        "Cmd": [] if channel_dir is None else ["--channel", f"{CHANNEL_DIR}/{SOCKET_NAME}"],
        "User": f"{uid}:{uid}",
        "WorkingDir": "/",
        "Env": _environment(),
        "Hostname": "sandbox",
        "Domainname": "",
        "Labels": _labels(spec, options.instance, sandbox_id, now),
        "Tty": False,
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "NetworkDisabled": True,
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": "SIGKILL",
        "StopTimeout": STOP_SECONDS,
        "HostConfig": {
            **_lifetime(options),
            **_isolation(options),
            **_limits(spec.limits, options),
            **_file_systems(spec.limits, uid),
            "Mounts": _mounts({SKILLS: options.skills_dir, CHANNEL_DIR: channel_dir}),
        },
    }


def _environment() -> list[str]:
    return sorted(f"{name}={value}" for name, value in (dict.fromkeys(EMPTIED, "") | ENVIRONMENT).items())


def _labels(spec: SandboxSpec, instance: str, sandbox_id: SandboxId, now: float) -> dict[str, str]:
    return {
        LABEL_MANAGED: "1",
        LABEL_INSTANCE: instance,
        LABEL_SANDBOX: sandbox_id,
        LABEL_TENANT: spec.tenant,
        LABEL_RUN: spec.run,
        LABEL_EXPIRES: str(int(now + spec.ttl_seconds)),
    }


def _lifetime(options: DockerOptions) -> dict[str, Any]:
    # An "always" restart or a log on disk would outlive the box. No init: a program could forge frames through it.
    settings: dict[str, Any] = {
        "AutoRemove": True,
        "Init": False,
        "LogConfig": {"Type": "none", "Config": {}},
        "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
    }
    return settings | ({"Runtime": options.runtime} if options.runtime else {})


def _isolation(options: DockerOptions) -> dict[str, Any]:
    apparmor = ["apparmor=docker-default"] if options.apparmor else []
    settings: dict[str, Any] = {
        "Privileged": False,
        "CapAdd": [],
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true", f"seccomp={options.seccomp}", *apparmor],
        "GroupAdd": [],
        # NetworkDisabled alone is twice as fast and enough for Docker; others read only this.
        "NetworkMode": "none",
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "PidMode": "",
        "UTSMode": "",
        "Devices": [],
        "DeviceRequests": [],
        "PublishAllPorts": False,
        "PortBindings": {},
    }
    # gVisor knows no such settings.
    return settings | {"Sysctls": {} if options.runtime == GVISOR else dict(IPC_SYSCTLS)}


def _limits(limits: SandboxLimits, options: DockerOptions) -> dict[str, Any]:
    return {
        "Memory": limits.memory,
        "MemorySwap": limits.memory,
        "NanoCpus": int(limits.cpus * NANO),
        "PidsLimit": max(limits.pids, GVISOR_PIDS) if options.runtime == GVISOR else limits.pids,
        "Ulimits": [
            _ulimit("nofile", limits.open_files),
            _ulimit("fsize", limits.file_bytes),
            _ulimit("core", CORE_LIMIT),
        ],
        "OomKillDisable": False,
        "OomScoreAdj": options.oom_score_adj,
    }


def _ulimit(name: str, value: int) -> dict[str, Any]:
    return {"Name": name, "Soft": value, "Hard": value}


def _file_systems(limits: SandboxLimits, uid: int) -> dict[str, Any]:
    return {
        "ReadonlyRootfs": True,
        "Binds": [],
        "ShmSize": limits.shm_bytes,
        "Tmpfs": {
            str(WORKSPACE): _tmpfs(limits.workspace_bytes, limits.workspace_inodes, uid),
            TMP: _tmpfs(limits.tmp_bytes, TMP_INODES, uid),
            SHM: _tmpfs(limits.shm_bytes, SHM_INODES, uid),
        },
    }


def _tmpfs(size: int, inodes: int, uid: int) -> str:
    # Without "exec" Docker adds noexec, and no script or virtual environment in the workspace would run.
    return f"rw,exec,nosuid,nodev,size={size},nr_inodes={inodes},mode=0700,uid={uid},gid={uid}"


def _mounts(sources: Mapping[PurePosixPath, Path | None]) -> list[dict[str, Any]]:
    return [_mount(source, target) for target, source in sources.items() if source is not None]


def _mount(source: Path, target: PurePosixPath) -> dict[str, Any]:
    # Not recursive: whatever the host mounts below it stays out, as it would not be read-only.
    return {
        "Type": "bind",
        "Source": str(source),
        "Target": str(target),
        "ReadOnly": True,
        "BindOptions": {"Propagation": "rprivate", "NonRecursive": True},
    }


def guarantees(options: DockerOptions, info: Mapping[str, Any]) -> frozenset[Guarantee]:
    """Returns what a daemon that says `info` of itself enforces with these options."""
    extra: set[Guarantee] = set()
    if options.apparmor and has_apparmor(info):
        extra.add(Guarantee.APPARMOR)
    if options.runtime == GVISOR:
        extra.add(Guarantee.KERNEL_BOUNDARY)
    return (BASE_GUARANTEES | extra) - lost_guarantees(info, options.runtime).keys()


def has_apparmor(info: Mapping[str, Any]) -> bool:
    """Whether the daemon's host has AppArmor, and with it Docker's default profile."""
    return "apparmor" in _security(info)


def chosen_runtime(info: Mapping[str, Any], wanted: str | None) -> str | None:
    """Returns the runtime of boxes: the one that is wanted, else crun where it may be taken for runc; None the default.

    crun starts a box faster, and enforces what runc does: each box is checked from inside, whatever started it. Only
    where the daemon has it, its own default is runc, and control groups are version 2: crun refuses to start
    anything where both versions are mounted (crun 1.8, seen), which a daemon says of neither.
    """
    runtimes: Mapping[str, object] = info.get("Runtimes") or {}
    usual = info.get("DefaultRuntime", "runc") == "runc" and info.get("CgroupVersion") == "2"
    return CRUN if wanted is None and usual and CRUN in runtimes else wanted


def lost_guarantees(info: Mapping[str, Any], runtime: str | None = None) -> dict[Guarantee, str]:
    """Returns what a daemon that says `info` of itself cannot enforce, each with the reason."""
    if info.get("OSType", "linux") != "linux":
        return dict.fromkeys(Guarantee, f"the daemon runs {info.get('OSType')} containers")
    if runtime == GVISOR:
        return _lost_cgroup(info) | LOST_IN_GVISOR
    return _lost_cgroup(info) | _lost_seccomp(info)


def _lost_cgroup(info: Mapping[str, Any]) -> dict[Guarantee, str]:
    rootless = " of a rootless daemon, which needs cgroup v2 and delegated controllers"
    where = f"the cgroup{rootless if 'rootless' in _security(info) else ''}"
    if info.get("CgroupDriver") == "none":
        return dict.fromkeys((Guarantee.MEMORY, Guarantee.PIDS, Guarantee.CPU), f"{where} limits nothing")
    controllers = {
        Guarantee.MEMORY: ("MemoryLimit", "memory"),
        Guarantee.PIDS: ("PidsLimit", "the number of processes"),
        Guarantee.CPU: ("CpuCfsQuota", "CPU time"),
    }
    return {
        name: f"{where} does not limit {what}"
        for name, (key, what) in controllers.items()
        if info.get(key) is not True
    }


def _lost_seccomp(info: Mapping[str, Any]) -> dict[Guarantee, str]:
    if "seccomp" not in _security(info):
        return {Guarantee.SECCOMP: "the daemon or its kernel has no seccomp"}
    architecture = info.get("Architecture")
    if architecture not in ARCHITECTURES:
        return {Guarantee.SECCOMP: f"the profile does not cover {architecture}"}
    return {}


def _security(info: Mapping[str, Any]) -> set[str]:
    """Returns the names in SecurityOptions, which read like `name=seccomp,profile=default`."""
    options = info.get("SecurityOptions") or ()
    return {part.removeprefix("name=") for option in options for part in str(option).split(",")[:1]}


def socket_may_work(info: Mapping[str, Any], runtime: str | None = None) -> bool:
    """Whether boxes of a daemon on this machine can be offered a socket; only a box can tell that it works.

    gVisor lets none out, and where users are mapped, a box is not known by its uid.
    """
    return runtime != GVISOR and not {"userns", "rootless"} & _security(info)

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.engines.docker_config import (
    LOST_IN_GVISOR,
    DockerOptions,
    chosen_runtime,
    create_body,
    guarantees,
    has_apparmor,
    lost_guarantees,
    socket_may_work,
)
from sandbox_skills.errors import SettingsError
from sandbox_skills.spec import BASE_GUARANTEES, MIB, Guarantee, SandboxId, SandboxLimits, SandboxSpec

OPTIONS = DockerOptions(instance="i1", seccomp='{"defaultAction":"…"}', skills_dir=Path("/var/lib/x/store"))
SPEC = SandboxSpec(tenant="t1", run="r1", ttl_seconds=60.0)

INFO: dict[str, Any] = {
    "OSType": "linux", "Architecture": "x86_64", "CgroupDriver": "cgroupfs", "MemoryLimit": True, "PidsLimit": True,
    "CpuCfsQuota": True, "SecurityOptions": ["name=apparmor", "name=seccomp,profile=default"],
}  # fmt: skip


def body(
    spec: SandboxSpec = SPEC,
    options: DockerOptions = OPTIONS,
    uid: int = 20001,
    channel_dir: Path | None = None,
) -> dict[str, Any]:
    return create_body(
        spec,
        image_id="sha256:abc",
        uid=uid,
        options=options,
        now=1000.7,
        sandbox_id=SandboxId("s1"),
        channel_dir=channel_dir,
    )


def host(spec: SandboxSpec = SPEC, options: DockerOptions = OPTIONS) -> dict[str, Any]:
    found: dict[str, Any] = body(spec, options)["HostConfig"]
    return found


def with_limits(**limits: float) -> SandboxSpec:
    return replace(SPEC, limits=replace(SandboxLimits(), **dict[str, Any](limits)))


def test_the_whole_body_is_this() -> None:
    assert body() == {
        "Image": "sha256:abc",
        "Entrypoint": ["/usr/bin/python3", "-I", "-S", "-B", "/opt/sandbox-skills/runner.pyc"],
        "Cmd": [],
        "User": "20001:20001",
        "WorkingDir": "/",
        "Env": [
            "ALL_PROXY=", "FTP_PROXY=", "HOME=/workspace/home", "HTTPS_PROXY=", "HTTP_PROXY=", "LANG=C.UTF-8",
            "LD_AUDIT=", "LD_LIBRARY_PATH=", "LD_PRELOAD=", "NODE_OPTIONS=", "NO_PROXY=",
            "PATH=/usr/local/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE=1", "PYTHONHOME=", "PYTHONNOUSERSITE=1",
            "PYTHONPATH=", "PYTHONSTARTUP=", "all_proxy=", "ftp_proxy=", "http_proxy=", "https_proxy=", "no_proxy=",
        ],
        "Hostname": "sandbox",
        "Domainname": "",
        "Labels": {
            "sandbox-skills.managed": "1",
            "sandbox-skills.instance": "i1",
            "sandbox-skills.sandbox": "s1",
            "sandbox-skills.tenant": "t1",
            "sandbox-skills.run": "r1",
            "sandbox-skills.expires-at": "1060",
        },
        "Tty": False,
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "NetworkDisabled": True,
        "Healthcheck": {"Test": ["NONE"]},
        "StopSignal": "SIGKILL",
        "StopTimeout": 1,
        "HostConfig": {
            "AutoRemove": True,
            "Init": False,
            "LogConfig": {"Type": "none", "Config": {}},
            "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
            "Privileged": False,
            "CapAdd": [],
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges:true", 'seccomp={"defaultAction":"…"}'],
            "GroupAdd": [],
            "NetworkMode": "none",
            "IpcMode": "private",
            "CgroupnsMode": "private",
            "PidMode": "",
            "UTSMode": "",
            "Devices": [],
            "DeviceRequests": [],
            "PublishAllPorts": False,
            "PortBindings": {},
            "Sysctls": {
                "kernel.shm_rmid_forced": "1",
                "kernel.msgmni": "8",
                "kernel.sem": "250 1000 100 64",
            },
            "Memory": 536870912,
            "MemorySwap": 536870912,
            "NanoCpus": 1000000000,
            "PidsLimit": 128,
            "Ulimits": [
                {"Name": "nofile", "Soft": 1024, "Hard": 1024},
                {"Name": "fsize", "Soft": 268435456, "Hard": 268435456},
                {"Name": "core", "Soft": 1, "Hard": 1},
            ],
            "OomKillDisable": False,
            "OomScoreAdj": 500,
            "ReadonlyRootfs": True,
            "Binds": [],
            "Mounts": [
                {
                    "Type": "bind",
                    "Source": "/var/lib/x/store",
                    "Target": "/skills",
                    "ReadOnly": True,
                    "BindOptions": {"Propagation": "rprivate", "NonRecursive": True},
                }
            ],
            "ShmSize": 16777216,
            "Tmpfs": {
                "/workspace": "rw,exec,nosuid,nodev,size=268435456,nr_inodes=16384,mode=0700,uid=20001,gid=20001",
                "/tmp": "rw,exec,nosuid,nodev,size=67108864,nr_inodes=8192,mode=0700,uid=20001,gid=20001",
                "/dev/shm": "rw,exec,nosuid,nodev,size=16777216,nr_inodes=1024,mode=0700,uid=20001,gid=20001",
            },
        },
    }  # fmt: skip


def test_every_call_gives_a_body_of_its_own() -> None:
    first = body()
    first["HostConfig"]["CapDrop"].clear()
    first["Labels"].clear()
    assert body()["HostConfig"]["CapDrop"] == ["ALL"]
    assert body()["Labels"]


def test_a_runtime_is_named_only_where_one_was_chosen() -> None:
    assert "Runtime" not in host()
    assert host(options=replace(OPTIONS, runtime="runsc"))["Runtime"] == "runsc"


def test_gvisor_gets_processes_for_its_own_threads_and_no_sysctl() -> None:
    gvisor = host(options=replace(OPTIONS, runtime="runsc"))
    assert (gvisor["PidsLimit"], gvisor["Sysctls"]) == (512, {})
    assert host(with_limits(pids=1000), replace(OPTIONS, runtime="runsc"))["PidsLimit"] == 1000


def test_apparmor_is_asked_for_where_the_host_has_it() -> None:
    confined = host(options=replace(OPTIONS, apparmor=True))["SecurityOpt"]
    assert confined[-1] == "apparmor=docker-default"
    assert not [option for option in host()["SecurityOpt"] if option.startswith("apparmor")]


def test_without_a_store_nothing_is_mounted() -> None:
    assert host(options=replace(OPTIONS, skills_dir=None))["Mounts"] == []


def test_a_box_that_is_to_connect_to_a_socket_has_it_read_only_and_is_told_its_name() -> None:
    found = body(channel_dir=Path("/var/lib/x/sockets/s1"))
    assert found["Cmd"] == ["--channel", "/run/sandbox-skills/channel"]
    assert [mount["Target"] for mount in found["HostConfig"]["Mounts"]] == ["/skills", "/run/sandbox-skills"]
    assert found["HostConfig"]["Mounts"][1] == {
        "Type": "bind",
        "Source": "/var/lib/x/sockets/s1",
        "Target": "/run/sandbox-skills",
        "ReadOnly": True,
        "BindOptions": {"Propagation": "rprivate", "NonRecursive": True},
    }


@pytest.mark.parametrize(
    ("info", "runtime", "may"),
    [
        ({"SecurityOptions": ["name=seccomp,profile=default"]}, None, True),
        ({}, "crun", True),
        ({}, "runsc", False),
        ({"SecurityOptions": ["name=seccomp", "name=rootless"]}, None, False),
        ({"SecurityOptions": ["name=userns"]}, None, False),
    ],
)
def test_a_socket_is_offered_where_a_box_is_known_by_its_uid(
    info: dict[str, object], runtime: str | None, *, may: bool
) -> None:
    assert socket_may_work(info, runtime) is may


CRUN_IS_THERE: dict[str, object] = {
    "CgroupVersion": "2",
    "DefaultRuntime": "runc",
    "Runtimes": {"crun": {"path": "crun"}, "runc": {"path": "runc"}},
}


@pytest.mark.parametrize(
    ("info", "wanted", "chosen"),
    [
        ({}, None, None),
        (CRUN_IS_THERE, None, "crun"),
        (CRUN_IS_THERE, "runc", "runc"),
        (CRUN_IS_THERE, "runsc", "runsc"),
        (CRUN_IS_THERE | {"CgroupVersion": "1"}, None, None),
        (CRUN_IS_THERE | {"DefaultRuntime": "runsc"}, None, None),
        (CRUN_IS_THERE | {"Runtimes": {"runc": {"path": "runc"}}}, None, None),
        (CRUN_IS_THERE | {"Runtimes": None}, None, None),
    ],
)
def test_crun_is_taken_where_it_is_registered_and_can_work(
    info: dict[str, object], wanted: str | None, chosen: str | None
) -> None:
    assert chosen_runtime(info, wanted) == chosen


def test_the_masks_of_proc_are_left_to_docker() -> None:
    assert not {"MaskedPaths", "ReadonlyPaths"} & host().keys()


def test_swap_is_no_way_around_the_memory_limit() -> None:
    found = host(with_limits(memory=700 * MIB))
    assert found["Memory"] == found["MemorySwap"] == 700 * MIB


def test_limits_reach_the_daemon() -> None:
    found = host(with_limits(cpus=0.5, pids=9, open_files=99, file_bytes=12345, workspace_inodes=77))
    assert (found["NanoCpus"], found["PidsLimit"]) == (500_000_000, 9)
    assert [limit["Hard"] for limit in found["Ulimits"]] == [99, 12345, 1]
    assert "nr_inodes=77," in found["Tmpfs"]["/workspace"]


@pytest.mark.parametrize("uid", [0, -1])
def test_no_box_runs_as_root(uid: int) -> None:
    with pytest.raises(SettingsError, match="uid"):
        body(uid=uid)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("memory", 0), ("memory", -1), ("memory", 2**60), ("cpus", 0.0), ("cpus", float("nan")), ("cpus", float("inf")),
        ("pids", 0), ("pids", -1), ("workspace_bytes", 0), ("workspace_inodes", 0), ("tmp_bytes", 0), ("shm_bytes", 0),
        ("open_files", 0), ("file_bytes", 0),
    ],
)  # fmt: skip
def test_a_limit_that_would_be_none_or_nonsense_is_refused(name: str, value: float) -> None:
    with pytest.raises(SettingsError, match=name):
        body(with_limits(**{name: value}))


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("inf"), float("nan")])
def test_a_time_to_live_that_never_ends_or_is_over_is_refused(seconds: float) -> None:
    with pytest.raises(SettingsError, match="seconds"):
        body(replace(SPEC, ttl_seconds=seconds))


def test_tmpfs_that_could_fill_the_memory_is_refused_with_the_memory_it_would_take() -> None:
    inodes = (16 + 8 + 1) * 1024 * 1536
    least = 336 * MIB + inodes + 32 * MIB
    assert host(with_limits(memory=least))["Memory"] == least
    with pytest.raises(SettingsError, match="together") as caught:
        body(with_limits(memory=least - 1))
    assert str(least) in caught.value.hint


@given(
    st.builds(
        SandboxLimits,
        memory=st.integers(-1, 2**40),
        cpus=st.floats(),
        pids=st.integers(-1, 10**6),
        workspace_bytes=st.integers(-1, 2**40),
        workspace_inodes=st.integers(-1, 2**30),
        tmp_bytes=st.integers(-1, 2**40),
        shm_bytes=st.integers(-1, 2**40),
    )
)
def test_whatever_the_limits_every_body_is_limited(limits: SandboxLimits) -> None:
    try:
        found = host(replace(SPEC, limits=limits))
    except SettingsError:
        return
    assert found["Memory"] > 0
    assert found["NanoCpus"] > 0
    assert found["PidsLimit"] > 0
    assert not [
        options for options in found["Tmpfs"].values() if "size=0," in options or "inodes=0," in options
    ]


def test_a_daemon_with_everything_loses_nothing() -> None:
    assert lost_guarantees(INFO) == {}
    assert guarantees(OPTIONS, INFO) == BASE_GUARANTEES


def test_apparmor_is_a_guarantee_only_where_it_is_on() -> None:
    asked = replace(OPTIONS, apparmor=True)
    assert guarantees(asked, INFO) == BASE_GUARANTEES | {Guarantee.APPARMOR}
    assert guarantees(asked, INFO | {"SecurityOptions": ["name=seccomp"]}) == BASE_GUARANTEES
    assert has_apparmor(INFO)


def test_gvisor_adds_a_kernel_and_has_no_inode_limit() -> None:
    found = guarantees(replace(OPTIONS, runtime="runsc"), INFO)
    assert found == (BASE_GUARANTEES | {Guarantee.KERNEL_BOUNDARY}) - LOST_IN_GVISOR.keys()
    assert "gVisor" in lost_guarantees(INFO, "runsc")[Guarantee.INODES]


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        ({"MemoryLimit": False}, {Guarantee.MEMORY}),
        ({"PidsLimit": False}, {Guarantee.PIDS}),
        ({"CpuCfsQuota": False}, {Guarantee.CPU}),
        ({"CpuCfsQuota": None}, {Guarantee.CPU}),
        ({"CgroupDriver": "none"}, {Guarantee.MEMORY, Guarantee.PIDS, Guarantee.CPU}),
        ({"SecurityOptions": ["name=apparmor"]}, {Guarantee.SECCOMP}),
        ({"SecurityOptions": None}, {Guarantee.SECCOMP}),
        ({"Architecture": "s390x"}, {Guarantee.SECCOMP}),
        ({"OSType": "windows"}, set(Guarantee)),
    ],
)
def test_what_a_daemon_lacks_is_lost_with_a_reason(change: dict[str, Any], lost: set[Guarantee]) -> None:
    found = lost_guarantees(INFO | change)
    assert found.keys() == lost
    assert all(found.values())
    assert not guarantees(OPTIONS, INFO | change) & lost


def test_a_rootless_daemon_without_limits_is_told_why() -> None:
    info = INFO | {"SecurityOptions": ["name=seccomp", "name=rootless"], "CgroupDriver": "none"}
    assert "delegated" in lost_guarantees(info)[Guarantee.MEMORY]


def test_a_rootless_daemon_with_limits_loses_nothing() -> None:
    assert lost_guarantees(INFO | {"SecurityOptions": ["name=seccomp", "name=rootless"]}) == {}

"""The whole of what bubblewrap and the launcher are told, by equality."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandbox_skills.engines.bubblewrap.arguments import Parts, bwrap_arguments
from sandbox_skills.engines.bubblewrap.cgroup import Hierarchy
from sandbox_skills.engines.bubblewrap.order import Host, guarantees, lost_guarantees, order, stage
from sandbox_skills.errors import SettingsError
from sandbox_skills.spec import BASE_GUARANTEES, Guarantee, SandboxId, SandboxLimits, SandboxSpec

HOST = Host(
    program=Path("/usr/bin/bwrap"),
    version=(0, 8, 0),
    machine="x86_64",
    uid=0,
    gid=0,
    cpus=4,
    hierarchies=(
        Hierarchy(1, ("memory",), Path("/sys/fs/cgroup/memory/own")),
        Hierarchy(1, ("cpu", "pids"), Path("/sys/fs/cgroup/both")),
    ),
    masked=frozenset({"/proc/acpi", "/proc/keys"}),
)
USER = replace(HOST, uid=1000, gid=100, hierarchies=())
SPEC = SandboxSpec(tenant="t", ttl_seconds=60.0)
ID = SandboxId("sandbox-ab")

RUNNER = ("/usr/bin/python3", "-I", "-S", "-B", "/opt/sandbox-skills/runner.pyc")


def ordered(host: Host = HOST, spec: SandboxSpec = SPEC, uid: int = 20001) -> dict[str, Any]:
    return order(spec, host=host, uid=uid, sandbox_id=ID, instance="i1")


def with_limits(**limits: float) -> SandboxSpec:
    return replace(SPEC, limits=replace(SandboxLimits(), **dict[str, Any](limits)))


def test_the_whole_argument_list_is_this() -> None:
    assert bwrap_arguments(Parts(20001, HOST.masked)) == (
        "bwrap",
        "--unshare-user", "--uid", "20001", "--gid", "20001", "--disable-userns",
        "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup", "--hostname", "sandbox",
        "--as-pid-1", "--die-with-parent", "--new-session",
        "--cap-drop", "ALL", "--seccomp", "3",
        "--dev-bind", "/tmp/root", "/",
        "--proc", "/proc",
        "--tmpfs", "/proc/acpi", "--remount-ro", "/proc/acpi",
        "--ro-bind", "/dev/null", "/proc/keys",
        "--chdir", "/", "--",
        *RUNNER,
    )  # fmt: skip


def test_a_user_gets_bubblewraps_own_devices_and_no_cgroups() -> None:
    words = bwrap_arguments(Parts(20001, own_devices=False, lock_namespaces=False))
    text = " ".join(words)
    assert "--dev /dev --bind /tmp/shm /dev/shm --bind /tmp/mqueue /dev/mqueue --remount-ro /dev" in text
    assert "--disable-userns" not in words


def test_one_hierarchy_of_version_2_is_shown_whole() -> None:
    asked = ordered(replace(HOST, hierarchies=(Hierarchy(2, ("memory", "pids", "cpu"), Path("/cg")),)))
    assert asked["shown"] == [
        ["/tmp/skills", "/tmp/root/skills"],
        ["/cg/sandbox-skills-i1-sandbox-ab", "/tmp/root/sys/fs/cgroup"],
    ]
    assert asked["groups"] == [
        {
            "path": "/cg/sandbox-skills-i1-sandbox-ab",
            "files": [
                ["memory.max", "536870912", False],
                ["memory.swap.max", "0", True],
                ["pids.max", "128", False],
                ["cpu.max", "100000 100000", False],
            ],
            "join": "cgroup.procs",
            "oom": "memory.events",
        }
    ]


def test_the_whole_order_is_this() -> None:
    asked = ordered()
    assert asked.pop("argv")[0] == "bwrap"
    assert asked == {
        "id": "sandbox-ab",
        "ttl": 60.0,
        "groups": [
            {
                "path": "/sys/fs/cgroup/memory/own/sandbox-skills-i1-sandbox-ab",
                "files": [
                    ["memory.limit_in_bytes", "536870912", False],
                    ["memory.memsw.limit_in_bytes", "536870912", True],
                    ["memory.kmem.tcp.limit_in_bytes", "536870912", True],
                ],
                "join": "tasks",
                "oom": "memory.oom_control",
            },
            {
                "path": "/sys/fs/cgroup/both/sandbox-skills-i1-sandbox-ab",
                "files": [
                    ["cpu.cfs_period_us", "100000", False],
                    ["cpu.cfs_quota_us", "100000", False],
                    ["pids.max", "128", False],
                ],
                "join": "tasks",
                "oom": "",
            },
        ],
        "sysctls": {
            "/proc/sys/kernel/shm_rmid_forced": "1",
            "/proc/sys/kernel/msgmni": "8",
            "/proc/sys/kernel/sem": "250 1000 100 64",
        },
        "tree": "/tmp/tree",
        "root": "/tmp/root",
        "empty": "/tmp/skills",
        "mounts": [
            ("/tmp/root/dev", "tmpfs", 10, "size=64k,nr_inodes=32,mode=0755"),
            ("/tmp/root/dev/pts", "devpts", 10, "newinstance,ptmxmode=0666,mode=0620,max=64"),
            ("/tmp/root/sys", "tmpfs", 14, "size=64k,nr_inodes=16,mode=0755"),
            ("/tmp/root/workspace", "tmpfs", 6, "size=268435456,nr_inodes=16384,mode=0700,uid=20001,gid=20001"),
            ("/tmp/root/tmp", "tmpfs", 6, "size=67108864,nr_inodes=8192,mode=0700,uid=20001,gid=20001"),
            ("/tmp/root/dev/shm", "tmpfs", 6, "size=16777216,nr_inodes=1024,mode=0700,uid=20001,gid=20001"),
            ("/tmp/root/dev/mqueue", "mqueue", 14, ""),
        ],
        "shown": [
            ["/tmp/skills", "/tmp/root/skills"],
            ["/sys/fs/cgroup/memory/own/sandbox-skills-i1-sandbox-ab", "/tmp/root/sys/fs/cgroup/memory"],
            ["/sys/fs/cgroup/both/sandbox-skills-i1-sandbox-ab", "/tmp/root/sys/fs/cgroup/cpu"],
            ["/sys/fs/cgroup/both/sandbox-skills-i1-sandbox-ab", "/tmp/root/sys/fs/cgroup/pids"],
        ],
        "sealed": ["/tmp/root/sys"],
        "dev": {
            "path": "/tmp/root/dev",
            "nodes": {
                "null": [1, 3], "zero": [1, 5], "full": [1, 7], "random": [1, 8], "urandom": [1, 9], "tty": [5, 0],
            },
            "links": {
                "core": "/proc/kcore", "fd": "/proc/self/fd", "ptmx": "pts/ptmx", "stdin": "/proc/self/fd/0",
                "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
            },
        },
        "uid": 20001,
        "rlimits": {"nofile": 1024, "fsize": 268435456, "core": 1},
        "oom_score_adj": 500,
        "program": "/usr/bin/bwrap",
        "env": {
            "HOME": "/workspace/home", "LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1",
        },
    }  # fmt: skip


def test_an_order_can_be_sent() -> None:
    assert json.loads(json.dumps(ordered()))["id"] == ID


def test_a_user_keeps_his_uid_outside_and_has_rlimits_in_place_of_cgroups() -> None:
    asked = ordered(USER)
    assert (asked["uid"], asked["dev"], asked["groups"]) == (None, None, [])
    assert asked["rlimits"] == {"nofile": 1024, "fsize": 268435456, "core": 1, "data": 536870912}
    assert [mount[0] for mount in asked["mounts"]] == [
        "/tmp/root/sys",
        "/tmp/root/workspace",
        "/tmp/root/tmp",
        "/tmp/shm",
        "/tmp/mqueue",
    ]
    assert all(mount[3].endswith(",uid=1000,gid=100") for mount in asked["mounts"][1:4])


def test_root_without_cgroups_limits_processes_by_the_boxs_own_uid() -> None:
    assert ordered(replace(HOST, hierarchies=()))["rlimits"]["nproc"] == 128


def test_the_stage_is_prepared_with_what_boxes_share() -> None:
    assert stage(HOST, Path("/data/root"), Path("/data/store")) == {
        "stage": "/tmp",
        "parts": ["tree", "root", "skills"],
        "root": "/data/root",
        "tree": "/tmp/tree",
        "store": "/data/store",
        "skills": "/tmp/skills",
        "outer": None,
    }
    assert stage(USER, Path("/data/root"), None)["outer"] == [1000, 100]


@pytest.mark.parametrize(
    ("limits", "match"), [({"cpus": 4.5}, "this host has: 4"), ({"memory": 1}, "sandbox.memory")]
)
def test_limits_that_no_box_can_have_are_refused(limits: dict[str, float], match: str) -> None:
    with pytest.raises(SettingsError, match=match):
        ordered(spec=with_limits(**limits))


def test_root_with_every_controller_guarantees_all_but_a_kernel_and_a_profile() -> None:
    assert guarantees(HOST) == BASE_GUARANTEES
    assert lost_guarantees(HOST) == {}


def test_what_a_user_cannot_have_is_lost_with_the_reason() -> None:
    lost = lost_guarantees(USER)
    assert set(lost) == {Guarantee.MEMORY, Guarantee.PIDS, Guarantee.CPU, Guarantee.OWN_UID}
    assert "memory controller" in lost[Guarantee.MEMORY]
    assert guarantees(USER) == BASE_GUARANTEES - set(lost)


def test_a_controller_that_is_missing_is_lost_alone() -> None:
    host = replace(HOST, hierarchies=(Hierarchy(2, ("memory", "pids"), Path("/cg")),))
    assert set(lost_guarantees(host)) == {Guarantee.CPU}


def test_another_machine_has_no_filter() -> None:
    assert set(lost_guarantees(replace(HOST, machine="riscv64"))) == {Guarantee.SECCOMP}

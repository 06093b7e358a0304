from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.engines.docker_config import LOST_IN_GVISOR
from sandbox_skills.engines.verify import check_box, check_probe, image_faults
from sandbox_skills.spec import BASE_GUARANTEES, Guarantee, SandboxSpec

UID = 20007
MARKER = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
SPEC = SandboxSpec()
GVISOR_SPEC = replace(SPEC, needs=(BASE_GUARANTEES | {Guarantee.KERNEL_BOUNDARY}) - LOST_IN_GVISOR.keys())


def mount(size: int, inodes: int, *options: str, fstype: str = "tmpfs") -> dict[str, object]:
    return {"fstype": fstype, "options": list(options), "size": size, "inodes": inodes}


# What the runner said under runc 1.1.5 (cgroup v1) and under runsc 20221219, mount paths shortened.
RUNC: dict[str, Any] = {
    "uid": UID,
    "gid": UID,
    "groups": [UID],
    "caps": {"inh": 0, "prm": 0, "eff": 0, "bnd": 0, "amb": 0},
    "no_new_privs": 1,
    "seccomp": 2,
    "dumpable": 0,
    "interfaces": ["lo"],
    "mounts": {
        "/": mount(270553174016, 16777216, "lowerdir=…", "relatime", "ro", "rw", fstype="overlay"),
        "/workspace": mount(268435456, 16384, "mode=700", "nodev", "nosuid", "relatime", "rw"),
        "/skills": mount(270553174016, 16777216, "relatime", "ro", "rw", fstype="ext4"),
        "/tmp": mount(67108864, 8192, "mode=700", "nodev", "nosuid", "relatime", "rw"),
        "/dev/shm": mount(16777216, 1024, "mode=700", "nodev", "nosuid", "relatime", "rw"),
    },
    "rlimits": {"nofile": [1024, 1024], "fsize": [268435456, 268435456], "core": [1, 1]},
    "cgroup": {"memory": 536870912, "pids": 128, "cpu_quota": 100000, "cpu_period": 100000},
    "kernel": "Linux version 6.18.44 (builder@host) (gcc 15.3.0) #1 SMP PREEMPT_DYNAMIC",
}
RUNSC: dict[str, Any] = {
    **RUNC,
    "groups": [],
    "caps": {"inh": 0, "prm": 0, "eff": 0, "bnd": 0, "amb": None},
    "no_new_privs": None,
    "seccomp": 0,
    "mounts": {
        "/": mount(270553174016, 16777216, "cache=fscache", "ro", fstype="9p"),
        "/workspace": mount(268435456, 0, "mode=0700", "rw", "size=268435456"),
        "/skills": mount(270553174016, 16777216, "ro", "trans=fd", fstype="9p"),
        "/tmp": mount(67108864, 0, "mode=0700", "rw", "size=67108864"),
        "/dev/shm": mount(16777216, 0, "mode=0700", "rw", "size=16777216"),
    },
    "cgroup": {"memory": None, "pids": None, "cpu_quota": None, "cpu_period": None},
    "kernel": "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016",
}
RUNC_PROBE: dict[str, Any] = {
    "interpreters": {"python3": "3.13.5", "node": "24.19.0", "bash": "5.2.37"},
    "loopback": "ok",
    "outside_v4": "ENETUNREACH",
    "outside_v6": "ENETUNREACH",
    "localhost": ["127.0.0.1", "::1"],
    "passwd_name": "box20007",
    "marker": MARKER,
    "write_root": "EROFS",
    "write_skills": "EROFS",
    "af_packet": "EPERM",
    "af_vsock": "EPERM",
    "af_alg": "EPERM",
    "read_pid1_mem": "EACCES",
    "list_pid1_files": "EACCES",
    "ptrace_pid1": "EPERM",
    "io_uring": "EPERM",
    "keyctl": "EPERM",
    "bpf": "EPERM",
    "userfaultfd": "EPERM",
    "mount": "EPERM",
    "setuid0": "EPERM",
    "unshare_user": "EPERM",
}
RUNSC_PROBE: dict[str, Any] = {
    **RUNC_PROBE,
    "list_pid1_files": "ok",
    "outside_v4": "EHOSTUNREACH",
    "outside_v6": "EHOSTUNREACH",
    "write_root": "EACCES",
    "write_skills": "EACCES",
    "af_vsock": "EAFNOSUPPORT",
    "af_alg": "EAFNOSUPPORT",
    "io_uring": "ok",
    "keyctl": "EACCES",
    "userfaultfd": "ENOSYS",
    "unshare_user": 0,
}


def changed(facts: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy of `facts` with the value at `a>b>c` replaced."""
    facts = copy.deepcopy(facts)
    *above, last = path.split(">")
    inner = facts
    for name in above:
        inner = inner[name]
    inner[last] = value
    return facts


def box(facts: object, spec: SandboxSpec = SPEC, runtime: str = "runc") -> set[Guarantee]:
    return {lost.guarantee for lost in check_box(facts, spec=spec, uid=UID, runtime=runtime)}


def probe(reply: object, spec: SandboxSpec = SPEC, runtime: str = "runc") -> set[Guarantee]:
    return {lost.guarantee for lost in check_probe(reply, spec=spec, runtime=runtime, marker=MARKER)}


def test_a_box_of_runc_as_it_is_loses_nothing() -> None:
    assert not box(RUNC)
    assert not box(RUNC, runtime="crun")
    assert not probe(RUNC_PROBE)


def test_a_box_of_gvisor_as_it_is_loses_its_inode_limit_and_its_runners_files() -> None:
    assert not box(RUNSC, GVISOR_SPEC, "runsc")
    assert box(RUNSC, SPEC, "runsc") == {Guarantee.INODES}
    assert not probe(RUNSC_PROBE, GVISOR_SPEC, "runsc")
    assert probe(RUNSC_PROBE, SPEC, "runsc") == {Guarantee.PROTECTED_RUNNER}


def test_runc_in_place_of_gvisor_has_no_kernel_boundary() -> None:
    assert Guarantee.KERNEL_BOUNDARY in box(RUNC, GVISOR_SPEC, "runsc")


def test_gvisor_in_place_of_runc_is_not_taken_for_it() -> None:
    assert Guarantee.SECCOMP in box(RUNSC)


def test_a_newer_gvisor_names_itself() -> None:
    facts = changed(RUNSC, "kernel", "Linux version 4.19.0-gvisor #1 SMP")
    assert not box(facts, GVISOR_SPEC, "runsc")


@pytest.mark.parametrize(
    ("path", "value", "lost"),
    [
        ("uid", 20008, Guarantee.OWN_UID),
        ("uid", 0, Guarantee.OWN_UID),
        ("gid", 0, Guarantee.OWN_UID),
        ("groups", [UID, 27], Guarantee.OWN_UID),
        ("groups", None, Guarantee.OWN_UID),
        ("dumpable", 1, Guarantee.PROTECTED_RUNNER),
        ("dumpable", False, Guarantee.PROTECTED_RUNNER),
        ("caps>eff", 1, Guarantee.NO_CAPABILITIES),
        ("caps>bnd", 0x1FF, Guarantee.NO_CAPABILITIES),
        ("caps>amb", None, Guarantee.NO_CAPABILITIES),
        ("caps", [], Guarantee.NO_CAPABILITIES),
        ("no_new_privs", 0, Guarantee.NO_NEW_PRIVILEGES),
        ("no_new_privs", True, Guarantee.NO_NEW_PRIVILEGES),
        ("seccomp", 0, Guarantee.SECCOMP),
        ("seccomp", 1, Guarantee.SECCOMP),
        ("interfaces", ["eth0", "lo"], Guarantee.NO_NETWORK),
        ("interfaces", [], Guarantee.NO_NETWORK),
        ("interfaces", None, Guarantee.NO_NETWORK),
        ("mounts>/>options", ["rw", "lowerdir=ro"], Guarantee.READONLY_ROOT),
        ("mounts>/skills>options", ["rw"], Guarantee.READONLY_SKILLS),
        ("mounts>/workspace>fstype", "overlay", Guarantee.DISK),
        ("mounts>/workspace>size", 2**40, Guarantee.DISK),
        ("mounts>/workspace>size", 0, Guarantee.DISK),
        ("mounts>/workspace>inodes", 16385, Guarantee.INODES),
        ("mounts>/workspace>options", ["nodev", "rw"], Guarantee.NO_NEW_PRIVILEGES),
        ("mounts>/tmp", None, Guarantee.DISK),
        ("mounts>/tmp>options", ["nosuid", "rw"], Guarantee.NO_CAPABILITIES),
        ("mounts>/dev/shm>inodes", 0, Guarantee.INODES),
        ("rlimits>nofile", [1024, 4096], Guarantee.OPEN_FILES),
        ("rlimits>nofile", [1024], Guarantee.OPEN_FILES),
        ("rlimits>fsize", [-1, -1], Guarantee.FILE_SIZE),
        ("rlimits>core", [0, 2], Guarantee.FILE_SIZE),
        ("cgroup>memory", 9223372036854771712, Guarantee.MEMORY),
        ("cgroup>memory", None, Guarantee.MEMORY),
        ("cgroup>pids", None, Guarantee.PIDS),
        ("cgroup>pids", 129, Guarantee.PIDS),
        ("cgroup>cpu_quota", None, Guarantee.CPU),
        ("cgroup>cpu_quota", -1, Guarantee.CPU),
        ("cgroup>cpu_quota", 100011, Guarantee.CPU),
        ("cgroup>cpu_period", 0, Guarantee.CPU),
        ("cgroup>cpu_period", float("nan"), Guarantee.CPU),
    ],
)
def test_a_box_that_does_not_hold_loses_just_that(path: str, value: object, lost: Guarantee) -> None:
    found = check_box(changed(RUNC, path, value), spec=SPEC, uid=UID, runtime="runc")
    assert lost in {each.guarantee for each in found}
    assert path.partition(">")[0] in found[0].reason


@pytest.mark.parametrize(
    ("path", "value", "lost"),
    [
        ("loopback", "ENETUNREACH", Guarantee.NO_NETWORK),
        ("outside_v4", "ok", Guarantee.NO_NETWORK),
        ("outside_v4", "ETIMEDOUT", Guarantee.NO_NETWORK),
        ("outside_v6", "ECONNREFUSED", Guarantee.NO_NETWORK),
        ("write_root", "ok", Guarantee.READONLY_ROOT),
        ("write_root", "EACCES", Guarantee.READONLY_ROOT),
        ("write_skills", "EACCES", Guarantee.READONLY_SKILLS),
        ("marker", "0" * 64, Guarantee.READONLY_SKILLS),
        ("marker", None, Guarantee.READONLY_SKILLS),
        ("setuid0", "ok", Guarantee.NO_CAPABILITIES),
        ("mount", 0, Guarantee.NO_CAPABILITIES),
        ("read_pid1_mem", "ok", Guarantee.PROTECTED_RUNNER),
        ("list_pid1_files", "ok", Guarantee.PROTECTED_RUNNER),
        *((name, "ok", Guarantee.SECCOMP) for name in ("io_uring", "keyctl", "bpf", "userfaultfd", "af_alg")),
        *((name, "EAFNOSUPPORT", Guarantee.SECCOMP) for name in ("af_packet", "af_vsock")),
        ("ptrace_pid1", "ESRCH", Guarantee.SECCOMP),
        ("unshare_user", 0, Guarantee.SECCOMP),
        ("unshare_user", None, Guarantee.SECCOMP),
    ],
)
def test_an_attempt_that_is_not_refused_as_it_must_be_is_a_loss(
    path: str, value: object, lost: Guarantee
) -> None:
    assert probe(changed(RUNC_PROBE, path, value)) == {lost}


@pytest.mark.parametrize("name", ["bpf", "af_packet", "af_vsock", "af_alg"])
def test_gvisor_must_not_have_what_it_has_no_use_for(name: str) -> None:
    assert probe(changed(RUNSC_PROBE, name, "ok"), GVISOR_SPEC, "runsc") == {Guarantee.SECCOMP}


def test_only_where_uid_0_does_not_exist_may_asking_for_it_be_invalid() -> None:
    answer = changed(RUNC_PROBE, "setuid0", "EINVAL")
    assert probe(answer) == {Guarantee.NO_CAPABILITIES}
    assert probe(answer, SPEC, "bubblewrap") == set()
    assert probe(changed(RUNC_PROBE, "setuid0", "ok"), SPEC, "bubblewrap") == {Guarantee.NO_CAPABILITIES}


def test_a_limit_rounded_to_pages_holds() -> None:
    assert not box(changed(RUNC, "mounts>/workspace>size", 268435456 + 4096))
    assert not box(changed(RUNC, "cgroup>memory", 536870912 - 4096))


def test_a_limit_that_gvisor_does_show_must_be_the_one_demanded() -> None:
    assert box(changed(RUNSC, "cgroup>memory", 2**40), GVISOR_SPEC, "runsc") == {Guarantee.MEMORY}


def test_without_a_store_the_skills_are_as_read_only_as_the_root() -> None:
    alone = changed(RUNC, "mounts>/skills", None)
    assert not box(alone)
    assert box(changed(alone, "mounts>/>options", ["rw"])) == {
        Guarantee.READONLY_ROOT,
        Guarantee.READONLY_SKILLS,
    }


def test_without_a_store_no_marker_is_asked_for() -> None:
    assert not check_probe(changed(RUNC_PROBE, "marker", ""), spec=SPEC, runtime="runc", marker=None)


def test_what_nobody_needs_is_not_lost() -> None:
    modest = replace(SPEC, needs=frozenset({Guarantee.MEMORY}))
    assert box(changed(RUNC, "seccomp", 0), modest) == set()
    assert box({}, modest) == {Guarantee.MEMORY}
    assert not box({}, replace(SPEC, needs=frozenset()))


@pytest.mark.parametrize("runtime", ["runc", "runsc"])
def test_an_empty_report_holds_nothing_that_can_be_seen(runtime: str) -> None:
    unseen = {Guarantee.APPARMOR, Guarantee.KERNEL_BOUNDARY}
    hidden = {Guarantee.MEMORY, Guarantee.PIDS, Guarantee.CPU} if runtime == "runsc" else set()
    assert box({}, SPEC, runtime) == BASE_GUARANTEES - unseen - hidden


def test_a_reason_quotes_little_of_what_the_box_says() -> None:
    (lost,) = check_box(changed(RUNC, "interfaces", ["x" * 10_000] * 100), spec=SPEC, uid=UID, runtime="runc")
    assert len(lost.reason) < 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(facts=JSON, runtime=st.sampled_from(["runc", "runsc"]))
def test_any_report_is_a_loss_and_never_an_exception(facts: object, runtime: str) -> None:
    assert box(facts, SPEC, runtime)
    assert probe(facts, SPEC, runtime)
    assert image_faults(facts)


@given(
    path=st.sampled_from([
        *RUNC, *(f"caps>{name}" for name in RUNC["caps"]), *(f"cgroup>{name}" for name in RUNC["cgroup"]),
        *(f"rlimits>{name}" for name in RUNC["rlimits"]), *(f"mounts>{name}" for name in RUNC["mounts"]),
        *(f"mounts>/workspace>{name}" for name in RUNC["mounts"]["/"]),
    ]),
    value=JSON,
    runtime=st.sampled_from(["runc", "runsc"]),
)  # fmt: skip
def test_any_value_anywhere_is_judged_without_an_exception(path: str, value: object, runtime: str) -> None:
    check_box(changed(RUNC, path, value), spec=SPEC, uid=UID, runtime=runtime)


def test_a_fit_image_has_no_fault() -> None:
    assert image_faults(RUNC_PROBE) == []


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        ("interpreters>node", None, "node"),
        ("interpreters>bash", 5, "bash"),
        ("interpreters", None, "python3"),
        ("passwd_name", "", "passwd"),
        ("localhost", "Temporary failure in name resolution", "localhost"),
        ("localhost", ["::1"], "localhost"),
    ],
)
def test_what_an_image_lacks_is_told(path: str, value: object, fault: str) -> None:
    assert any(fault in each for each in image_faults(changed(RUNC_PROBE, path, value)))

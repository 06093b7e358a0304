from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills import bundled
from sandbox_skills.engines.seccomp import compile as seccomp
from sandbox_skills.engines.seccomp import profile
from sandbox_skills.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

DENIED = [
    "acct", "add_key", "adjtimex", "bpf", "chroot", "clock_adjtime", "clock_settime", "delete_module",
    "fanotify_init", "fanotify_mark", "finit_module", "fsconfig", "fsmount", "fsopen", "fspick",
    "get_mempolicy", "init_module", "io_setup", "io_submit", "io_uring_enter", "io_uring_register",
    "io_uring_setup", "ioperm", "iopl", "ioprio_set", "kcmp", "kexec_file_load", "kexec_load", "keyctl",
    "lookup_dcookie", "mbind", "memfd_secret", "migrate_pages", "modify_ldt", "mount", "mount_setattr",
    "move_mount", "move_pages", "name_to_handle_at", "nfsservctl", "open_by_handle_at", "open_tree",
    "perf_event_open", "pidfd_getfd", "pivot_root", "process_madvise", "process_vm_readv",
    "process_vm_writev", "ptrace", "quotactl", "quotactl_fd", "reboot", "request_key", "set_mempolicy",
    "setdomainname", "sethostname", "setns", "settimeofday", "socketcall", "stime", "swapoff", "swapon",
    "sync", "syncfs", "syslog", "umount", "umount2", "unshare", "uselib", "userfaultfd", "vhangup",
    "vm86", "vm86old",
]  # fmt: skip


def names(*, conditional: bool) -> list[str]:
    return [
        name
        for rule in seccomp.docker_profile()["syscalls"]
        for name in rule["names"]
        if bool(rule["args"]) is conditional
    ]


def rules_of(name: str) -> list[dict[str, Any]]:
    return [rule for rule in seccomp.docker_profile()["syscalls"] if name in rule["names"]]


def test_the_file_is_what_the_table_compiles_to() -> None:
    assert profile.profile_path().read_text() == seccomp.render()


def test_the_same_table_gives_the_same_text() -> None:
    assert seccomp.render() == seccomp.render()


def test_what_is_not_named_is_refused() -> None:
    assert seccomp.docker_profile()["defaultAction"] == "SCMP_ACT_ERRNO"


def test_only_the_native_abi_is_known() -> None:
    assert seccomp.docker_profile()["archMap"] == [
        {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []},
        {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": []},
    ]


def test_no_call_is_named_twice_without_conditions() -> None:
    plain = names(conditional=False)
    assert len(plain) == len(set(plain))


def test_no_call_is_allowed_both_with_and_without_conditions() -> None:
    assert not set(names(conditional=False)) & set(names(conditional=True))


def test_no_rule_has_two_conditions_on_one_argument() -> None:
    for rule in seccomp.docker_profile()["syscalls"]:
        indices = [condition["index"] for condition in rule["args"]]
        assert len(indices) == len(set(indices))


def test_only_comparisons_that_high_bits_cannot_pass_are_used() -> None:
    operators = {
        condition["op"] for rule in seccomp.docker_profile()["syscalls"] for condition in rule["args"]
    }
    assert operators == {"SCMP_CMP_EQ", "SCMP_CMP_MASKED_EQ"}


def test_no_errno_rule_has_conditions() -> None:
    refusing = [rule for rule in seccomp.docker_profile()["syscalls"] if rule["action"] != "SCMP_ACT_ALLOW"]
    assert [(rule["names"], rule["args"], rule["errnoRet"]) for rule in refusing] == [(["clone3"], [], 38)]


@pytest.mark.parametrize("name", DENIED)
def test_a_dangerous_call_is_not_named(name: str) -> None:
    assert not rules_of(name)


@pytest.mark.parametrize(
    "name",
    [
        "brk",
        "clone",
        "execve",
        "exit_group",
        "fchmodat2",
        "fork",
        "futex",
        "getrandom",
        "ioctl",
        "kill",
        "mmap",
        "newfstatat",
        "openat",
        "poll",
        "prctl",
        "read",
        "rseq",
        "socket",
        "statx",
        "vfork",
        "wait4",
        "write",
    ],
)
def test_a_call_that_every_program_needs_is_named(name: str) -> None:
    assert rules_of(name)


def test_clone_may_make_no_namespace() -> None:
    (rule,) = rules_of("clone")
    assert rule["args"] == [{"index": 0, "op": "SCMP_CMP_MASKED_EQ", "value": 0x7E020000, "valueTwo": 0}]


def test_sockets_are_local_tcp_udp_or_the_interface_list() -> None:
    families = {
        tuple(c["value"] if c["op"] == "SCMP_CMP_EQ" else c["valueTwo"] for c in rule["args"])
        for rule in rules_of("socket")
    }
    assert families == {
        (1,), (16, 0),
        (2, 1, 0), (2, 1, 6), (2, 2, 0), (2, 2, 17),
        (10, 1, 0), (10, 1, 6), (10, 2, 0), (10, 2, 17),
    }  # fmt: skip


def allows(name: str, *arguments: int) -> bool:
    """Whether the profile lets the call through, computed as the kernel would: on 64 bits."""

    def holds(condition: dict[str, Any]) -> bool:
        value = arguments[condition["index"]]
        if condition["op"] == "SCMP_CMP_EQ":
            return bool(value == condition["value"])
        return bool(value & condition["value"] == condition["valueTwo"])

    return any(all(map(holds, rule["args"])) for rule in rules_of(name))


WORDS = st.integers(0, 2**64 - 1)


@given(
    descriptor=WORDS,
    request=WORDS | st.sampled_from([0x5412, 0x541C, 0x5423]),
    high=st.integers(0, 2**32 - 1),
)
def test_ioctl_is_allowed_unless_its_low_half_puts_input_into_a_terminal(
    descriptor: int, request: int, high: int
) -> None:
    raw = (request & 0xFFFFFFFF) | high << 32
    assert allows("ioctl", descriptor, raw) is (raw & 0xFFFFFFFF not in {0x5412, 0x541C, 0x5423})


@given(pid=WORDS | st.sampled_from([0, 1, 2]), high=st.integers(0, 2**32 - 1))
@pytest.mark.parametrize("name", ["sched_setscheduler", "sched_setaffinity", "sched_setattr"])
def test_every_process_but_the_runner_can_be_tuned(name: str, pid: int, high: int) -> None:
    raw = (pid & 0xFFFFFFFF) | high << 32
    assert allows(name, raw) is (raw & 0xFFFFFFFF != 1)


@given(resource=st.integers(0, 15), high=st.integers(0, 2**32 - 1))
def test_every_limit_but_that_of_a_core_can_be_lowered(resource: int, high: int) -> None:
    assert allows("setrlimit", resource | high << 32, 1) is (resource != 4)
    assert allows("prlimit64", high << 32, resource | high << 32, 1) is (resource != 4)


@given(pid=WORDS | st.sampled_from([0, 1, 2]), resource=WORDS | st.integers(0, 15))
def test_limits_of_others_can_be_read_and_their_processor_time_set_unless_they_are_the_runners(
    pid: int, resource: int
) -> None:
    other = pid & 0xFFFFFFFF != 1
    assert allows("prlimit64", pid, resource, 0) is other
    if pid & 0xFFFFFFFF:
        assert allows("prlimit64", pid, resource, 1) is (other and resource & 0xFFFFFFFF == 0)


@given(which=st.integers(0, 3), who=st.integers(0, 3))
def test_priority_is_set_only_for_single_processes_that_are_not_the_runner(which: int, who: int) -> None:
    assert allows("setpriority", which, who) is (which == 0 and who != 1)


@given(bits=st.integers(1, 8), data=st.data())
def test_blocks_cover_everything_but_the_forbidden_exactly_once(bits: int, data: st.DataObject) -> None:
    everything = range(2**bits)
    forbidden = data.draw(st.sets(st.sampled_from(everything)))
    blocks = list(seccomp.blocks_without(forbidden, bits))
    covered = [n for n in everything for mask, value in blocks if n & mask == value]
    assert covered == [n for n in everything if n not in forbidden]


def test_the_profile_is_given_as_one_line_of_json_without_its_reasons() -> None:
    text = profile.seccomp_profile()
    assert "\n" not in text
    applied, table = json.loads(text), seccomp.docker_profile()
    for rule in table["syscalls"]:
        assert rule.pop("comment")
    assert applied == table


def test_the_digest_names_the_profile() -> None:
    assert len(profile.profile_digest()) == 64
    assert int(profile.profile_digest(), 16) > 0


def test_a_missing_profile_is_a_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(profile, "profile_path", lambda: tmp_path / "none.json")
    profile.seccomp_profile.cache_clear()
    with pytest.raises(SettingsError, match=r"none\.json"):
        profile.seccomp_profile()
    profile.seccomp_profile.cache_clear()


def test_an_installed_package_finds_its_own_copy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    packaged = tmp_path / "_data" / "config" / "seccomp.json"
    packaged.parent.mkdir(parents=True)
    packaged.write_text("{}")
    monkeypatch.setattr(bundled, "_PACKAGE", tmp_path)
    assert profile.profile_path() == packaged

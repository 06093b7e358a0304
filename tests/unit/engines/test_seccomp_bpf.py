"""The filter as the kernel would run it, against the table as it is meant: both must answer every call alike."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sandbox_skills.engines.seccomp import bpf, profile
from sandbox_skills.engines.seccomp import compile as table
from sandbox_skills.engines.seccomp.numbers import LAST_KNOWN, NUMBERS
from sandbox_skills.errors import SettingsError
from tests.unit.engines.bpf_machine import verdict

if TYPE_CHECKING:
    from sandbox_skills.engines.seccomp.compile import Rule

ALLOW, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x50001, 0x50026, 0x80000000
MACHINES = ["x86_64", "aarch64"]
WORDS = st.integers(0, 2**64 - 1)


def number_of(name: str, machine: str) -> int | None:
    return NUMBERS[name][MACHINES.index(machine)]


def answer(machine: str, number: int, *arguments: int) -> int:
    return verdict(bpf.program(machine), bpf.MACHINES[machine][0], number, arguments)


def meant(name: str, arguments: list[int]) -> int:
    """What the table says, on whole arguments."""
    for rule in table.rules():
        if name in rule.names and all(
            arguments[condition.index] & condition.mask == condition.value for condition in rule.conditions
        ):
            return ALLOW if rule.errno is None else 0x50000 | rule.errno
    return EPERM


def conditional() -> list[Rule]:
    return [rule for rule in table.rules() if rule.conditions]


@pytest.mark.parametrize("machine", MACHINES)
def test_each_call_without_conditions_has_its_answer(machine: str) -> None:
    by_number = {number_of(name, machine): name for name in NUMBERS}
    guarded = {name for rule in conditional() for name in rule.names}
    for number in range(LAST_KNOWN + 1):
        name = by_number.get(number)
        if name not in guarded:
            assert answer(machine, number, 1, 2, 3) == (meant(name, [1, 2, 3]) if name else EPERM), (
                number,
                name,
            )


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("rule", conditional(), ids=lambda rule: f"{rule.names[0]} {rule.conditions}")
def test_each_rule_by_itself_allows_what_it_names_and_nothing_beside_it(machine: str, rule: Rule) -> None:
    fitting = [0] * 6
    for condition in rule.conditions:
        fitting[condition.index] = condition.value
    for name in rule.names:
        number = number_of(name, machine)
        assert number is not None
        assert answer(machine, number, *fitting) == ALLOW
        for condition in rule.conditions:
            for bit in (bit for bit in range(64) if condition.mask >> bit & 1):
                beside = list(fitting)
                beside[condition.index] ^= 1 << bit
                assert answer(machine, number, *beside) == meant(name, beside), (name, bit)


@pytest.mark.parametrize("machine", MACHINES)
@given(
    rule=st.sampled_from(conditional()),
    arguments=st.lists(WORDS | st.integers(0, 40), min_size=6, max_size=6),
)
def test_any_arguments_have_the_answer_of_the_table(machine: str, rule: Rule, arguments: list[int]) -> None:
    for name in rule.names:
        number = number_of(name, machine)
        assert number is not None
        assert answer(machine, number, *arguments) == meant(name, arguments)


@pytest.mark.parametrize("machine", MACHINES)
@given(number=st.integers(0, 2**32 - 1))
@example(LAST_KNOWN + 1)
@example(2**30 - 1)
@example(2**30)
@example(2**30 + 39)
@example(2**32 - 1)
def test_a_call_that_is_not_known_yet_does_not_exist_and_x32_kills(machine: str, number: int) -> None:
    if number > LAST_KNOWN:
        x32 = machine == "x86_64" and number >= 2**30
        assert answer(machine, number) == (KILL if x32 else ENOSYS)


@pytest.mark.parametrize("machine", MACHINES)
@given(audit=st.integers(0, 2**32 - 1), number=st.integers(0, LAST_KNOWN))
@example(0x40000003, 20)
@example(0x40000028, 20)
def test_every_foreign_abi_kills(machine: str, audit: int, number: int) -> None:
    if audit != bpf.MACHINES[machine][0]:
        assert verdict(bpf.program(machine), audit, number) == KILL


def test_dockers_profile_means_the_same() -> None:
    rules: list[dict[str, Any]] = json.loads(profile.seccomp_profile())["syscalls"]
    assert {name for rule in rules for name in rule["names"]} == NUMBERS.keys()


def test_numbers_are_of_one_call_each() -> None:
    for column in (0, 1):
        known = [number for columns in NUMBERS.values() if (number := columns[column]) is not None]
        assert len(known) == len(set(known))
        assert max(known) == LAST_KNOWN


def test_new_numbers_are_the_same_on_both_architectures() -> None:
    assert all(one == other for one, other in NUMBERS.values() if one >= 424)


def test_some_numbers_as_the_kernel_has_them() -> None:
    found = {name: NUMBERS[name] for name in ("read", "openat", "execve", "clone", "ioctl", "clone3", "fork")}
    assert found == {
        "read": (0, 63), "openat": (257, 56), "execve": (59, 221), "clone": (56, 220), "ioctl": (16, 29),
        "clone3": (435, 435), "fork": (57, None),
    }  # fmt: skip


def test_another_machine_has_no_filter() -> None:
    with pytest.raises(SettingsError, match="riscv64"):
        bpf.program("riscv64")

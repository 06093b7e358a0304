"""`doctor --strict`: what is less than SECURITY.md says of an engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_skills.engines.docker_config import LOST_IN_GVISOR
from sandbox_skills.engines.doctor import Check, DoctorOptions, documented, shortfalls
from sandbox_skills.spec import BASE_GUARANTEES, Guarantee

OK = Check("engine", "ok", "answers")
NO_APPARMOR = Check("apparmor", "lost", "the daemon has none", guarantee="apparmor")


def test_a_host_as_documented_has_none_even_without_what_is_optional() -> None:
    assert shortfalls([OK, NO_APPARMOR], BASE_GUARANTEES, BASE_GUARANTEES) == []


@pytest.mark.parametrize(
    "check",
    [
        Check("storage", "warning", "is not tested"),
        Check("image", "failed", "is missing"),
        Check("limits", "lost", "memory is not limited", guarantee="memory"),
        Check("engine", "lost", "isolates nothing"),
    ],
    ids=lambda check: f"{check.name} {check.state}",
)
def test_whatever_is_less_is_told(check: Check) -> None:
    assert shortfalls([OK, check, NO_APPARMOR], BASE_GUARANTEES, BASE_GUARANTEES) == [check]


def test_settings_that_demand_less_are_less() -> None:
    (found,) = shortfalls([OK], BASE_GUARANTEES - {Guarantee.SECCOMP}, BASE_GUARANTEES)
    assert (found.name, found.guarantee) == ("settings", "seccomp")


def test_each_engine_is_measured_by_what_is_said_of_it() -> None:
    assert documented(DoctorOptions(Path())) == BASE_GUARANTEES
    assert documented(DoctorOptions(Path(), engine="bubblewrap")) == BASE_GUARANTEES
    assert documented(DoctorOptions(Path(), engine="local")) == frozenset()
    gvisor = documented(DoctorOptions(Path(), runtime="runsc"))
    assert gvisor == (BASE_GUARANTEES | {Guarantee.KERNEL_BOUNDARY}) - LOST_IN_GVISOR.keys()
    required = BASE_GUARANTEES | {Guarantee.APPARMOR}
    assert documented(DoctorOptions(Path(), needs=required)) == required

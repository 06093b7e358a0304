from __future__ import annotations

import pytest

from sandbox_skills.daemon.access.limits import SandboxCeiling, TenantLimits, tenant_limits
from sandbox_skills.daemon.errors import TenantInvalidError


def test_a_tenant_without_limits_has_the_defaults() -> None:
    assert tenant_limits({}) == TenantLimits()
    assert tenant_limits({}, TenantLimits(concurrency=2)).concurrency == 2


def test_its_own_win_one_by_one() -> None:
    defaults = TenantLimits(concurrency=2, queue=5, sandbox=SandboxCeiling(wall_seconds=9, output_bytes=7))
    mine = tenant_limits({"queue": 1, "sandbox": {"wall_seconds": 3}}, defaults)
    assert (mine.concurrency, mine.queue) == (2, 1)
    assert (mine.sandbox.wall_seconds, mine.sandbox.output_bytes) == (3, 7)


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"concurency": 1}, "concurency"),
        ({"queue": "many"}, "queue"),
        ({"sandbox": {"memory": 1}}, "sandbox.memory"),
        ({"sandbox": {"output_bytes": 0}}, "sandbox.output_bytes"),
        ({"sandbox": None}, "sandbox"),
        ({"artifact_bytes": -1}, "artifact_bytes"),
        ({"runs_per_minute": None}, "runs_per_minute"),
    ],
)
def test_what_no_tenant_can_have_is_told_by_name(limits: dict[str, object], told: str) -> None:
    with pytest.raises(TenantInvalidError, match=told) as caught:
        tenant_limits(limits)
    assert "concurrency" in caught.value.hint

"""What a soak is judged by."""

from __future__ import annotations

from collections import Counter

import pytest

from sandbox_skills.spec import MIB
from tests.soak.ledger import Ledger
from tests.soak.server import Sample
from tests.soak.verdict import judged


def life(*held: tuple[int, int]) -> list[Sample]:
    return [Sample(float(number), memory * MIB, fds) for number, (memory, fds) in enumerate(held)]


def ledger(**done: int) -> Ledger:
    return Ledger(done=Counter(done))


FLAT = life(*[(100 + number % 3, 40 + number % 5) for number in range(100)])


def test_what_stays_flat_passes_and_caches_may_fill_first() -> None:
    filling = life(*[(min(50 + 2 * number, 100), 40) for number in range(100)])
    for samples in (FLAT, filling):
        verdict = judged([ledger(plain=1)], [], [], samples, Counter({"kill": 3}))
        assert verdict.faults == []
        assert "passed" in verdict.table()


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        (life(*[(100 + number, 40) for number in range(100)]), "memory in MiB grew from"),
        (life(*[(100, 40 + number) for number in range(100)]), "descriptors grew from"),
        ([], "nothing can be said of memory and descriptors: 0 samples"),
        (FLAT[:5], "nothing can be said of memory and descriptors: 5 samples"),
    ],
)
def test_what_grows_fails(samples: list[Sample], told: str) -> None:
    (fault,) = judged([ledger(plain=1)], [], [], samples, Counter()).faults
    assert fault.startswith(told)


def test_whatever_was_lost_left_or_wrong_fails_and_is_told() -> None:
    wrong = ledger(plain=1)
    wrong.wrong.append("run 1 says 2")
    verdict = judged([wrong, ledger()], ["run 2"], ["volume 3"], FLAT, Counter())
    assert verdict.faults == ["run 2", "run 1 says 2", "volume 3", "a tenant got nothing done"]
    assert "FAILED" in verdict.table()
    assert "| records lost | 1 |" in verdict.table()

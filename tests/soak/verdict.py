"""Whether memory and descriptors stay flat, and the table that tells what came of it all. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from sandbox_skills.spec import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.soak.ledger import Ledger
    from tests.soak.server import Sample

WARM = 0.3
"""Part of a life in which caches fill: what is held after it is compared with what is held at its end."""

MEMORY_GROWTH, MEMORY_SLACK = 1.10, 16 * MIB
"""How much more may be held at the end: allocators give pages back late."""

FD_SLACK = 24
"""Descriptors that come and go with the work of eight tenants."""

LEAST = 5
"""Samples of a life that has warmed up: of fewer nothing can be said, which is no pass."""

SHOWN = 10


@dataclass(slots=True)
class Verdict:
    """What is told at the end; `faults` empty is a soak that was passed."""

    rows: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    faults: list[str] = field(default_factory=list[str])

    def table(self) -> str:
        """Returns what is printed."""
        lines = ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in self.rows)]
        told = [f"- {fault}" for fault in self.faults[:SHOWN]]
        more = [f"- and {len(self.faults) - SHOWN} more"] if len(self.faults) > SHOWN else []
        return "\n".join([*lines, "", *((told and ["FAILED:", *told, *more]) or ["passed"]), ""])


def judged(
    ledgers: Sequence[Ledger],
    lost: Sequence[str],
    leaks: Sequence[str],
    samples: Sequence[Sample],
    faults: Counter[str],
) -> Verdict:
    """Returns what came of a soak."""
    done, errors = Counter[str](), Counter[str]()
    for ledger in ledgers:
        done += ledger.done
        errors += ledger.errors
    wrong = [one for ledger in ledgers for one in ledger.wrong]
    verdict = Verdict()
    verdict.rows += [
        ("tenants", str(len(ledgers))),
        ("done", ", ".join(f"{name} {count}" for name, count in sorted(done.items()))),
        ("runs accepted", str(sum(len(ledger.runs) for ledger in ledgers))),
        ("artifacts reported", str(sum(len(ledger.artifacts) for ledger in ledgers))),
        ("faults injected", ", ".join(f"{name} {count}" for name, count in sorted(faults.items()))),
        (
            "what clients were told of them",
            ", ".join(f"{name} {count}" for name, count in sorted(errors.items())) or "nothing",
        ),
        ("records lost", str(len(lost))),
        ("wrong results", str(len(wrong))),
        ("leaks", str(len(leaks))),
        *_held(samples),
    ]
    verdict.faults += [*lost, *wrong, *leaks, *_growth(samples)]
    if min((sum(ledger.done.values()) for ledger in ledgers), default=0) == 0:
        verdict.faults.append("a tenant got nothing done")
    return verdict


def _held(samples: Sequence[Sample]) -> Iterator[tuple[str, str]]:
    for name, early, late in _compared(samples):
        yield f"{name}, after warming up and at the end", f"{early} and {late}"


def _growth(samples: Sequence[Sample]) -> Iterator[str]:
    if len(_warm(samples)) < LEAST:
        yield f"nothing can be said of memory and descriptors: {len(samples)} samples"
    bounds = {"memory in MiB": (MEMORY_GROWTH, MEMORY_SLACK // MIB), "descriptors": (1.0, FD_SLACK)}
    for name, early, late in _compared(samples):
        factor, slack = bounds[name]
        if late > early * factor + slack:
            yield f"{name} grew from {early} to {late}"


def _compared(samples: Sequence[Sample]) -> Iterator[tuple[str, int, int]]:
    """Yields what the last life of the process held early and late, medians of a fifth of its samples each."""
    warm = _warm(samples)
    if not warm:
        return
    part = max(1, len(warm) // 5)
    early, late = warm[:part], warm[-part:]
    yield (
        "memory in MiB",
        _middle([one.rss // MIB for one in early]),
        _middle([one.rss // MIB for one in late]),
    )
    yield "descriptors", _middle([one.fds for one in early]), _middle([one.fds for one in late])


def _warm(samples: Sequence[Sample]) -> Sequence[Sample]:
    return [one for one in samples if one.seconds >= WARM * samples[-1].seconds]


def _middle(values: Sequence[int]) -> int:
    return round(median(values))

"""What is remembered for a moment: no longer, and no more than so many."""

from __future__ import annotations

from dataclasses import dataclass

from sandbox_skills.daemon.service.brief_memory import BriefMemory


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def test_what_was_kept_is_there_until_it_is_taken() -> None:
    memory = BriefMemory[str, int](1.0, 2)
    memory.keep("one", 1)
    assert [memory.get("one"), memory.get("one"), memory.take("one"), memory.take("one")] == [1, 1, 1, None]
    assert memory.get("another") is None


def test_what_is_old_is_not_known_any_more() -> None:
    clock = Clock()
    memory = BriefMemory[str, int](1.0, 2, clock)
    memory.keep("one", 1)
    clock.now += 0.5
    memory.keep("two", 2)
    clock.now += 0.5
    assert (memory.get("one"), memory.get("two")) == (None, 2)


def test_what_nobody_takes_does_not_grow() -> None:
    memory = BriefMemory[int, int](1.0, 2)
    for number in (0, 1, 0, 2):
        memory.keep(number, number)
    assert [memory.get(number) for number in range(3)] == [0, None, 2]

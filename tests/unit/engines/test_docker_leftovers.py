"""Whose containers are left: by their owner, and by the time that they really have lived."""

from __future__ import annotations

import pytest

from sandbox_skills.engines.docker_leftovers import MEASURED_BOXES, Owned, average_memory, is_left, owned
from sandbox_skills.errors import EngineError
from sandbox_skills.spec import SandboxId
from tests.unit.engines.test_docker_box import AWAY, Daemon

DEAD = {"dead"}

CREATED, EXPIRES = 1_000, 4_600
LATER, NOT_YET = 10_000_000.0, 4_600.0


def box(instance: str = "elsewhere", *, expires: int | None = EXPIRES, running: bool = True) -> Owned:
    return Owned(SandboxId("box"), instance, expires, CREATED, running)


def aged(*seconds: str) -> Daemon:
    return Daemon(top=[{"Titles": ["PID", "ELAPSED"], "Processes": [["1", text] for text in seconds]}])


def test_what_a_dead_process_made_is_left_at_once() -> None:
    nobody = Daemon()
    assert is_left(nobody.client, box("dead"), DEAD, NOT_YET)
    assert nobody.calls == []


def test_what_anybody_made_is_left_when_its_time_is_over() -> None:
    assert not is_left(Daemon().client, box(), DEAD, NOT_YET)
    assert not is_left(Daemon().client, box(expires=None), DEAD, LATER)
    assert is_left(aged("12", "3600").client, box(), DEAD, LATER)


def test_a_clock_that_jumps_ends_nothing_that_runs() -> None:
    assert not is_left(aged("12", "3599").client, box(), DEAD, LATER)


@pytest.mark.parametrize(
    "answer",
    [
        AWAY,
        None,
        {},
        {"Processes": None},
        {"Processes": []},
        {"Processes": [["1", "soon"]]},
        {"Processes": [[]]},
    ],
)
def test_where_nobody_knows_how_long_it_has_run_the_clock_decides(answer: object) -> None:
    assert is_left(Daemon(top=[answer]).client, box(), DEAD, LATER)


def test_what_does_not_run_is_not_asked() -> None:
    assert is_left(Daemon().client, box(running=False), DEAD, LATER)


def test_what_a_sandbox_takes_is_an_average_of_those_that_tell() -> None:
    told: tuple[object, ...] = (
        {"memory_stats": {"usage": 300}},
        AWAY,
        {"memory_stats": {"usage": 100}},
        {"memory_stats": {}},
        None,
    )
    daemon = Daemon(stats=list(told))
    assert average_memory(daemon.client, [box()] * len(told)) == 200
    assert len(daemon.calls) == len(told)


def test_what_sandboxes_take_is_asked_of_some_that_run() -> None:
    daemon = Daemon(stats=[{"memory_stats": {"usage": 100}}] * 100)
    assert average_memory(daemon.client, [box(running=False)]) is None
    assert average_memory(daemon.client, [box()] * 100) == 100
    assert len(daemon.calls) == MEASURED_BOXES


class TestOwned:
    def test_containers_are_read_by_their_labels(self) -> None:
        labels = {"sandbox-skills.instance": "i", "sandbox-skills.expires-at": "12"}
        rows = [
            {"Id": "1", "Names": ["/box"], "Labels": labels, "Created": 2, "State": "running"},
            {"Id": "2", "Names": [], "Labels": {}},
            {"Id": "3", "Names": None, "Labels": {"sandbox-skills.expires-at": "soon"}},
        ]
        assert owned(Daemon(containers=[rows]).client) == [
            Owned(SandboxId("box"), "i", 12, 2, running=True),
            Owned(SandboxId("2"), ""),
            Owned(SandboxId("3"), ""),
        ]

    def test_a_time_of_many_digits_is_none(self) -> None:
        row = {"Id": "1", "Labels": {"sandbox-skills.expires-at": "9" * 5000}}
        assert owned(Daemon(containers=[[row]]).client)[0].expires is None

    @pytest.mark.parametrize(
        "answer",
        [None, {}, 1, "x", [None], [[]], [{}], [{"Id": "1", "Labels": []}, 3], [{"Id": "1", "Labels": 7}]],
    )
    def test_an_answer_of_another_shape_is_no_daemons(self, answer: object) -> None:
        if answer == {}:
            assert owned(Daemon(containers=[answer]).client) == []
            return
        with pytest.raises(EngineError, match="answer is not a list of containers"):
            owned(Daemon(containers=[answer]).client)

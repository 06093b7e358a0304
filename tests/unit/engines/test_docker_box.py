"""One container's life, against a daemon that answers from a list."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any, cast

import docker
import docker.errors
import pytest
import requests
import requests.exceptions

from sandbox_skills.engines.classify import Death
from sandbox_skills.engines.docker_box import create, may_exist, post_mortem, remove, start
from sandbox_skills.errors import (
    EngineError,
    EngineUnavailableError,
    ImageError,
    SandboxLostError,
    SandboxSkillsError,
    SettingsError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Self


class Answer:
    """A streamed answer of the events endpoint."""

    def __init__(self, *events: object) -> None:
        self._lines = [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def iter_lines(self) -> Iterator[bytes]:
        yield from self._lines


class Daemon:
    """Answers each method from its list: what is an exception is raised. Notes every call."""

    base_url, api_version = "http://docker", "1.41"

    def __init__(self, **answers: list[object]) -> None:
        self.answers = answers
        self.calls: list[str] = []
        self.options: list[dict[str, Any]] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # stands for any method of docker-py
        def call(*_args: object, **options: object) -> object:
            self.calls.append(name)
            self.options.append(options)
            answer = self.answers[name].pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    @property
    def client(self) -> docker.APIClient:
        return cast("docker.APIClient", self)


class Status:
    def __init__(self, status_code: int) -> None:
        self.status_code = status_code
        self.reason = "reason"
        self.url = "url"


def refused(status: int, words: str = "refused") -> docker.errors.APIError:
    return docker.errors.APIError(words, response=cast("Any", Status(status)), explanation=words)


GONE = docker.errors.NotFound("gone", response=cast("Any", Status(404)))
AWAY = requests.exceptions.ConnectionError("away")
BODY: Mapping[str, Any] = {"Image": "x"}


class TestCreate:
    def test_a_daemon_that_does_not_answer_is_asked_again(self) -> None:
        daemon = Daemon(create_container_from_config=[AWAY, AWAY, {}])
        create(daemon.client, "box", BODY)
        assert len(daemon.calls) == 3

    def test_a_try_whose_answer_was_lost_is_removed_and_made_anew(self) -> None:
        daemon = Daemon(create_container_from_config=[AWAY, refused(409), {}], remove_container=[None])
        create(daemon.client, "box", BODY)
        assert daemon.calls == [
            *["create_container_from_config"] * 2,
            "remove_container",
            "create_container_from_config",
        ]

    def test_a_daemon_that_stays_away_is_no_engine(self) -> None:
        daemon = Daemon(create_container_from_config=[AWAY, AWAY, AWAY])
        with pytest.raises(EngineUnavailableError):
            create(daemon.client, "box", BODY)

    def test_a_refusal_is_not_asked_again(self) -> None:
        daemon = Daemon(create_container_from_config=[refused(400)])
        with pytest.raises(EngineError, match="refused"):
            create(daemon.client, "box", BODY)

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (
                "Range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs available",
                "sandbox.cpus is more than the daemon's host has: 2.00",
            ),
            ("Minimum memory limit allowed is 6MB", "sandbox.memory is less than the daemon takes: 6MB"),
        ],
    )
    def test_a_limit_that_the_host_cannot_give_is_a_setting(self, words: str, told: str) -> None:
        daemon = Daemon(create_container_from_config=[refused(400, words)])
        with pytest.raises(SettingsError) as caught:
            create(daemon.client, "box", BODY)
        assert caught.value.message == told

    def test_an_image_that_is_gone_says_how_to_build_it(self) -> None:
        missing = docker.errors.ImageNotFound("x", response=cast("Any", Status(404)))
        with pytest.raises(ImageError) as caught:
            create(Daemon(create_container_from_config=[missing]).client, "box", BODY)
        assert caught.value.hint == "sandbox-skills image build"


def test_a_start_is_never_tried_twice() -> None:
    daemon = Daemon(start=[AWAY])
    with pytest.raises(SandboxLostError):
        start(daemon.client, "box")
    assert daemon.calls == ["start"]


def deleted(status: int) -> requests.Response:
    answer = requests.Response()
    answer.status_code, answer.raw = status, io.BytesIO(b'{"message": "refused"}')
    return answer


class TestRemove:
    def test_one_that_is_gone_already_is_fine(self) -> None:
        assert not remove(Daemon(delete=[deleted(404)]).client, "box")

    @pytest.mark.parametrize("status", [204, 409])
    def test_it_returns_once_the_container_is_gone(self, status: int) -> None:
        daemon = Daemon(delete=[deleted(status), deleted(409), deleted(404)])
        assert remove(daemon.client, "box")
        assert len(daemon.calls) == 3

    def test_one_that_stays_is_an_error_that_names_the_fix(self) -> None:
        daemon = Daemon(delete=[deleted(409)] * 100)
        with pytest.raises(SandboxLostError) as caught:
            remove(daemon.client, "box", 0.1)
        assert caught.value.hint == "sandbox-skills gc"

    def test_no_call_takes_longer_than_the_whole(self) -> None:
        daemon = Daemon(delete=[deleted(204), deleted(404)])
        remove(daemon.client, "box", 3.0)
        first, second = (float(options["timeout"]) for options in daemon.options)
        assert 2.0 < second < first <= 3.0

    @pytest.mark.parametrize("answer", [deleted(500), deleted(400), AWAY])
    def test_what_the_daemon_cannot_do_is_said(self, answer: object) -> None:
        with pytest.raises(EngineError, match="cannot remove a container"):
            remove(Daemon(delete=[answer]).client, "box")


class TestWhetherAContainerMayExist:
    @pytest.mark.parametrize(
        "answer", [AWAY, requests.exceptions.ReadTimeout("slow"), refused(500), refused(504)]
    )
    def test_it_may_where_nobody_said_no(self, answer: Exception) -> None:
        with pytest.raises(EngineError) as caught:
            create(Daemon(create_container_from_config=[answer] * 3).client, "box", BODY)
        assert may_exist(caught.value)

    def test_it_may_where_the_last_of_several_tries_had_no_answer(self) -> None:
        slow = requests.exceptions.ReadTimeout("slow")
        daemon = Daemon(create_container_from_config=[AWAY, refused(409), slow], remove_container=[None])
        with pytest.raises(EngineError) as caught:
            create(daemon.client, "box", BODY)
        assert may_exist(caught.value)

    @pytest.mark.parametrize("words", ["refused", "Minimum memory limit allowed is 6MB"])
    def test_it_does_not_where_the_daemon_refused(self, words: str) -> None:
        with pytest.raises(SandboxSkillsError) as caught:
            create(Daemon(create_container_from_config=[refused(400, words)]).client, "box", BODY)
        assert not may_exist(caught.value)


def oom(at: int) -> dict[str, object]:
    return {"Action": "oom", "timeNano": at}


def die(at: int, code: object) -> dict[str, object]:
    return {"Action": "die", "timeNano": at, "Actor": {"Attributes": {"exitCode": code}}}


SECOND = 1_000_000_000


class TestPostMortem:
    @pytest.mark.parametrize(
        ("events", "death"),
        [
            ([oom(SECOND), die(2 * SECOND, "137")], Death(oom=True, exit_code=137)),
            ([die(2 * SECOND, "137")], Death(oom=False, exit_code=137)),
            ([oom(SECOND), die(60 * SECOND, "137")], Death(oom=False, exit_code=137)),
            ([oom(SECOND), oom(59 * SECOND), die(60 * SECOND, "137")], Death(oom=True, exit_code=137)),
            ([die(SECOND, "3"), b"never read"], Death(oom=False, exit_code=3)),
            ([oom(SECOND)], Death(oom=False, exit_code=None)),
            ([], Death(oom=False, exit_code=None)),
            ([die(SECOND, "x")], Death(oom=False, exit_code=None)),
            ([b"not json"], Death(oom=False, exit_code=None)),
            ([b"[]"], Death(oom=False, exit_code=None)),
            ([{"Action": "die", "Actor": None}], Death(oom=False, exit_code=None)),
        ],
    )
    def test_the_events_tell_what_it_died_of(self, events: list[object], death: Death) -> None:
        assert post_mortem(Daemon(get=[Answer(*events)]).client, "box") == death

    def test_no_clock_of_ours_is_in_the_question(self) -> None:
        daemon = Daemon(get=[Answer(die(SECOND, "3"))])
        post_mortem(daemon.client, "box")
        assert set(daemon.options[0]["params"]) == {"since", "filters"}
        assert daemon.options[0]["params"]["since"] == "1"

    def test_a_daemon_that_is_away_knows_nothing(self) -> None:
        assert post_mortem(Daemon(get=[AWAY]).client, "box") == Death(oom=False, exit_code=None)

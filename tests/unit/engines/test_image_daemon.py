from __future__ import annotations

import io
import threading
from http.client import responses
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import docker
import docker.errors
import pytest
import requests

from sandbox_skills.engines.image import daemon as image_daemon
from sandbox_skills.engines.image.daemon import BuildRequest, ImageDaemon
from sandbox_skills.errors import EngineError, EngineUnavailableError, ImageError

if TYPE_CHECKING:
    from collections.abc import Callable

REQUEST = BuildRequest("repo:tag", "slim", {"BASE": "b"}, {"label": "1"})


def refusal(status: int, text: str = "the daemon's words") -> docker.errors.APIError:
    response = requests.Response()
    response.status_code = status
    response.reason = responses[status]
    error = docker.errors.NotFound if status == 404 else docker.errors.APIError
    return error(responses[status], response=response, explanation=text)


class FakeApi:
    """Answers every method with the value or exception set for it, and keeps the arguments."""

    def __init__(self, **answers: object) -> None:
        self.answers = answers
        self.asked: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Callable[..., object]:
        def answer(*args: object, **kwargs: object) -> object:
            self.asked[name] = (args, kwargs)
            value = self.answers[name]
            if isinstance(value, Exception):
                raise value
            return value() if callable(value) else value

        return answer


def daemon(**answers: object) -> ImageDaemon:
    return ImageDaemon(cast("docker.APIClient", FakeApi(**answers)))


def test_an_image_is_read_as_the_daemon_describes_it() -> None:
    raw = {
        "Id": "sha256:1",
        "RepoTags": ["a:b"],
        "Architecture": "amd64",
        "Size": 7,
        "Config": {
            "Labels": {"k": "v"},
            "Env": ["PATH=/bin", "A=b=c", "odd"],
            "Volumes": {"/z": {}, "/d": {}},
        },
    }
    found = daemon(inspect_image=raw).find("a:b")
    assert found is not None
    assert (found.id, found.tags, found.architecture, found.size) == ("sha256:1", ("a:b",), "amd64", 7)
    assert found.labels == {"k": "v"}
    assert found.env == {"PATH": "/bin", "A": "b=c"}
    assert found.volumes == ("/d", "/z")


def test_an_image_with_nothing_set_is_read_too() -> None:
    found = daemon(inspect_image={"Id": "1", "RepoTags": None, "Config": None}).find("x")
    assert found is not None
    assert (found.labels, found.env, found.volumes) == ({}, {}, ())


ODD: list[object] = [
    None,
    [],
    7,
    "x",
    [None],
    {"Config": []},
    {"Id": "1", "Config": {"Env": 7}},
    {"Id": "1", "Size": "big"},
]


@pytest.mark.parametrize("answer", ODD)
def test_an_answer_of_another_shape_is_no_daemons(answer: object) -> None:
    with pytest.raises(EngineError, match="answer is not an image"):
        daemon(inspect_image=answer).find("x")


@pytest.mark.parametrize("answer", [None, 7, [None], [[]]])
def test_a_list_of_another_shape_is_no_daemons(answer: object) -> None:
    with pytest.raises(EngineError, match="answer is not a list of images"):
        daemon(images=answer).tags("r")
    with pytest.raises(EngineError, match="answer is not a list of images"):
        daemon(images=answer).leftover_stages("l")


def test_progress_and_a_version_of_another_shape_are_no_daemons() -> None:
    with pytest.raises(EngineError, match="answer is not its version"):
        daemon(version=None).architecture()
    odd: tuple[object, ...] = (None, [], 3)
    for event in odd:
        with pytest.raises(EngineError, match="answer is not the progress"):
            daemon(build=[event]).build(REQUEST, io.BytesIO(), pytest.fail)


def test_no_image_is_none() -> None:
    absent = docker.errors.ImageNotFound("no such image")
    assert daemon(inspect_image=absent).find("x") is None


def test_a_refusal_is_an_image_error_with_the_daemon_s_words() -> None:
    with pytest.raises(ImageError, match="cannot inspect image x: the daemon's words"):
        daemon(inspect_image=refusal(500)).find("x")


@pytest.mark.parametrize("error", [requests.ConnectionError("refused"), requests.Timeout("slow")])
def test_a_daemon_that_is_gone_is_unavailable(error: Exception) -> None:
    with pytest.raises(EngineUnavailableError):
        daemon(version=error).architecture()


def test_tags_are_those_of_the_repository_alone() -> None:
    listed = [{"RepoTags": ["r:b", "other:x"]}, {"RepoTags": None}, {"RepoTags": ["r:a"]}]
    assert daemon(images=listed).tags("r") == ["r:a", "r:b"]


def test_an_image_in_use_or_gone_already_is_left() -> None:
    assert daemon(remove_image=None).remove("x")
    assert not daemon(remove_image=refusal(409)).remove("x")
    assert not daemon(remove_image=refusal(404)).remove("x")
    with pytest.raises(ImageError):
        daemon(remove_image=refusal(500)).remove("x")


def test_a_registry_answers_or_does_not() -> None:
    assert daemon(inspect_distribution={}).registry_answers("debian:x")
    assert not daemon(inspect_distribution=refusal(500)).registry_answers("debian:x")
    assert not daemon(inspect_distribution=requests.Timeout()).registry_answers("debian:x")


def test_a_registry_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_daemon, "REGISTRY_SECONDS", 0.05)
    release = threading.Event()
    assert not daemon(inspect_distribution=release.wait).registry_answers("debian:x")
    release.set()


def test_a_pull_says_changes_of_state_and_no_bars() -> None:
    events = [
        {"id": "abc", "status": "Downloading", "progressDetail": {"current": 1, "total": 2}},
        {"id": "abc", "status": "Pull complete", "progressDetail": {}},
        {"status": "done"},
    ]
    seen: list[str] = []
    daemon(pull=events).pull("debian:trixie-slim", seen.append)
    assert seen == ["abc: Pull complete", "done"]


def test_a_pull_of_a_mirror_with_a_port_splits_at_its_tag() -> None:
    api = FakeApi(pull=[])
    ImageDaemon(cast("docker.APIClient", api)).pull("mirror:5000/debian:x", pytest.fail)
    assert api.asked["pull"] == (("mirror:5000/debian",), {"tag": "x", "stream": True, "decode": True})


def test_a_build_passes_its_lines_on_and_asks_for_what_was_requested() -> None:
    api = FakeApi(build=[{"stream": "Step 1/2\n"}, {"stream": "\n"}, {"aux": {"ID": "1"}}])
    seen: list[str] = []
    context = io.BytesIO()
    ImageDaemon(cast("docker.APIClient", api)).build(REQUEST, context, seen.append)
    assert seen == ["Step 1/2"]
    asked = api.asked["build"][1]
    assert asked["fileobj"] is context
    assert asked["network_mode"] == "host"
    assert (asked["tag"], asked["target"], asked["buildargs"]) == ("repo:tag", "slim", {"BASE": "b"})
    assert asked["labels"] == {"label": "1"}
    assert not asked["nocache"]


def test_a_failed_build_tells_its_last_lines() -> None:
    events = [{"stream": f"line {number}"} for number in range(30)]
    events.append({"error": "returned a non-zero code: 100"})
    with pytest.raises(ImageError) as caught:
        daemon(build=events).build(REQUEST, io.BytesIO(), lambda _: None)
    lines = caught.value.message.splitlines()
    assert lines[0] == "cannot build repo:tag"
    assert lines[-1] == "returned a non-zero code: 100"
    assert len(lines) == 21


def test_a_base_is_imported_under_its_tag_and_with_its_label() -> None:
    api = FakeApi(import_image_from_file="")
    ImageDaemon(cast("docker.APIClient", api)).import_tar(Path("/b.tar"), "repo:tag", "ours")
    asked = {"repository": "repo", "tag": "tag", "changes": ["LABEL ours=1"]}
    assert api.asked["import_image_from_file"] == (("/b.tar",), asked)


def test_leftover_stages_are_the_nameless_ones_of_ours() -> None:
    api = FakeApi(images=[{"Id": "2"}, {"Id": "1"}])
    assert ImageDaemon(cast("docker.APIClient", api)).leftover_stages("l") == ["1", "2"]
    assert api.asked["images"] == ((), {"filters": {"dangling": True, "label": "l"}})

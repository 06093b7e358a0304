"""The gathering of facts, without a daemon."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import anyio
import pytest

from sandbox_skills.engines.docker_client import NO_PERMISSION_HINT, DockerConnection
from sandbox_skills.engines.doctor import DoctorOptions, examine
from sandbox_skills.engines.doctor import gather as doctor
from sandbox_skills.engines.instance import Instance
from sandbox_skills.errors import EngineUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sandbox_skills.engines.doctor.checks import Check


class FakeClient:
    """Answers what it was made with; an exception in place of an answer is raised."""

    def __init__(self, **answers: object) -> None:
        self.answers = answers
        self.closed = False

    def __getattr__(self, name: str) -> Callable[..., object]:
        def answer(*args: object, **kwargs: object) -> object:
            found = self.answers[name]
            if isinstance(found, BaseException):
                raise found
            return found

        return answer

    def close(self) -> None:
        self.closed = True


def examined(
    data_dir: Path, host: str = "unix:///nowhere.sock", unfinished: tuple[str, ...] = ()
) -> dict[str, Check]:
    options = DoctorOptions(data_dir, DockerConnection(host), unfinished=lambda: unfinished)
    return {check.name: check for check in anyio.run(examine, options)}


def test_without_a_daemon_the_host_is_examined_all_the_same(tmp_path: Path) -> None:
    found = examined(tmp_path / "data", f"unix://{tmp_path}/nothing.sock")
    assert list(found) == ["engine", "data directory", "data disk", "temporary files"]
    assert found["engine"].state == "failed"
    assert "DOCKER_HOST" in found["engine"].fix
    assert found["data directory"].state == "ok"


def test_the_place_of_the_store_is_looked_at(tmp_path: Path) -> None:
    options = DoctorOptions(tmp_path, store=tmp_path, connection=DockerConnection("unix:///nowhere"))
    assert "mount table" in {check.name for check in anyio.run(examine, options)}


def test_a_transport_that_is_not_spoken_is_told(tmp_path: Path) -> None:
    found = examined(tmp_path, "ssh://someone@example")
    assert "ssh -L" in found["engine"].fix


def test_a_port_that_nobody_listens_on_is_told(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found = examined(tmp_path, f"tcp://127.0.0.1:{free.getsockname()[1]}")
    assert found["engine"].state == "failed"
    assert found["engine"].fix


def test_a_host_that_drops_what_it_gets_is_given_up_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "KNOCK_SECONDS", 0.05)
    monkeypatch.setattr(anyio, "connect_tcp", lambda host, port: anyio.sleep_forever())
    found = examined(tmp_path, "tcp://192.0.2.1:2376")
    assert found["engine"].detail == "192.0.2.1:2376 does not answer within 0.05 s"
    assert "port open" in found["engine"].fix


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[str]:
    """The address of a socket that takes connections; what answers there is each test's own."""
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        yield f"unix://{path}"


def answering(monkeypatch: pytest.MonkeyPatch, answer: FakeClient | Exception) -> None:
    def connect(_: DockerConnection) -> FakeClient:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(doctor, "connect", connect)


def test_no_permission_is_told_with_the_socket_s_group(
    tmp_path: Path, listening: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "docker.sock"
    path.chmod(0o660)
    answering(monkeypatch, EngineUnavailableError("permission denied", hint=NO_PERMISSION_HINT))
    expected = "usermod -aG" if path.stat().st_gid else f"no group may use {path}"
    assert expected in examined(tmp_path, listening)["engine"].fix


def test_whatever_ails_the_connection_is_a_finding(
    tmp_path: Path, listening: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, RuntimeError("a bug"))
    assert examined(tmp_path, listening)["engine"].detail == "a bug"


def test_each_answer_that_fails_is_one_finding_and_the_rest_goes_on(
    tmp_path: Path, listening: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = FakeClient(
        version=OSError("the daemon went away"),
        inspect_image=RuntimeError("nonsense"),
        containers=[{"Id": "1", "Labels": None}],
    )
    answering(monkeypatch, client)
    found = examined(tmp_path, listening)
    assert found["engine"].state == "ok"
    assert "the daemon went away" in found["daemon"].detail
    assert (found["image"].state, found["image"].detail) == ("failed", "nonsense")
    assert found["leftovers"].state == "ok"
    assert client.closed


def test_sandboxes_of_dead_instances_are_found(
    tmp_path: Path, listening: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = Instance(tmp_path / "instances")
    labels = {"sandbox-skills.instance": instance.id}
    answering(
        monkeypatch, FakeClient(version={}, info={}, images=[], containers=[{"Id": "1", "Labels": labels}])
    )
    assert examined(tmp_path, listening)["leftovers"].state == "ok"
    instance.close(forget=False)
    assert examined(tmp_path, listening)["leftovers"].state == "warning"


def test_what_writers_that_died_have_left_is_told(tmp_path: Path) -> None:
    found = examined(tmp_path, unfinished=("one", "another"))
    assert found["temporary files"].detail.startswith("2 unfinished copies")


def test_a_data_directory_that_is_open_to_others_is_told(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir(0o755)
    assert (examined(data_dir))["data directory"].fix == f"chmod 700 {data_dir}"


def test_a_data_directory_that_is_a_file_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    assert (examined(tmp_path / "data"))["data directory"].state == "failed"


def test_nothing_is_made_by_looking(tmp_path: Path) -> None:
    examined(tmp_path / "deep" / "data")
    assert not list(tmp_path.iterdir())

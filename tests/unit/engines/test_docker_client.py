"""Where the daemon is, and what its refusals mean to a person."""

from __future__ import annotations

import http.server
import json
import socket
import socketserver
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import docker.errors
import pytest
import requests.exceptions
import urllib3.exceptions

from sandbox_skills.engines.attach import DaemonAddress
from sandbox_skills.engines.docker_client import (
    CONNECT_ATTEMPTS,
    NO_DAEMON_HINT,
    NO_PERMISSION_HINT,
    DockerConnection,
    TlsFiles,
    address,
    connect,
    translated,
    unless_answered,
)
from sandbox_skills.errors import EngineError, EngineUnavailableError, SandboxLostError

if TYPE_CHECKING:
    from collections.abc import Generator

VERSION = {"Version": "1", "ApiVersion": "1.41"}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers every GET with what its server was given."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        assert isinstance(self.server, Daemon)
        Handler.asked.append(self.path)
        status, body = self.server.answer
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base names it so
        pass


class Daemon(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, path: Path, status: int, body: bytes) -> None:
        super().__init__(str(path), Handler)
        self.answer = status, body


@contextmanager
def daemon(path: Path, status: int, body: object) -> Generator[DockerConnection]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with Daemon(path, status, data) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield DockerConnection(f"unix://{path}")
        finally:
            server.shutdown()
            thread.join()


class TestAddress:
    @pytest.mark.parametrize(
        ("host", "expected"),
        [
            ("unix:///var/run/docker.sock", DaemonAddress(path="/var/run/docker.sock")),
            ("tcp://example.org:1234", DaemonAddress(host="example.org", port=1234)),
            ("tcp://example.org", DaemonAddress(host="example.org", port=2375)),
            ("http://[::1]:99", DaemonAddress(host="::1", port=99)),
        ],
    )
    def test_what_docker_calls_a_host_is_read(self, host: str, expected: DaemonAddress) -> None:
        assert address(DockerConnection(host)) == expected

    def test_tls_has_its_own_port(self) -> None:
        found = address(DockerConnection("tcp://example.org", TlsFiles(verify=False)))
        assert (found.port, found.tls is not None) == (2376, True)

    @pytest.mark.parametrize(
        "host",
        [
            "ssh://user@example.org",
            "npipe:////./pipe/docker_engine",
            "fd://",
            "unix://",
            "unix://var/run/docker.sock",
            "tcp://",
            "tcp://example.org:port",
            "tcp://example.org:99999",
            "example.org:2375",
            "/var/run/docker.sock",
            "",
        ],
    )
    def test_what_we_cannot_speak_to_is_refused_with_the_way_out(self, host: str) -> None:
        with pytest.raises(EngineUnavailableError) as caught:
            connect(DockerConnection(host))
        assert "ssh -L" in caught.value.hint

    def test_tls_files_that_are_not_there_are_named(self, tmp_path: Path) -> None:
        files = TlsFiles(ca=tmp_path / "ca.pem")
        with pytest.raises(EngineUnavailableError, match="TLS files"):
            address(DockerConnection("tcp://example.org", files))


class TestConnect:
    def test_a_daemon_that_answers_is_asked_for_its_version(self, tmp_path: Path) -> None:
        with daemon(tmp_path / "s", 200, VERSION) as connection:
            client = connect(connection)
            assert client.api_version == "1.41"
            assert client.trust_env is False
            client.close()

    def test_no_socket_says_how_to_start_one(self, tmp_path: Path) -> None:
        with pytest.raises(EngineUnavailableError, match="no daemon listens there") as caught:
            connect(DockerConnection(f"unix://{tmp_path}/nothing"))
        assert f"at unix://{tmp_path}/nothing: " in caught.value.message
        assert caught.value.hint == NO_DAEMON_HINT

    def test_a_socket_that_nobody_listens_on_says_the_same(self, tmp_path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(tmp_path / "s"))
        with pytest.raises(EngineUnavailableError, match="no daemon listens there"):
            connect(DockerConnection(f"unix://{tmp_path}/s"))

    @pytest.mark.parametrize(
        ("status", "body"),
        [
            (200, b"not json"),
            (200, b"[]"),
            (200, b"{}"),
            (200, b'"text"'),
            (200, {"ApiVersion": "not a version"}),
            (200, {"ApiVersion": "1.12"}),
        ],
    )
    def test_what_is_no_daemon_is_no_engine(self, tmp_path: Path, status: int, body: object) -> None:
        with daemon(tmp_path / "s", status, body) as connection, pytest.raises(EngineUnavailableError):
            connect(connection)

    def test_a_daemon_that_fails_is_an_engine_error_with_its_words_cut(self, tmp_path: Path) -> None:
        body = {"message": "out of order " * 100}
        with (
            daemon(tmp_path / "s", 500, body) as connection,
            pytest.raises(EngineError, match="out of order") as caught,
        ):
            connect(connection)
        assert len(caught.value.message) < 400 + len(str(tmp_path))

    def test_a_listener_that_closes_is_asked_again_and_then_no_engine(self, tmp_path: Path) -> None:
        taken = 0
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(tmp_path / "s"))
        listener.listen()

        def close_all() -> None:
            nonlocal taken
            for _ in range(CONNECT_ATTEMPTS):
                listener.accept()[0].close()
                taken += 1

        thread = threading.Thread(target=close_all, daemon=True)
        thread.start()
        with pytest.raises(EngineUnavailableError):
            connect(DockerConnection(f"unix://{tmp_path}/s"))
        thread.join(5)
        listener.close()
        assert taken == CONNECT_ATTEMPTS

    def test_a_daemon_that_does_not_answer_is_given_up(self, tmp_path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(tmp_path / "s"))
            listener.listen()
            with pytest.raises(EngineUnavailableError):
                connect(DockerConnection(f"unix://{tmp_path}/s"), timeout_seconds=1)

    @pytest.mark.root
    def test_a_socket_of_somebody_else_says_whom_to_be(self, tmp_path: Path) -> None:
        code = (
            "import os, sys; sys.path.insert(0, sys.argv[2])\n"
            "from sandbox_skills.engines.docker_client import DockerConnection, connect\n"
            "os.setuid(65534)\n"
            "try: connect(DockerConnection(sys.argv[1]))\n"
            "except Exception as error: print(type(error).__name__, error.message, error.hint, sep='|')\n"
        )
        # A place that others may enter: pytest's own directories are the owner's alone.
        with contextdir() as folder, socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / "s"))
            listener.listen()
            (folder / "s").chmod(0o600)
            root = str(Path(__file__).parents[3])
            done = subprocess.run(
                [sys.executable, "-c", code, f"unix://{folder}/s", root], capture_output=True, check=True
            )
        kind, message, hint = done.stdout.decode().strip().split("|")
        assert (kind, hint) == ("EngineUnavailableError", NO_PERMISSION_HINT)
        assert "permission denied" in message

    def test_a_proxy_of_the_environment_is_not_asked(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://192.0.2.1:9")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        with pytest.raises(EngineUnavailableError) as caught:
            connect(DockerConnection("tcp://127.0.0.1:1"), timeout_seconds=1)
        assert "192.0.2.1" not in str(caught.value.__cause__)


@contextmanager
def contextdir() -> Generator[Path]:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="test-docker-client-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


class TestTranslated:
    @pytest.mark.parametrize(
        "error",
        [
            docker.errors.DockerException("x"),
            requests.exceptions.ConnectionError("x"),
            requests.exceptions.ReadTimeout("x"),
            urllib3.exceptions.ProtocolError("x"),
            ConnectionResetError("x"),
        ],
    )
    def test_a_daemon_that_is_away_is_no_engine_or_a_lost_sandbox(self, error: Exception) -> None:
        with pytest.raises(EngineUnavailableError, match="cannot look") as caught, translated("look"):
            raise error
        assert caught.value.__cause__ is error
        with pytest.raises(SandboxLostError, match="cannot look"), translated("look", lost=True):
            raise error

    def test_what_the_daemon_refuses_is_its_own_words(self) -> None:
        with pytest.raises(EngineError, match="cannot look: no room") as caught, translated("look"):
            raise docker.errors.APIError("x", explanation="no room")
        assert type(caught.value) is EngineError

    @pytest.mark.parametrize("error", [KeyError("ours"), EngineError("ours")])
    def test_anything_else_passes(self, error: Exception) -> None:
        with pytest.raises(type(error), match="ours"), translated("look"):
            raise error


def test_only_a_daemon_that_does_not_answer_is_asked_again() -> None:
    calls = 0

    def call(error: Exception) -> None:
        nonlocal calls
        calls += 1
        raise error

    with pytest.raises(requests.exceptions.ReadTimeout):
        unless_answered(lambda: call(requests.exceptions.ReadTimeout()))
    assert calls == 1
    with pytest.raises(requests.exceptions.ConnectionError):
        unless_answered(lambda: call(requests.exceptions.ConnectionError()))
    assert calls == 1 + CONNECT_ATTEMPTS

"""Whatever listens where a Docker daemon should, and answers otherwise: an error that says so, never a traceback."""

from __future__ import annotations

import asyncio
import http.server
import json
import logging
import socketserver
import threading
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.engines.docker_client import DockerConnection, connect, translated
from sandbox_skills.errors import EngineError
from sandbox_skills.spec import SandboxSpec

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.anyio

VERSION = {"Version": "1", "ApiVersion": "1.41", "Arch": "amd64"}

INFO = {
    "OSType": "linux",
    "Architecture": "x86_64",
    "SecurityOptions": ["name=seccomp,profile=default"],
    "Runtimes": {"runc": {}},
    **dict.fromkeys(("MemoryLimit", "SwapLimit", "PidsLimit", "CpuCfsQuota"), True),
}

ODD = [None, [], 3, "text", [None]]


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers each path from the table of its server, 404 for what is not in it."""

    def do_GET(self) -> None:
        assert isinstance(self.server, Daemon)
        path = urlsplit(self.path).path.removeprefix("/v1.41")
        status, body = self.server.answers.get(path, (404, {"message": "no such thing"}))
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base names it so
        pass


class Daemon(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, path: Path, answers: Mapping[str, tuple[int, Any]]) -> None:
        super().__init__(str(path), Handler)
        self.answers = answers


@contextmanager
def daemon(folder: Path, *, status: int = 200, **odd: Any) -> Generator[DockerConnection]:  # noqa: ANN401  # answers are JSON
    """A daemon that would do, but for the answers given."""
    answers = {"/version": (200, VERSION), "/info": (200, INFO), "/containers/json": (200, [])}
    answers |= {f"/{name.replace('_', '/')}": (status, answer) for name, answer in odd.items()}
    with Daemon(folder / "s", answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield DockerConnection(f"unix://{folder}/s")
        finally:
            server.shutdown()
            thread.join()


@asynccontextmanager
async def engine(folder: Path, **odd: Any) -> AsyncGenerator[DockerEngine]:  # noqa: ANN401  # answers are JSON
    with daemon(folder, **odd) as connection:
        engine = DockerEngine(
            DockerEngineOptions(data_dir=folder / "state", connection=connection, image="mine:1")
        )
        yield engine
        await engine.aclose()


@pytest.mark.parametrize(
    "answer",
    [*ODD, {"Runtimes": 3}, {"SecurityOptions": 3}, {"Architecture": [], "SecurityOptions": ["seccomp"]}],
)
async def test_info_of_another_shape(tmp_path: Path, answer: object) -> None:
    async with engine(tmp_path, info=answer) as odd:
        with pytest.raises(EngineError, match="answer is not a description of itself"):
            await odd.probe()


@pytest.mark.parametrize("answer", [*ODD, {}, {"ApiVersion": 1}])
async def test_a_version_of_another_shape(tmp_path: Path, answer: object) -> None:
    async with engine(tmp_path, version=answer) as odd:
        with pytest.raises(EngineError, match="no Docker daemon"):
            await odd.probe()


@pytest.mark.parametrize("answer", ODD)
async def test_an_image_of_another_shape(tmp_path: Path, answer: object) -> None:
    async with engine(tmp_path, **{"images_mine:1_json": answer}) as odd:
        with pytest.raises(EngineError, match="answer is not an image"):
            async with odd.open(SandboxSpec()):
                pass


@pytest.mark.parametrize("answer", [None, 3, [None], [{}]])
async def test_containers_of_another_shape_are_no_matter_of_the_first_reap(
    tmp_path: Path, answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    with caplog.at_level(logging.INFO):
        async with engine(tmp_path, containers_json=answer) as odd:
            await odd.probe()
            with pytest.raises(EngineError, match="answer is not a list of containers"):
                await odd.reap(())
    asyncio.get_running_loop().set_exception_handler(None)
    assert complaints == []
    assert [record.name for record in caplog.records] == ["sandbox_skills.engines.docker"]


@pytest.mark.parametrize("status", [400, 404, 409, 500])
@pytest.mark.parametrize("answer", [*ODD, {}, {"message": None}, {"message": "a reason"}])
def test_a_refusal_of_another_shape(tmp_path: Path, status: int, answer: object) -> None:
    with daemon(tmp_path, status=status, info=answer) as connection:
        client = connect(connection)
        with pytest.raises(EngineError, match="cannot look"), translated("look"):
            client.info()
        client.close()

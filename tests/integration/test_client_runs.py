"""The client over a real server: runs in real sandboxes, a way that breaks, a server that is killed."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.client import (
    BlockingSkillsClient,
    SandboxFailed,
    ServerOptions,
    ServerRefusedError,
    SkillsClient,
)
from sandbox_skills.errors import PathEscapeError, SandboxSkillsError, SkillNotFoundError
from sandbox_skills.spec import Exited, Signalled, Stopped
from tests.serve_process import announced, served

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from tests.conftest import Program
    from tests.serve_process import Served

pytestmark = [pytest.mark.docker, pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(120)]

SKILL = "python-math"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def server(program: Program) -> Iterator[Served]:
    with served(program) as server:
        yield server


def options(server: Served, key: str | None = None) -> ServerOptions:
    return ServerOptions(url=server.url, api_key=server.key if key is None else key)


async def test_runs_end_as_they_do_here(server: Served) -> None:
    async with SkillsClient(options(server)) as client:
        run = await client.runs.run(
            SKILL, command="echo $A; cat; echo e >&2; exit 3", env={"A": "b"}, stdin="in\n"
        )
        assert (run.outcome, run.ok, run.stdout, run.stderr) == (Exited(3), False, "b\nin\n", "e\n")
        assert run.skill is not None
        assert (run.skill.name, run.skill.source) == (SKILL, "server")
        assert run.finished_at is not None
        assert (await client.runs.run(SKILL, command="kill -9 $$")).outcome == Signalled(9)
        assert (await client.runs.run(SKILL, command="sleep 60", timeout=1)).outcome == Stopped("wall_time")
        assert (await client.runs.get(run.id)) == run
        assert [one.id async for one in client.runs.list(skill=SKILL)][-1] == run.id


async def test_what_is_wrong_is_the_error_that_it_is_here(server: Served) -> None:
    async with SkillsClient(options(server)) as client:
        with pytest.raises(SkillNotFoundError):
            await client.runs.create("python-maths", command="true")
        with pytest.raises(ServerRefusedError) as caught:
            await client.runs.get("01JDZ6V7Z3M9QHTR4W8YB2C5KD")
        assert (caught.value.code, caught.value.status) == ("run_not_found", 404)
        run = await client.runs.run(SKILL, command="true", cwd="../..")
        assert isinstance(run.error, PathEscapeError)
    async with SkillsClient(options(server, "ssk_wrong")) as client:
        with pytest.raises(ServerRefusedError) as refused:
            await client.capabilities()
        assert refused.value.status == 401
        assert "ssk_wrong" not in str(refused.value)


async def test_one_key_is_one_run(server: Served) -> None:
    async with SkillsClient(options(server)) as client:
        first = await client.runs.create(SKILL, command="echo 1", idempotency_key="a", wait=30)
        again = await client.runs.create(SKILL, command="echo 1", idempotency_key="a")
        assert again.id == first.id
        with pytest.raises(ServerRefusedError, match="Idempotency-Key") as caught:
            await client.runs.create(SKILL, command="echo 2", idempotency_key="a")
        assert caught.value.status == 422


async def test_events_come_while_it_runs_and_a_cancel_ends_it(server: Served) -> None:
    async with SkillsClient(options(server)) as client:
        begun = await client.runs.create(SKILL, command="echo first; sleep 100")
        kinds: list[str] = []
        async for event in client.runs.events(begun.id):
            kinds.append(event.type)
            if event.text == "first\n":
                await client.runs.cancel(begun.id)
        assert kinds[0] == "queued"
        assert kinds[-1] == "finished"
        assert (await client.runs.get(begun.id)).outcome == Stopped("cancelled")
        assert (await client.runs.cancel(begun.id)).finished
        rest = [event.seq async for event in client.runs.events(begun.id, after=2)]
        assert rest == list(range(3, len(kinds) + 1))


def test_a_program_without_an_event_loop_has_the_same(server: Served) -> None:
    with BlockingSkillsClient(options(server)) as client:
        run = client.runs.run(SKILL, script="scripts/fib.py", args=["10"])
        assert run.outcome is not None
        begun = client.runs.create(SKILL, command="for i in 1 2 3; do echo $i; done")
        assert "".join(event.text for event in client.runs.events(begun.id)) == "1\n2\n3\n"
        assert client.capabilities()["limits"]


def test_the_example_of_the_readme_works(program: Program, server: Served) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"<!-- example: client -->\n```python\n(.*?)```", text, re.DOTALL)
    told = code.replace("http://127.0.0.1:8765", server.url).replace("ssk_…", server.key)
    told = told.replace('    client.skills.upload("skills/python-math")\n', "")  # the server has it already
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", told],
        cwd=ROOT,
        env=program.environ(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "['1', '2', '3']"
    assert done.stdout.startswith("Exited(code=0) ")


class Way:
    """A TCP connection to the server that can be torn, as a proxy or a Wi-Fi tears one."""

    def __init__(self, port: int) -> None:
        self.torn = 0
        self._port = port
        self._writers: set[asyncio.StreamWriter] = set()

    def tear(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self.torn += 1

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._port)
        ends = {writer, upstream_writer}
        self._writers |= ends
        await asyncio.gather(_pump(reader, upstream_writer), _pump(upstream_reader, writer))
        self._writers -= ends


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def way_to(server: Served) -> AsyncGenerator[tuple[Way, str]]:
    way = Way(int(server.url.rpartition(":")[2]))
    listener = await asyncio.start_server(way.serve, "127.0.0.1", 0)
    async with listener:
        yield way, f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        way.tear()


async def test_events_are_whole_over_a_way_that_is_torn(server: Served) -> None:
    async with way_to(server) as (way, url), SkillsClient(ServerOptions(url, server.key)) as client:
        begun = await client.runs.create(SKILL, command="for i in $(seq 30); do echo $i; sleep 0.1; done")
        text, numbers = "", []
        async for event in client.runs.events(begun.id):
            text += event.text
            numbers.append(event.seq)
            if event.type == "output" and way.torn < 4:
                way.tear()
        assert text.split() == [str(number) for number in range(1, 31)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert way.torn == 4
        assert (await client.runs.get(begun.id)).ok


async def test_a_server_that_is_killed_is_waited_for_and_says_what_became_of_the_run(
    program: Program, server: Served
) -> None:
    port = server.url.rpartition(":")[2]
    async with SkillsClient(options(server)) as client:
        begun = await client.runs.create(SKILL, command="echo here; sleep 100")
        waiting = asyncio.create_task(client.runs.wait(begun.id))
        async for event in client.runs.events(begun.id):
            if event.type == "output":
                break
        server.process.kill()
        server.process.communicate()
        again = program.start("serve", "--port", port, "--json")
        try:
            assert announced(again)["url"] == server.url
            run = await waiting
            assert isinstance(run.outcome, SandboxFailed)
            assert run.outcome.reason == "restarted"
            assert isinstance(run.error, SandboxSkillsError)
            again.send_signal(signal.SIGTERM)
            assert again.wait(60) == 0
        finally:
            again.kill()
            again.communicate()

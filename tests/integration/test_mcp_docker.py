"""`sandbox-skills mcp` over Docker: live output, files as artifacts, a cancel that ends the run, many clients, and an
end by force. After that the next start or `gc` leaves nothing: the fixture that looks for what a sandbox may hold says
so.
"""

from __future__ import annotations

import json
import subprocess
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from mcp import Client, StdioServerParameters, types

from sandbox_skills.toolsets.provider import PARALLEL_CALLS
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tests.conftest import Program

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.timeout(
        90
    ),  # the client waits for a program that imports the library of MCP on a busy machine
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def server(program: Program) -> StdioServerParameters:
    folder = program.home / "own/clock/scripts"
    folder.mkdir(parents=True)
    (folder.parent / "SKILL.md").write_text(
        "---\nname: clock\ndescription: Ticks.\n---\nb\n", encoding="utf-8"
    )
    return StdioServerParameters(
        command=program.path,
        args=["mcp", "--toolset", "workspace"],
        env=program.environ(SKILLS_ROOT=str(folder.parent.parent)),
        cwd=str(program.cwd),
    )


async def load(client: Client) -> None:
    assert not (await client.call_tool("skill_load", {"skill": "clock"})).is_error


async def test_output_comes_while_the_run_goes_on_and_a_file_is_linked(server: StdioServerParameters) -> None:
    told: list[str] = []
    first = anyio.Event()

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")
        first.set()

    async with Client(server) as client:
        await load(client)

        async def let_it_go_on() -> None:
            await first.wait()
            assert told == ["one\n"]
            await client.call_tool("skill_run", {"skill": "clock", "command": "touch $WORK_DIR/on"})

        async with anyio.create_task_group() as group:
            group.start_soon(let_it_go_on)
            command = (
                "echo one; until test -e $WORK_DIR/on; do sleep 0.1; done; echo two; echo kept > out/a.txt"
            )
            result = await client.call_tool(
                "skill_run",
                {"skill": "clock", "command": command, "output_files": ["out/*"], "save_as_artifacts": True},
                progress_callback=heard,
            )
        (link,) = [block for block in result.content if isinstance(block, types.ResourceLink)]
        (content,) = (await client.read_resource(link.uri)).contents
    assert "".join(told) == "one\ntwo\n"
    assert isinstance(content, types.TextResourceContents)
    assert content.text == "kept\n"


async def test_a_cancelled_request_ends_its_run_and_the_workspace_goes_on(
    server: StdioServerParameters,
) -> None:
    async with Client(server) as client:
        await load(client)
        async with anyio.create_task_group() as group:

            async def heard(progress: float, total: float | None, message: str | None) -> None:
                group.cancel_scope.cancel()

            command = {"skill": "clock", "command": "echo a > out/f; echo begun; sleep 600"}
            await client.call_tool("skill_run", command, progress_callback=heard)
        result = await client.call_tool("skill_run", {"skill": "clock", "command": "pgrep sleep; cat out/f"})
    assert isinstance(result.structured_content, dict)
    assert result.structured_content["stdout"] == "a\n"


async def test_more_calls_at_once_than_a_workspace_runs_are_all_answered(
    server: StdioServerParameters,
) -> None:
    answers: dict[int, object] = {}

    async def one(client: Client, number: int) -> None:
        command = {"skill": "clock", "command": f"sleep 0.1; echo {number}"}
        result = await client.call_tool("skill_run", command)
        assert isinstance(result.structured_content, dict)
        answers[number] = result.structured_content.get("stdout")

    async with Client(server) as client:
        await load(client)
        async with anyio.create_task_group() as group:
            for number in range(2 * PARALLEL_CALLS + 1):
                group.start_soon(one, client, number)
    assert answers == {number: f"{number}\n" for number in range(2 * PARALLEL_CALLS + 1)}


CLIENTS = 6
"""At once: each has a box of its own, and two processors start them."""


@asynccontextmanager
async def served_over_http(
    program: Program, server: StdioServerParameters
) -> AsyncGenerator[tuple[str, subprocess.Popen[bytes]]]:
    """Gives the address and the process, which is stopped then if nobody has done so."""
    port = free_port()
    assert server.env is not None
    process = program.start(
        *server.args, "--http", "--port", str(port), environ={"SKILLS_ROOT": server.env["SKILLS_ROOT"]}
    )
    try:
        with anyio.fail_after(30):
            while not await _is_open(port):  # noqa: ASYNC110  # another program's port has no event
                await anyio.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp", process
    finally:
        process.terminate()
        process.communicate()


def start_again(program: Program, server: StdioServerParameters) -> None:
    """Starts it for a client that goes at once."""
    assert server.env is not None
    done = program.run(*server.args, SKILLS_ROOT=server.env["SKILLS_ROOT"])
    assert done.returncode == 0, done.stderr


async def _is_open(port: int) -> bool:
    with suppress(OSError):
        async with await anyio.connect_tcp("127.0.0.1", port):
            return True
    return False


async def test_many_clients_over_http_have_their_own_workspaces_at_the_same_time(
    program: Program, server: StdioServerParameters
) -> None:
    seen: dict[int, str] = {}

    async def one(url: str, number: int) -> None:
        async with Client(url, mode="legacy") as client:
            await load(client)
            write = {"skill": "clock", "command": f"echo {number} >> work/mine; sleep 0.2"}
            await client.call_tool("skill_run", write)
            result = await client.call_tool("skill_run", {"skill": "clock", "command": "cat work/*"})
            assert isinstance(result.structured_content, dict)
            seen[number] = result.structured_content["stdout"]

    async with served_over_http(program, server) as (url, process), anyio.create_task_group() as group:
        for number in range(CLIENTS):
            group.start_soon(one, url, number)
        assert process.poll() is None
    assert seen == {number: f"{number}\n" for number in range(CLIENTS)}


async def test_killed_while_clients_have_runs_under_way_nothing_is_left(
    program: Program, server: StdioServerParameters
) -> None:
    begun = anyio.Semaphore(0)

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        del progress, total, message
        begun.release()

    async def one(url: str) -> None:
        with suppress(Exception):  # the server goes away: how the client says so is the client's
            async with Client(url, mode="legacy") as client:
                await load(client)
                command = "echo begun; setsid sleep 300 & sleep 300"
                await client.call_tool(
                    "skill_run", {"skill": "clock", "command": command}, progress_callback=heard
                )

    async with served_over_http(program, server) as (url, process), anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(one, url)
        for _ in range(2):
            await begun.acquire()
        process.kill()
        await anyio.to_thread.run_sync(process.wait)
        group.cancel_scope.cancel()
    start_again(program, server)


def test_killed_at_its_stdin_nothing_is_left_after_gc(
    program: Program, server: StdioServerParameters
) -> None:
    assert server.env is not None
    process = program.start(
        *server.args, stdin=subprocess.PIPE, environ={"SKILLS_ROOT": server.env["SKILLS_ROOT"]}
    )
    assert process.stdin is not None
    assert process.stdout is not None
    told, answers = process.stdin, process.stdout

    def say(method: str, number: int | None = None, **params: Any) -> None:  # noqa: ANN401  # any JSON
        named = {} if number is None else {"id": number}
        asked = {"jsonrpc": "2.0", "method": method, "params": params, **named}
        told.write(json.dumps(asked).encode() + b"\n")
        told.flush()

    try:
        who = {"name": "tests", "version": "1"}
        say("initialize", 1, protocolVersion="2025-06-18", capabilities={}, clientInfo=who)
        assert json.loads(answers.readline())["id"] == 1
        say("notifications/initialized")
        say("tools/call", 2, name="skill_load", arguments={"skill": "clock"})
        while json.loads(answers.readline()).get("id") != 2:
            pass
        run = {"skill": "clock", "command": "echo begun; setsid sleep 300 & sleep 300"}
        say("tools/call", 3, name="skill_run", arguments=run, _meta={"progressToken": "t"})
        while json.loads(answers.readline()).get("method") != "notifications/progress":
            pass
    finally:
        process.kill()
        process.communicate()
    done = program.run("gc")
    assert done.returncode == 0, done.stderr

"""`sandbox-skills mcp` over Docker: live output, files as artifacts, and a cancel that ends the run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import anyio
import pytest
from mcp import Client, StdioServerParameters, types

if TYPE_CHECKING:
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
    told: list[tuple[float, str]] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        told.append((time.monotonic(), message or ""))

    async with Client(server) as client:
        await load(client)
        command = "echo one; sleep 1; echo two; echo kept > out/a.txt"
        result = await client.call_tool(
            "skill_run",
            {"skill": "clock", "command": command, "output_files": ["out/*"], "save_as_artifacts": True},
            progress_callback=heard,
        )
        ended = time.monotonic()
        (link,) = [block for block in result.content if isinstance(block, types.ResourceLink)]
        (content,) = (await client.read_resource(link.uri)).contents
    assert "".join(text for _, text in told) == "one\ntwo\n"
    assert ended - told[0][0] > 0.5
    assert isinstance(content, types.TextResourceContents)
    assert content.text == "kept\n"


async def test_a_cancelled_request_ends_its_run_and_the_workspace_goes_on(
    server: StdioServerParameters,
) -> None:
    async with Client(server) as client:
        await load(client)
        with anyio.move_on_after(2):
            await client.call_tool("skill_run", {"skill": "clock", "command": "echo a > out/f; sleep 60"})
        started = time.monotonic()
        result = await client.call_tool("skill_run", {"skill": "clock", "command": "pgrep sleep; cat out/f"})
        assert time.monotonic() - started < 10
    assert isinstance(result.structured_content, dict)
    assert result.structured_content["stdout"] == "a\n"

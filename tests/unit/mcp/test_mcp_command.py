"""`sandbox-skills mcp` as a process of its own, talked to by the official client over its stdin and stdout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters, types

pytestmark = pytest.mark.anyio

PROGRAM = str(Path(sys.executable).with_name("sandbox-skills"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def server(tmp_path: Path) -> StdioServerParameters:
    folder = tmp_path / "skills/greet/scripts"
    folder.mkdir(parents=True)
    (folder / "hello.py").write_text("print('hello')\n", encoding="utf-8")
    (folder.parent / "SKILL.md").write_text(
        "---\nname: greet\ndescription: Says hello.\n---\nRun hello.py.\n", encoding="utf-8"
    )
    return StdioServerParameters(
        command=PROGRAM,
        args=["mcp", "--engine", "fake", "--skills", str(tmp_path / "skills"), "--toolset", "openrouter"],
        env={"HOME": str(tmp_path), "SANDBOX_SKILLS_DATA_DIR": str(tmp_path / "data")},
        cwd=str(tmp_path),
    )


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_finds_the_tools_loads_a_skill_and_reads_its_file(
    server: StdioServerParameters, mode: str
) -> None:
    async with Client(server, mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["load_skill", "use_skill"]
        assert "greet" in (client.instructions or "")
        loaded = await client.call_tool("load_skill", {"skill": "greet"})
        (block,) = loaded.content
        assert isinstance(block, types.TextContent)
        assert "Run hello.py." in block.text
        ran = await client.call_tool("use_skill", {"skill": "greet", "script": "hello.py"})
        assert isinstance(ran.structured_content, dict)
        assert set(ran.structured_content) >= {"success", "stdout", "stderr", "exitCode"}
        (file,) = (await client.read_resource("skill://greet/scripts/hello.py")).contents
        assert isinstance(file, types.TextResourceContents)
        assert file.text == "print('hello')\n"


def test_another_address_without_a_token_is_refused(server: StdioServerParameters) -> None:
    done = subprocess.run(
        [PROGRAM, *server.args, "--http", "--host", "0.0.0.0"],
        env=server.env,
        cwd=server.cwd,
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
    )
    assert done.returncode == 2
    assert "set a token" in done.stderr


def test_stdin_that_is_closed_ends_it(server: StdioServerParameters) -> None:
    done = subprocess.run(
        [PROGRAM, *server.args],
        env=server.env,
        cwd=server.cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=15,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"")

"""The design's example flow and every type of error, with real scripts in a real sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills import create_skills_provider, load_settings
from sandbox_skills.bundled import bundled
from tests.docker_host import connection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from sandbox_skills import SkillsProvider
    from sandbox_skills.settings import Settings

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

TROUBLE = {
    "fail.py": "import sys; print('half'); sys.exit('no such channel')",
    "slow.py": "import time; print('began', flush=True); time.sleep(60)",
    "flood.py": "import sys; sys.stdout.write('é' * 20_000); sys.stderr.write('x' * 30_000)",
    "raw.py": r"import sys; sys.stdout.buffer.write(b'\xff\x00a' + b'\xe2\x82' )",
    "segv.py": "import os; os.kill(os.getpid(), 11)",
    "memory.py": "data = bytearray(2 << 30); print(len(data))",
    "net.py": "import urllib.request; urllib.request.urlopen('http://example.org/')",
    "args.py": "import sys; print(sys.argv[1:])",
    "meet.py": "import os, pathlib, time\nplace = pathlib.Path(os.environ['WORK_DIR'])\n"
    "(place / f'here-{os.getpid()}').touch()\n"
    "while len([*place.glob('here-*')]) < 4:\n    time.sleep(0.02)\nprint('done')",
    "notes.txt": "not a script",
    "sub/deep/tool.sh": "echo deep",
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    given: dict[str, object] = {"data_dir": str(tmp_path / "data"), "docker.host": connection().host}
    return load_settings(given, environ={})


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    folder = tmp_path / "skills/trouble"
    for name, text in {
        **TROUBLE,
        "SKILL.md": "---\nname: trouble\ndescription: Fails.\n---\nRun it.",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder.parent


@pytest.fixture
async def trouble(skills: Path, settings: Settings) -> AsyncIterator[SkillsProvider]:
    async with create_skills_provider(skills, settings=settings, timeout=5) as provider:
        yield provider


async def use(provider: SkillsProvider, script: str, *args: str, skill: str = "trouble") -> Mapping[str, Any]:
    call = {"skill": skill, "script": script, "args": list(args)}
    result: Any = await provider.handle_tool_call("use_skill", call)
    return dict(result)


async def test_the_example_flow(settings: Settings) -> None:
    chosen = ["team-chat", "weather"]
    async with create_skills_provider(bundled("skills"), settings=settings, include=chosen) as provider:
        assert "### team-chat\nLists the channels" in provider.system_prompt
        loaded = await provider.handle_tool_call("load_skill", {"skill": "team-chat"})
        assert "team-chat.mjs channels list" in str(loaded)
        listed = await use(provider, "team-chat.mjs", "channels", "list", skill="team-chat")
        assert listed == {
            "success": True,
            "stdout": "1001\t#general\n1002\t#dev\n1003\t#random\n",
            "stderr": "",
            "exitCode": 0,
        }
        sent = await use(
            provider, "team-chat.mjs", "send", "Hello World", "--channel=1002", skill="team-chat"
        )
        assert sent == {"success": True, "stdout": "sent to #dev\n", "stderr": "", "exitCode": 0}
        read = await use(provider, "team-chat.mjs", "read", "--channel=1002", skill="team-chat")
        assert read["stdout"] == "1\tHello World\n", "the workspace stays for the conversation"
        other = provider.for_conversation()
        read = await use(other, "team-chat.mjs", "read", "--channel=1002", skill="team-chat")
        assert read["stdout"] == "", "and is no other's"
        told = await use(provider, "weather.py", "Lima", "--month", "1", skill="weather")
        assert told["stdout"] == "Lima, Jan: 20 °C to 26 °C, 1 mm of rain\n"


class TestErrors:
    @pytest.mark.parametrize(
        ("call", "error"),
        [
            (
                {"skill": "truoble", "script": "fail.py"},
                "SkillNotFound: no skill is named 'truoble'. Did you mean",
            ),
            (
                {"skill": "trouble", "script": "fial.py"},
                "ScriptNotFound: the skill has no script 'fial.py'. The skill",
            ),
            (
                {"skill": "trouble", "script": "../../etc/passwd"},
                "ScriptNotAllowed: path '../../etc/passwd' leaves",
            ),
            ({"skill": "trouble", "script": "/bin/sh"}, "ScriptNotAllowed: path '/bin/sh' is absolute"),
            ({"skill": "trouble", "script": "notes.txt"}, "ScriptNotAllowed: script 'notes.txt' has neither"),
            (
                {"skill": "trouble"},
                "InvalidArgs: use_skill: script: Field required. The parameters are: skill, ",
            ),
        ],
        ids=["skill", "script", "outside", "absolute", "no program", "arguments"],
    )
    async def test_a_call_that_runs_nothing(
        self, trouble: SkillsProvider, call: dict[str, object], error: str
    ) -> None:
        result: Any = await trouble.handle_tool_call("use_skill", call)
        assert (result["success"], result["exitCode"], result["stdout"]) == (False, -1, "")
        assert result["error"].startswith(error)

    async def test_an_unknown_tool(self, trouble: SkillsProvider) -> None:
        result: Any = await trouble.handle_tool_call("run_skill", {})
        assert (
            result["error"]
            == "UnknownTool: no tool is named 'run_skill'. The tools are: load_skill, use_skill."
        )

    async def test_a_script_that_fails(self, trouble: SkillsProvider) -> None:
        assert await use(trouble, "fail.py") == {
            "success": False,
            "stdout": "half\n",
            "stderr": "no such channel\n",
            "exitCode": 1,
            "error": "ExecutionFailed: the script exited with code 1. "
            "Read stderr and the skill's instructions, and correct the call.",
        }
        died = await use(trouble, "segv.py")
        assert (died["exitCode"], died["error"][:54]) == (
            139,
            "ExecutionFailed: the script died by signal 11 (SIGSEGV",
        )

    async def test_a_script_that_takes_too_long(self, skills: Path, settings: Settings) -> None:
        async with create_skills_provider(skills, settings=settings, timeout=3) as provider:
            result = await use(provider, "slow.py")
            assert (result["success"], result["stdout"], result["exitCode"]) == (False, "began\n", -1)
            assert result["error"].startswith("ExecutionTimeout: the script was stopped after 3")
            assert (await use(provider, "args.py", "a"))["stdout"] == "['a']\n", "the workspace goes on"

    async def test_too_much_memory(self, trouble: SkillsProvider) -> None:
        result = await use(trouble, "memory.py")
        assert (result["success"], result["error"].split(":")[0]) == (False, "ExecutionFailed")
        assert (await use(trouble, "args.py"))["success"], "the next call has a sandbox"

    async def test_no_network_is_told_with_advice(self, trouble: SkillsProvider) -> None:
        result = await use(trouble, "net.py")
        assert "The sandbox has no network." in result["error"]


async def test_output_is_capped_and_is_text(trouble: SkillsProvider) -> None:
    flood = await use(trouble, "flood.py")
    assert flood["stdout"] == "é" * 10_240 + "\n[output truncated]"
    assert flood["stderr"] == "x" * 20_480 + "\n[output truncated]"
    assert (await use(trouble, "raw.py"))["stdout"] == "\ufffd\0a\ufffd"


async def test_a_script_is_found_and_gets_what_it_was_given(trouble: SkillsProvider) -> None:
    assert (await use(trouble, "tool.sh"))["stdout"] == "deep\n"
    words = ["a b", "$(id)", "--x='y'", "", "ß"]
    assert (await use(trouble, "args.py", *words))["stdout"] == f"{words}\n"


async def test_calls_of_one_turn_run_beside_each_other(skills: Path, settings: Settings) -> None:
    call = {
        "type": "function_call",
        "name": "use_skill",
        "arguments": '{"skill": "trouble", "script": "meet.py"}',
    }
    async with create_skills_provider(skills, settings=settings, timeout=15) as provider:
        items = await provider.handle_tool_calls([{**call, "call_id": str(n)} for n in range(4)])
    assert ["done" in str(item["output"]) for item in items] == [True] * 4

"""The workspace tools over real boxes, as a model calls them."""

from __future__ import annotations

import json
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.artifacts import LocalArtifactStore
from sandbox_skills.catalog import Catalog, SkillRoot
from sandbox_skills.policy import Commands, Policy, SkillRule
from sandbox_skills.spec import KIB, MIB, SandboxLimits, SandboxSpec
from sandbox_skills.toolsets.base import Conversation, ToolCall, ToolResult
from sandbox_skills.toolsets.offered import OfferedSkills
from sandbox_skills.toolsets.skill_runs import SkillRuns
from sandbox_skills.toolsets.toolbox import Toolbox
from sandbox_skills.toolsets.workspace_tools.options import WorkspaceToolsOptions
from sandbox_skills.toolsets.workspace_tools.toolset import WorkspaceToolset
from sandbox_skills.workspace.manager import Services, WorkspaceManager
from sandbox_skills.workspace.sessions import SessionManager

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sandbox_skills.engines.base import Engine
    from sandbox_skills.workspace.staging import SkillStore

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

SPEC = SandboxSpec(limits=SandboxLimits(memory=320 * MIB, workspace_bytes=128 * MIB))


class Agent:
    """Calls tools in one conversation."""

    def __init__(self, toolbox: Toolbox, artifacts: LocalArtifactStore) -> None:
        self.toolbox = toolbox
        self.artifacts = artifacts
        self.conversation = Conversation("c", "t")

    async def call(self, tool: str, **arguments: Any) -> ToolResult:  # noqa: ANN401  # as a model gives them
        return await self.toolbox.call(ToolCall(tool, arguments, "1"), self.conversation)

    async def told(self, tool: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401
        result = await self.call(tool, **arguments)
        assert isinstance(result.content, dict), result
        return result.content

    async def run(self, command: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401
        return await self.told("skill_run", skill="tester", command=command, **arguments)

    async def shell(self, command: str, **arguments: Any) -> str:  # noqa: ANN401
        told = await self.told("workspace_exec", command=command, **arguments)
        assert told["exit_code"] == 0, told
        output = told["output"]
        assert isinstance(output, str)
        return output


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    folder = tmp_path / "skills" / "tester"
    (folder / "scripts").mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "SKILL.md").write_text("---\nname: tester\ndescription: Tests.\n---\nRun scripts/menu.py.\n")
    (folder / "scripts" / "menu.py").write_text(
        "print('1) one\\n2) two')\nchoice = input('Choose: ')\nopen('out/choice.txt', 'w').write(choice)\n"
    )
    (folder / "bin" / "echo").write_text("#!/bin/sh\nprintf 'not the real one\\n'\n")
    (folder / "bin" / "echo").chmod(0o755)
    return tmp_path / "skills"


@asynccontextmanager
async def opened(
    engine: Engine,
    store: SkillStore,
    skills: Path,
    policy: Policy | None = None,
    **options: Any,  # noqa: ANN401
) -> AsyncIterator[Agent]:
    artifacts = LocalArtifactStore(skills.parent / "artifacts")
    manager = WorkspaceManager(engine, store, spec=SPEC, services=Services(artifacts))
    async with SessionManager(manager) as sessions:
        runs = SkillRuns(OfferedSkills(Catalog([SkillRoot(str(skills))])), sessions, policy or Policy())
        toolset = WorkspaceToolset(runs, options=WorkspaceToolsOptions(**options), artifacts=artifacts)
        agent = Agent(Toolbox([toolset], policy=policy), artifacts)
        await agent.call("skill_load", skill="tester")
        yield agent


@pytest.fixture
async def agent(docker_engine: Engine, store: SkillStore, skills: Path) -> AsyncIterator[Agent]:
    async with opened(docker_engine, store, skills) as one:
        yield one


async def test_a_skill_is_loaded_before_it_is_run(agent: Agent) -> None:
    agent.toolbox.run_started(agent.conversation)
    refused = await agent.call("skill_run", skill="tester", command="true")
    assert (refused.status, refused.code) == ("rejected", "skill_not_loaded")
    await agent.call("skill_load", skill="tester")
    assert (await agent.run("true"))["exit_code"] == 0


async def test_the_command_shell_of_a_skill_and_of_none_share_one_workspace(agent: Agent) -> None:
    await agent.run("echo from the skill > out/a.txt; mkdir work/deep; echo deep > work/deep/b.txt")
    assert await agent.shell("cat out/a.txt; pwd") == "from the skill\n/workspace\n"
    assert await agent.shell("cat b.txt", cwd="work/deep") == "deep\n"
    assert await agent.shell("ls skills; tail -1 skills/tester/SKILL.md") == "tester\nRun scripts/menu.py.\n"
    assert await agent.shell("pwd -P", cwd="skills/tester") == (await agent.run("pwd -P"))["stdout"]
    assert "Permission denied" in (await agent.told("workspace_exec", command="ls /skills 2>&1"))["output"]
    assert await agent.shell("printenv SKILL_NAME || echo none") == "none\n"


async def test_directories_of_the_shell_tool_have_three_errors(agent: Agent) -> None:
    codes = [
        (await agent.call("workspace_exec", command="pwd", cwd=cwd)).code
        for cwd in ("../secret", "out/*.zip", "tmp/x")
    ]
    assert codes == ["path_escape", "pattern_invalid", "command_invalid"]


async def test_a_directory_that_is_not_there_is_told(agent: Agent) -> None:
    result = await agent.call("workspace_exec", command="pwd", cwd="work/nowhere")
    assert result.is_error
    assert "nowhere" in result.text


async def test_output_is_head_and_tail_around_a_mark(agent: Agent) -> None:
    told = await agent.told("workspace_exec", command="echo FIRST; seq 1000000; echo LAST >&2")
    total = len("FIRST\nLAST\n") + sum(len(f"{number}\n") for number in range(1, 1_000_001))
    assert (told["truncated"], told["total_bytes"]) == (True, total)
    assert told["output"].startswith("FIRST\n1\n2\n")
    assert told["output"].endswith("1000000\nLAST\n")
    assert f"\n[{total} bytes, cut here]\n" in told["output"]
    assert len(told["output"].encode()) <= 32 * KIB


async def test_each_stream_of_a_skill_is_cut_at_16_kib_and_a_character(agent: Agent) -> None:
    told = await agent.run("printf '€%.0s' $(seq 6000); printf '€%.0s' $(seq 6000) >&2")
    for stream in ("stdout", "stderr"):
        assert told[stream] == "€" * (16 * KIB // 3)
    assert len([text for text in told["warnings"] if "was cut" in text]) == 2


async def test_a_menu_is_answered_and_what_it_wrote_is_in_the_result(agent: Agent) -> None:
    started = await agent.told(
        "skill_exec",
        skill="tester",
        command="python3 scripts/menu.py",
        tty=True,
        yield_ms=5000,
        output_files=["out/*"],
    )
    assert started["interaction"] == {"needs_input": True, "kind": "selection", "hint": "Choose:"}
    told = await agent.told(
        "skill_write_stdin", session_id=started["session_id"], chars="2", submit=True, yield_ms=5000
    )
    while told["status"] == "running":
        told = await agent.told("skill_poll_session", session_id=started["session_id"], yield_ms=5000)
    assert told["exit_code"] == 0
    assert [(file["name"], file["content"]) for file in told["result"]["output_files"]] == [
        ("out/choice.txt", "2")
    ]


async def test_a_killed_command_leaves_nothing_and_the_next_one_runs(agent: Agent) -> None:
    started = await agent.told("workspace_exec", command="sleep 60 & sleep 60", background=True)
    killed = await agent.told("workspace_kill_session", session_id=started["session_id"])
    assert killed["status"] == "killed"
    again = await agent.call("workspace_write_stdin", session_id=started["session_id"])
    assert again.code == "program_not_found"
    # Of the workspace's own processes only this line's are there.
    assert "sleep" not in await agent.shell("cat /proc/[0-9]*/comm")


async def test_a_large_file_is_saved_whole_and_a_larger_one_is_not(agent: Agent) -> None:
    await agent.shell(f"head -c {20 * MIB} /dev/zero > out/site.zip; ln -s site.zip out/link.zip")
    told = await agent.told("workspace_save_artifact", path="out/site.zip")
    assert (told["ref"], told["size_bytes"]) == ("artifact://out/site.zip@0", 20 * MIB)
    assert "site.zip" in json.loads(agent.conversation.state["temp:skill:artifacts"])["artifacts"][0]["ref"]
    for path in ("out/*.zip", "skills/tester/SKILL.md", "out/gone.zip", "out/link.zip"):
        refused = await agent.call("workspace_save_artifact", path=path)
        assert refused.status == "rejected", path
    await agent.shell("head -c $((65 << 20)) /dev/zero > work/big")
    assert "is larger than 64 MiB" in (await agent.call("workspace_save_artifact", path="work/big")).text
    assert (await agent.artifacts.usage(tenant="t")).count == 1


POLICY = Policy(
    skills={"tester": SkillRule(commands=Commands(allow=("echo", "wc", "bin/echo"), deny=("rev",)))},
    default=SkillRule(commands=Commands(allow=("ls", "echo"))),
)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo ok", "ok\n"),
        ("echo a b | wc -w", "2\n"),
        ("bin/echo ok", "not the real one\n"),
        ("ls", None),
        ("echo ok; ls", None),
        ("echo | curl", None),
        ("echo ok | rev", None),
        ("echo $(ls)", None),
        ("echo `ls`", None),
        ("sh -c ls", None),
        ("echo x > out/x", None),
        ("(echo x)", None),
        ("PATH=. echo x", None),
        ("./echo x", None),
        ("./bin/../scripts/x", None),
    ],
)
async def test_a_policy_judges_every_program_of_a_line(
    docker_engine: Engine, store: SkillStore, skills: Path, command: str, said: str | None
) -> None:
    async with opened(docker_engine, store, skills, POLICY) as agent:
        result = await agent.call("skill_run", skill="tester", command=command)
        if said is None:
            assert (result.status, result.code) == ("rejected", "policy_denied")
            assert "policy" in result.text
        else:
            assert isinstance(result.content, dict)
            assert result.content["stdout"] == said


async def test_a_policy_is_not_got_round_by_path_nor_without_a_skill(
    docker_engine: Engine, store: SkillStore, skills: Path
) -> None:
    async with opened(docker_engine, store, skills, POLICY) as agent:
        for tool, more in (("skill_run", {"skill": "tester"}), ("workspace_exec", {})):
            refused = await agent.call(tool, command="echo x", env={"PATH": "/workspace/work"}, **more)
            assert (refused.code, "PATH" in refused.text) == ("policy_denied", True)
            said = await agent.call(tool, command="echo x", **more)
            assert re.search(r'"x\\n"', said.text), said.text
        assert (await agent.call("workspace_exec", command="wc x")).code == "policy_denied"

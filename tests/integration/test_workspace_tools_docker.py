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
from sandbox_skills.toolsets.workspace_tools.state import SUMMARISED
from sandbox_skills.toolsets.workspace_tools.toolset import WorkspaceToolset
from sandbox_skills.workspace.manager import Services, WorkspaceManager
from sandbox_skills.workspace.sessions import SessionManager

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sandbox_skills.catalog.manifest_json import JsonObject
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
    (folder / "bin" / "only").write_text("#!/bin/sh\nexec touch /workspace/out/ran\n")
    (folder / "bin" / "only").chmod(0o755)
    (folder / "docs").mkdir()
    for name in ("USAGE.md", "docs/A.md", "docs/SKILL.md", "docs/b.bin"):
        (folder / name).write_text(f"The text of {name}.")
    return tmp_path / "skills"


@asynccontextmanager
async def opened(
    engine: Engine,
    store: SkillStore,
    *roots: Path,
    policy: Policy | None = None,
    **options: Any,  # noqa: ANN401
) -> AsyncIterator[Agent]:
    artifacts = LocalArtifactStore(roots[0].parent / "artifacts")
    manager = WorkspaceManager(engine, store, spec=SPEC, services=Services(artifacts))
    async with SessionManager(manager) as sessions:
        catalog = Catalog([SkillRoot(str(root)) for root in roots])
        runs = SkillRuns(OfferedSkills(catalog), sessions, policy or Policy())
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
    refused = await agent.call("skill_run", skill="tester", command="touch out/ran")
    assert (refused.status, refused.code) == ("rejected", "skill_not_loaded")
    assert "skill_load" in refused.text
    other = Conversation("c", "t", "other", agent.conversation.state)
    await agent.toolbox.call(ToolCall("skill_load", {"skill": "tester"}), other)
    assert (await agent.call("skill_run", skill="tester", command="true")).code == "skill_not_loaded"
    assert await agent.shell("ls out") == ""
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


async def test_reasons_of_a_failure_are_named_beside_what_was_printed(agent: Agent) -> None:
    line = "python3 -c 'import requests'; curl -sS https://api.example.org; no-such-tool"
    told = await agent.run(line)
    kinds = [str(text).rpartition(": ")[0] for text in told["warnings"]]
    assert kinds == [
        "module_missing: requests",
        "network_disabled: api.example.org",
        "command_missing: no-such-tool",
    ]
    assert "No module named 'requests'" in told["stderr"]
    assert (await agent.told("workspace_exec", command="env -S nothere"))["warnings"][0].startswith(
        "interpreter_missing: nothere"
    )
    assert "warnings" not in await agent.run(f"({line}) ; true")


async def test_a_small_window_keeps_both_ends_and_a_smaller_one_the_beginning(
    docker_engine: Engine, store: SkillStore, skills: Path
) -> None:
    line = f"printf '%s' 'HEAD!{'x' * 200}!TAIL'"
    for cap, start, end in ((40, "HEAD!", "!TAIL"), (10, "HEAD!xxxxx", "xxxxx")):
        async with opened(docker_engine, store, skills, output_bytes=cap) as agent:
            told = await agent.told("workspace_exec", command=line)
            output = told["output"]
            assert (output.startswith(start), output.endswith(end)) == (True, True), output
            assert len(output) <= cap
            assert (told["truncated"], told["total_bytes"]) == (True, 210)


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


async def test_a_reader_is_asked_answered_and_its_result_is_there(agent: Agent) -> None:
    started = await agent.told(
        "skill_exec", skill="tester", command="read v; echo got:$v", yield_ms=100, stdin=""
    )
    assert started["status"] == "running"
    told = await agent.told(
        "skill_write_stdin", session_id=started["session_id"], chars="hello", submit=True, yield_ms=5000
    )
    while told["status"] == "running":
        told = await agent.told("skill_poll_session", session_id=started["session_id"], yield_ms=5000)
    assert (told["exit_code"], told["result"]["stdout"]) == (0, "got:hello\n")


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
    skills={
        "tester": SkillRule(
            commands=Commands(allow=("echo", "wc", "bin/echo", "rev"), deny=("rev", "bin/only"))
        )
    },
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
        ("echo 'a  b' \"c d\" hi\\ there", "a  b c d hi there\n"),
        ("echo 'open", None),
        ("echo end\\", None),
        ("rev x", None),
        ("echo ok | rev", None),
        ("bin/only x", None),
        ("./bin/only x", None),
        ("scripts/../bin/only x", None),
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
    async with opened(docker_engine, store, skills, policy=POLICY) as agent:
        result = await agent.call("skill_run", skill="tester", command=command)
        if said is None:
            assert (result.status, result.code) == ("rejected", "policy_denied")
            assert "policy" in result.text
            assert (await agent.call("workspace_exec", command="ls out")).text.find("ran") < 0
        else:
            assert isinstance(result.content, dict)
            assert result.content["stdout"] == said


async def test_a_policy_is_not_got_round_by_path_nor_without_a_skill(
    docker_engine: Engine, store: SkillStore, skills: Path
) -> None:
    async with opened(docker_engine, store, skills, policy=POLICY) as agent:
        for tool, more in (("skill_run", {"skill": "tester"}), ("workspace_exec", {})):
            refused = await agent.call(tool, command="echo x", env={"PATH": "/workspace/work"}, **more)
            assert (refused.code, "PATH" in refused.text) == ("policy_denied", True)
            said = await agent.call(tool, command="echo x", **more)
            assert re.search(r'"x\\n"', said.text), said.text
        assert (await agent.call("workspace_exec", command="wc x")).code == "policy_denied"


def loaded(agent: Agent) -> str:
    """Returns the system message of the next request."""
    items = agent.toolbox.rewritten([{"role": "system", "content": "You help."}], agent.conversation)
    return str(items[0]["content"])


def write_skill(root: Path, name: str, description: str, body: str) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n---\n{body}\n")
    (folder / "own.txt").write_text(body)
    return folder


async def test_of_two_skills_of_one_name_the_first_roots_is_told_and_run(
    docker_engine: Engine, store: SkillStore, skills: Path, tmp_path: Path
) -> None:
    write_skill(tmp_path / "second", "tester", "Another.", "Never told.")
    folded = write_skill(tmp_path / "second", "folded", ">-\n  Reads\n  letters.", "Read own.txt.")
    async with opened(docker_engine, store, skills, tmp_path / "second") as agent:
        prompt = agent.toolbox.prompt(agent.conversation)
        assert prompt.index("- folded: Reads letters.") < prompt.index("- tester: Tests.")
        assert "Never told." not in loaded(agent)
        assert (await agent.run("cat own.txt"))["exit_code"] == 1
        await agent.call("skill_load", skill="folded")
        assert "Read own.txt." in loaded(agent)
        (folded / "SKILL.md").write_text((folded / "SKILL.md").read_text().replace("Read own", "Print own"))
        (folded / "own.txt").write_text("edited")
        assert "Print own.txt." in loaded(agent)
        told = await agent.told("skill_run", skill="folded", command="cat own.txt")
        assert told["stdout"] == "edited"


async def test_documents_are_listed_selected_added_and_cleared(agent: Agent) -> None:
    assert (await agent.call("skill_list_docs", skill="tester")).content == ["USAGE.md", "docs/A.md"]

    async def selected(**asked: object) -> object:
        return (await agent.told("skill_select_docs", skill="tester", **asked)).get("selected_docs", "all")

    assert await selected(docs=["USAGE.md"]) == ["USAGE.md"]
    assert await selected(docs=["docs/A.md"], mode=" ADD ") == ["USAGE.md", "docs/A.md"]
    assert await selected(docs=["docs/A.md"], mode="nonsense") == ["docs/A.md"]
    assert ("The text of docs/A.md." in loaded(agent), "The text of USAGE.md." in loaded(agent)) == (
        True,
        False,
    )
    assert await selected(include_all_docs=True) == "all"
    assert await selected(docs=["USAGE.md"]) == "all"
    assert await selected(mode="clear") == []
    assert "The text of" not in loaded(agent)
    assert (await agent.run("cat docs/A.md"))["stdout"] == "The text of docs/A.md."


async def test_an_overview_with_a_cap_has_what_fits_first_and_the_rest_can_be_run(
    docker_engine: Engine, store: SkillStore, skills: Path
) -> None:
    for name in ("alpha", "beta", "gamma", "invoice"):
        write_skill(skills, name, f"Works on {name}.", name)
    async with opened(docker_engine, store, skills, overview_limit=2) as agent:
        prompt = agent.toolbox.prompt(agent.conversation, query="Read this invoice")
        assert prompt.startswith("Skills (2 of 5 with what they are for):\n- invoice: Works on invoice.\n")
        assert "By name only: beta, gamma, tester" in prompt
        await agent.call("skill_load", skill="gamma")
        assert (await agent.told("skill_run", skill="gamma", command="cat own.txt"))["stdout"] == "gamma"


async def test_where_one_skill_may_be_loaded_the_one_touched_last_stays_and_runs(
    docker_engine: Engine, store: SkillStore, skills: Path
) -> None:
    write_skill(skills, "other", "Works.", "other")
    async with opened(docker_engine, store, skills, max_loaded=1) as agent:
        await agent.call("skill_load", skill="other")
        refused = await agent.call("skill_run", skill="tester", command="true")
        assert refused.code == "skill_not_loaded"
        assert (await agent.told("skill_run", skill="other", command="cat own.txt"))["stdout"] == "other"
    async with opened(docker_engine, store, skills, max_loaded=2) as agent:
        write_skill(skills, "third", "Works.", "third")
        await agent.call("skill_load", skill="other")
        await agent.call("skill_select_docs", skill="tester", mode="clear")
        await agent.call("skill_load", skill="third")
        states = [
            (await agent.call("skill_run", skill=name, command="true")).status
            for name in ("tester", "other", "third")
        ]
        assert states == ["ok", "rejected", "ok"]


async def test_a_result_that_loaded_a_skill_is_expanded_once_and_the_skill_runs(
    docker_engine: Engine, store: SkillStore, skills: Path
) -> None:
    async with opened(docker_engine, store, skills, place="tool_result") as agent:
        items: list[JsonObject] = [{"role": "system", "content": "You help."}]
        for number in ("1", "2"):
            arguments = {"skill": "tester"}
            result = await agent.call("skill_load", **arguments)
            function: JsonObject = {"name": "skill_load", "arguments": json.dumps(arguments)}
            items += [
                {
                    "role": "assistant",
                    "tool_calls": [{"id": number, "type": "function", "function": function}],
                },
                {"role": "tool", "tool_call_id": number, "content": result.text},
            ]
        out = agent.toolbox.rewritten(items, agent.conversation)
        assert [place for place, item in enumerate(out) if item != items[place]] == [4]
        assert "Run scripts/menu.py." in str(out[4]["content"])
        without = agent.toolbox.rewritten(items[:1], agent.conversation)
        assert [("Run scripts/menu.py." in str(item["content"])) for item in without] == [False, True]
        agent.conversation.state[SUMMARISED] = "1"
        assert agent.toolbox.rewritten(items[:1], agent.conversation) == items[:1]
        assert (await agent.run("true"))["exit_code"] == 0

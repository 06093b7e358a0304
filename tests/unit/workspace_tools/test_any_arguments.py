"""Whatever a model calls the workspace tools with, it is answered, and no file of the workspace's outside is named."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.toolsets.base import ToolCall
from sandbox_skills.toolsets.workspace_tools import program_calls, run_calls, shell_calls
from sandbox_skills.workspace.interactive import program

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox_skills.toolsets.base import Tool
    from tests.unit.workspace_tools.conftest import World

pytestmark = pytest.mark.anyio

SEED = 4
CALLS = 60
"""Of each tool: what was found by a thousand is found by these."""

TEXTS = (
    *(
        "",
        " ",
        "csv-tools",
        "USAGE.md",
        "cwd",
        "stdin",
        "out/*",
        "out/**",
        "../x",
        "/etc/passwd",
    ),
    *("\ud800", "\0", "a\nb", "\x1b[2J", "$OUTPUT_DIR/x", "${WORK_DIR}/../../x", "work/inputs", "{a,b}" * 20),
    *("[", "\\", "x" * 5_000, "artifact://x@1", "artifact://@3", "skill://csv-tools/SKILL.md", "host:///etc"),
    *(
        "workspace://out/x",
        "workspace://",
        "http://example.org",
        "copy",
        "link",
        "EDITOR",
        "é" * 300,
        "-",
        "--",
    ),
)
WHOLE = (0, 1, -1, 40, 2**31, 2**63, 10**400, -(10**400))
NUMBERS = (*WHOLE, 0.5, -0.5, 1e308, float("inf"), float("nan"))


ANY: dict[str, Any] = {"type": "string"}


def something(chance: random.Random, schema: dict[str, Any]) -> object:
    """Returns a value that fits the schema, or now and then one that does not."""
    items, properties = (
        schema.get("items", {"type": "string"}),
        schema.get("properties", dict.fromkeys(TEXTS, ANY)),
    )
    kinds: dict[str, Callable[[], object]] = {
        "string": lambda: chance.choice((*schema.get("enum", ()), *TEXTS)),
        "integer": lambda: chance.choice(WHOLE),
        "number": lambda: chance.choice(NUMBERS),
        "boolean": lambda: chance.random() < 0.5,
        "array": lambda: [something(chance, items) for _ in range(chance.randrange(4))],
        "object": lambda: arguments(chance, properties),
    }
    fits = chance.random() > 0.03
    kind = schema.get("type") if fits else chance.choice(list(kinds))
    return kinds.get(str(kind), lambda: chance.choice((None, [], {}, "x", 7)))()


def arguments(chance: random.Random, properties: dict[str, Any]) -> dict[str, object]:
    names = [name for name in properties if chance.random() < 0.4 or name in {"skill", "command"}]
    return {name: something(chance, properties[name]) for name in names}


@dataclass(frozen=True)
class Made:
    """A call to be made."""

    arguments: dict[str, object]
    id: str


async def ended(world: World) -> None:
    for session in await world.runs.workspaces(world.conversation):
        for one in session.programs.running():
            await session.programs.kill(one)


async def a_program(world: World) -> object:
    """Returns the id of a program that runs."""
    for session in await world.runs.workspaces(world.conversation):
        if running := session.programs.running():
            return running[0]
    return (await world.told("workspace_exec", command="stdin", background=True))["session_id"]


def calls(tool: Tool) -> list[Made]:
    chance = random.Random(f"{SEED} {tool.name}")
    properties: Any = tool.parameters["properties"]
    found = [arguments(chance, properties) for _ in range(CALLS)]
    for given in found:
        if "skill" in given and chance.random() < 0.9:
            given["skill"] = "csv-tools"
        if "timeout" in given or "timeout_sec" in given or "command" in given:
            given["command"] = chance.choice(
                ("cwd", "stdin", "put /workspace/out/x hello", chance.choice(TEXTS))
            )
    return [Made(given, str(number)) for number, given in enumerate(found)]


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_every_call_is_answered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_YIELD_SECONDS", "WRITE_SECONDS", "YIELD_SECONDS"):
        monkeypatch.setattr(program_calls, name, 0.01)
    for module in (run_calls, shell_calls):
        monkeypatch.setattr(module, "FIRST_YIELD_SECONDS", 0.01)
    monkeypatch.setattr(program, "KILL_SECONDS", 0.01)
    await world.call("skill_load", skill="csv-tools")
    done = 0
    for tool in world.toolset.tools():
        for made in calls(tool):
            if "session_id" in made.arguments and len(made.id) > 1:
                made.arguments["session_id"] = await a_program(world)
            result = await world.toolbox.call(
                ToolCall(tool.name, made.arguments, made.id), world.conversation
            )
            json.dumps(result.content, ensure_ascii=True)
            assert result.status in {"ok", "rejected"}, (tool.name, made, result)
            assert "/root" not in result.text
            done += result.status == "ok"
            if "session_id" not in made.arguments:
                await ended(world)
        await ended(world)
    assert done > 3 * CALLS

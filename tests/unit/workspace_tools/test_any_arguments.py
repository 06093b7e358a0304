"""Whatever a model calls the workspace tools with, it is answered, and no file of the workspace's outside is named."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.toolsets.base import ToolCall

if TYPE_CHECKING:
    from sandbox_skills.toolsets.base import Tool
    from tests.unit.workspace_tools.conftest import World

pytestmark = pytest.mark.anyio

SEED = 4
CALLS = 150
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
NUMBERS = (0, 1, -1, 40, 2**31, 2**63, 10**400, -(10**400), 0.5, -0.5, 1e308, float("inf"), float("nan"))


def something(chance: random.Random, schema: dict[str, Any]) -> object:
    """Returns a value that fits the schema, or now and then one that does not."""
    kinds = {
        "string": lambda: chance.choice((*schema.get("enum", ()), *TEXTS)),
        "integer": lambda: chance.choice(NUMBERS),
        "number": lambda: chance.choice(NUMBERS),
        "boolean": lambda: chance.random() < 0.5,
        "array": lambda: [
            something(chance, schema.get("items", {"type": "string"})) for _ in range(chance.randrange(4))
        ],
        "object": lambda: arguments(chance, schema.get("properties", {key: {} for key in TEXTS[:20]})),
    }
    fits = chance.random() > 0.1
    kind = schema.get("type") if fits else chance.choice(list(kinds))
    return kinds.get(str(kind), lambda: chance.choice((None, [], {}, "x", 7)))()


def arguments(chance: random.Random, properties: dict[str, Any]) -> dict[str, object]:
    names = [name for name in properties if chance.random() < 0.4 or name in {"skill", "command"}]
    return {name: something(chance, properties[name]) for name in names}


def calls(tool: Tool) -> list[ToolCall]:
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
    return [ToolCall(tool.name, given, str(number)) for number, given in enumerate(found)]


@pytest.mark.slow
@pytest.mark.timeout(60)
async def test_every_call_is_answered(world: World) -> None:
    await world.call("skill_load", skill="csv-tools")
    done = 0
    for tool in world.toolset.tools():
        for call in calls(tool):
            result = await world.toolbox.call(call, world.conversation)
            json.dumps(result.content, ensure_ascii=True)
            assert result.status in {"ok", "rejected"}, (call, result)
            assert "/root" not in result.text
            done += result.status == "ok"
        for session in await world.runs.workspaces(world.conversation):
            for one in session.programs.running():
                await session.programs.kill(one)
    assert done > CALLS

"""Every tool of every toolset, those of a skill's tools.json included, as each provider's own library takes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from anthropic.types import ToolParam
from mcp import types as mcp_types
from openai.types.chat import ChatCompletionFunctionToolParam
from openai.types.responses import FunctionToolParam
from pydantic import TypeAdapter

from sandbox_skills import create_skills_provider, load_settings
from sandbox_skills.toolsets.wire_formats import WIRE_FORMATS
from sandbox_skills.wiring.tools import TOOLSETS
from tests.openrouter_types import DEFINITIONS, openrouter_type

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.toolsets.wire_formats import WireFormat

pytestmark = pytest.mark.anyio

TYPES: dict[str, Any] = {
    "responses": FunctionToolParam,
    "chat": ChatCompletionFunctionToolParam,
    "anthropic": ToolParam,
    "mcp": mcp_types.Tool,
}

DECLARED = [
    {"name": "t" * 64, "description": "Longest.", "script": "run.py"},
    {"name": "bare", "description": "Takes nothing.", "script": "run.py", "parameters": {}},
    {
        "name": "nested",
        "description": "</tool> takes <everything>.",
        "script": "run.py",
        "parameters": {
            "rows": {
                "type": "array",
                "items": {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}},
                "description": "Rows",
            },
            "mode": {"type": "string", "enum": ["a", "b"], "description": "Mode"},
        },
        "required": ["rows"],
    },
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("wire_format", WIRE_FORMATS)
@pytest.mark.parametrize("toolset", TOOLSETS)
async def test_libraries_and_the_meta_schema_take_it(
    tmp_path: Path, toolset: str, wire_format: WireFormat
) -> None:
    folder = tmp_path / "skills/sample"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: sample\ndescription: d\n---\nb\n")
    (folder / "run.py").write_text("def handler(args):\n    return args\n")
    (folder / "tools.json").write_text(json.dumps(DECLARED))
    settings = load_settings({"data_dir": str(tmp_path / "data"), "engine": "fake"}, environ={})
    async with create_skills_provider(folder.parent, toolsets=[toolset], settings=settings) as provider:
        made = provider.tools_for(wire_format)
    assert made
    assert toolset != "native" or len(made) == len(DECLARED) + 3
    for definition in made:
        if wire_format in TYPES:
            TypeAdapter(TYPES[wire_format]).validate_python(definition)
        if wire_format in DEFINITIONS:
            TypeAdapter(openrouter_type(DEFINITIONS[wire_format])).validate_python(definition)
        function: Any = definition.get("function", definition)
        for key in ("parameters", "input_schema", "inputSchema", "outputSchema"):
            if key in function:
                jsonschema.Draft202012Validator.check_schema(function[key])

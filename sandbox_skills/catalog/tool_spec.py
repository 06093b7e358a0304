"""The tools that skills declare: plain values, and what a model is told of them. Pure."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from sandbox_skills.catalog.diagnostics import diagnostic
from sandbox_skills.catalog.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sandbox_skills.catalog.diagnostics import Diagnostic
    from sandbox_skills.catalog.manifest_json import JsonObject

MAX_TOOL_NAME = 64
"""The longest name that OpenAI and Anthropic take, and the longest of a skill made from it."""

MAX_TOOL_DESCRIPTION = 1024
"""The longest that OpenAI's API takes; a longer one fails the whole request."""


def _no_parameters() -> Mapping[str, JsonObject]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool of a skill. Immutable.

    `parameters` has the JSON Schema of each parameter, `required` the names that every call gives. `script` is the
    handler, relative to the skill's directory; None for a tool that only sends the model to the instructions.
    `skill` is the skill's name, "" for a built-in tool.
    """

    name: str
    description: str
    parameters: Mapping[str, JsonObject] = field(default_factory=_no_parameters, hash=False)
    required: tuple[str, ...] = ()
    script: str | None = None
    skill: str = ""


@dataclass(frozen=True, slots=True)
class ToolManifest:
    """Tools, one a name, and everything that was found: an error skipped the tool, or the file, it is about."""

    tools: tuple[ToolSpec, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()

    def get(self, name: str) -> ToolSpec | None:
        """Returns the tool of that name, or None."""
        return next((tool for tool in self.tools if tool.name == name), None)


def tool_schema(tool: ToolSpec) -> JsonObject:
    """Returns the JSON Schema of a tool's arguments, the caller's own copy; other arguments are not allowed."""
    return {
        "type": "object",
        "properties": {name: copy.deepcopy(schema) for name, schema in tool.parameters.items()},
        "required": list(tool.required),
        "additionalProperties": False,
    }


def manifest_entry(tool: ToolSpec) -> JsonObject:
    """Returns the tool as `tools.json` spells it."""
    entry: JsonObject = {"name": tool.name, "description": tool.description}
    if tool.script is not None:
        entry["script"] = tool.script
    entry["parameters"] = {
        name: {**copy.deepcopy(schema), **({} if name in tool.required else {"optional": True})}
        for name, schema in tool.parameters.items()
    }
    return entry


def stub_message(tool: ToolSpec, loader: str) -> str:
    """Returns what a call of a tool without a handler answers; `loader` is the tool that loads skills."""
    return f"{tool.name} has no handler. Load the skill {tool.skill!r} with {loader} and follow its instructions."


def merge_manifests(manifests: Iterable[ToolManifest]) -> ToolManifest:
    """Returns the tools of several skills in the order of loading; of one name the tool loaded last counts.

    The diagnostics are only those of that choice.
    """
    winners: dict[str, ToolSpec] = {}
    lost: list[ToolSpec] = []
    for tool in (tool for manifest in manifests for tool in manifest.tools):
        if tool.name in winners:
            lost.append(winners.pop(tool.name))
        winners[tool.name] = tool
    said = tuple(_shadowed(tool, winners[tool.name]) for tool in lost)
    return ToolManifest(tuple(winners.values()), said)


def _shadowed(tool: ToolSpec, winner: ToolSpec) -> Diagnostic:
    detail = f"{tool.name!r} of {tool.skill!r} gives way to that of {winner.skill!r}"
    return diagnostic(Rule.TOOL_SHADOWED, detail)

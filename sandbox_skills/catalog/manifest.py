"""tools.json → the tools of a skill. Pure: whatever the bytes, tools and findings, in linear time.

A tool that cannot be used is skipped and said; its siblings live. Shapes found in the wild are taken and said:
an object with `tools`, a single tool, the forms of OpenAI, Anthropic and MCP, `parameters` as a whole JSON Schema.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING

from sandbox_skills.catalog.builtin_names import BUILTIN_TOOLS
from sandbox_skills.catalog.diagnostics import Findings
from sandbox_skills.catalog.manifest_findings import Place, listed
from sandbox_skills.catalog.manifest_json import JsonError, read_json
from sandbox_skills.catalog.manifest_parameters import read_parameters
from sandbox_skills.catalog.rules import Rule
from sandbox_skills.catalog.text import CONTROL
from sandbox_skills.catalog.tool_spec import MAX_TOOL_DESCRIPTION, MAX_TOOL_NAME, ToolManifest, ToolSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sandbox_skills.catalog.diagnostics import Diagnostic
    from sandbox_skills.catalog.manifest_json import JsonDocument, JsonObject, JsonValue
    from sandbox_skills.catalog.rules import Mode

MAX_TOOLS = 128
"""The most tools that OpenAI's API takes in one request."""

TOOL_NAME = re.compile(r"[a-z][a-z0-9_]*")
"""The specification's form of a tool's name."""

_MAX_SCRIPT = 1024
"""Characters of a script's path: a quarter of Linux's PATH_MAX, so that it fits below any skill."""

_KEYS = frozenset({"name", "description", "script", "parameters"})
_SCHEMA_KEYS = ("input_schema", "inputSchema")
"""Anthropic's and MCP's words for `parameters`."""


@dataclass(frozen=True, slots=True)
class ManifestOptions:
    """How a manifest is read: strict skips whatever breaks the specification, lenient what cannot be used.

    `reserved` are names that no skill may take, by default those of built-in tools. `script_fault` says why a path is
    not a file of the skill, or "".
    """

    mode: Mode = "lenient"
    reserved: frozenset[str] = BUILTIN_TOOLS
    script_fault: Callable[[str], str] | None = None


_DEFAULTS = ManifestOptions()


def parse_manifest(contents: str | bytes, skill: str, options: ManifestOptions = _DEFAULTS) -> ToolManifest:
    """Returns the tools that the contents of a tools.json give to `skill`, and what is wrong with the rest."""
    found = Findings(options.mode)
    try:
        document = read_json(contents)
    except JsonError as error:
        found.add(error.rule, error.problem, line=error.line, column=error.column)
        return ToolManifest((), tuple(found))
    items, lines = _tools(document, found)
    if found.errors:
        return ToolManifest((), tuple(found))
    tools: dict[str, ToolSpec] = {}
    said: list[Diagnostic] = list(found)
    for index, (item, line) in enumerate(zip(items, lines, strict=True)):
        place = Place(Findings(options.mode), f"tools[{index}]", line)
        tool = read_tool(item, skill, place, options)
        if tool is not None and tool.name in tools:
            place.below("name").say(Rule.TOOL_NAME_DUPLICATE, repr(tool.name))
        elif tool is not None:
            tools[tool.name] = tool
        said.extend(place.found)
    return ToolManifest(tuple(tools.values()), tuple(said))


def _tools(document: JsonDocument, found: Findings) -> tuple[Sequence[JsonValue], Sequence[int | None]]:
    """Returns the values that are to be tools, and the line of each."""
    if document.duplicates:
        found.add(Rule.MANIFEST_KEY_DUPLICATE, listed(document.duplicates))
    if document.halved:
        found.add(Rule.MANIFEST_HALF_CHARACTER)
    items, depth = _items(document.value, found)
    lines: Sequence[int | None] = document.lines.get(depth, ())
    if len(lines) != len(items):
        lines = [None] * len(items)  # objects elsewhere at that depth, or items that are none
    if len(items) > MAX_TOOLS:
        found.add(Rule.MANIFEST_TOO_MANY, f"{len(items):,} of which {MAX_TOOLS} were taken")
    return items[:MAX_TOOLS], lines[:MAX_TOOLS]


def _items(value: JsonValue, found: Findings) -> tuple[list[JsonValue], int]:
    """Returns what stands where tools are expected, and how deep."""
    if isinstance(value, list):
        return value, 1
    if isinstance(value, dict):
        tools = value.get("tools")
        if isinstance(tools, list):
            found.add(Rule.MANIFEST_NOT_ARRAY)
            return tools, 2
        if _is_tool(value):
            found.add(Rule.MANIFEST_NOT_ARRAY)
            return [value], 0
    found.add(Rule.MANIFEST_UNRELATED)
    return [], 0


def _is_tool(value: JsonObject) -> bool:
    return value.get("type") == "function" or ("name" in value and "description" in value)


def read_tool(item: JsonValue, skill: str, at: Place, options: ManifestOptions) -> ToolSpec | None:
    """Returns one tool; None where an error was said at `at`."""
    if not isinstance(item, dict):
        at.say(Rule.TOOL_NOT_OBJECT)
        return None
    item = _unwrapped(item, at)
    if unknown := set(item) - _KEYS:
        at.say(Rule.TOOL_KEY_UNKNOWN, listed(unknown))
    name = _name(item.get("name"), at.below("name"), options)
    description = _description(item.get("description"), at.below("description"))
    script = _script(item.get("script"), at.below("script"), options)
    parameters = read_parameters(item.get("parameters"), at.below("parameters"))
    if at.found.errors:
        return None
    return ToolSpec(
        name, description, MappingProxyType(parameters.schemas), parameters.required, script, skill
    )


def _unwrapped(item: JsonObject, at: Place) -> JsonObject:
    """Returns a tool's own keys, taken out of a provider's form."""
    own = dict(item)
    if isinstance(function := own.get("function"), dict):
        del own["function"]
        own.update(function)
    if own.get("type") == "function":
        del own["type"]
        own.pop("strict", None)
    for key in _SCHEMA_KEYS:
        if key in own and "parameters" not in own:
            own["parameters"] = own.pop(key)
    if own != item:
        at.say(Rule.TOOL_WRAPPED)
    return own


def _name(value: JsonValue, at: Place, options: ManifestOptions) -> str:
    if not isinstance(value, str) or not value:
        at.say(Rule.TOOL_NAME_MISSING)
        return ""
    if len(value) > MAX_TOOL_NAME or not TOOL_NAME.fullmatch(value):
        at.say(Rule.TOOL_NAME_INVALID, repr(value[:MAX_TOOL_NAME]))
    elif value in options.reserved:
        at.say(Rule.TOOL_NAME_RESERVED, repr(value))
    return value


def _description(value: JsonValue, at: Place) -> str:
    text = value.strip() if isinstance(value, str) else ""
    if not text:
        at.say(Rule.TOOL_DESCRIPTION_MISSING)
    if len(text) > MAX_TOOL_DESCRIPTION:
        at.say(Rule.TOOL_DESCRIPTION_LENGTH, f"{len(text):,}")
        text = text[: MAX_TOOL_DESCRIPTION - 1].rstrip() + "…"
    return text


def _script(value: JsonValue, at: Place, options: ManifestOptions) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not _is_inside(value):
        at.say(Rule.TOOL_SCRIPT_INVALID)
        return None
    if options.script_fault and (fault := options.script_fault(value)):
        at.say(Rule.TOOL_SCRIPT_MISSING, fault)
    return str(PurePosixPath(value))


def _is_inside(path: str) -> bool:
    """Whether a path can be one of a file below the skill: by its text, before anything is opened."""
    parts = PurePosixPath(path).parts
    unsafe = len(path) > _MAX_SCRIPT or "\\" in path or "\n" in path or CONTROL.search(path)
    return bool(parts) and not unsafe and not path.startswith("/") and ".." not in parts

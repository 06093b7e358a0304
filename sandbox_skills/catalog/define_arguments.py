"""What `define_tool` and `remove_tool` take, and the definition that a call of the first asks for. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from sandbox_skills.catalog.define_code import EXTENSIONS, CodeError, Language, handler_source
from sandbox_skills.catalog.diagnostics import Findings
from sandbox_skills.catalog.manifest import ManifestOptions, parse_manifest, read_tool
from sandbox_skills.catalog.manifest_findings import Place
from sandbox_skills.catalog.manifest_json import JsonError, read_json
from sandbox_skills.catalog.tool_call import MAX_VIOLATIONS, check_call
from sandbox_skills.catalog.tool_spec import ToolSpec, manifest_entry
from sandbox_skills.errors import ToolDefinitionError, Violation

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sandbox_skills.catalog.diagnostics import Diagnostic
    from sandbox_skills.catalog.manifest_json import JsonObject, JsonValue

NO_CHARACTER = "holds half a surrogate pair, which is no character"

DEFINE_TOOL = ToolSpec(
    name="define_tool",
    description="Creates a tool, or replaces one that was created so. Its handler runs in the sandbox.",
    parameters=MappingProxyType(
        {
            "name": {"type": "string", "description": "Tool name (lowercase with underscores)"},
            "description": {"type": "string", "description": "What the tool does"},
            "parameters": {
                "type": ["string", "object"],
                "description": "JSON of parameter definitions: each name with its type, description, and enum or"
                " optional",
            },
            "code": {
                "type": "string",
                "description": "Body of the function handler(args); it returns a value that JSON can hold",
            },
            "language": {
                "type": "string",
                "enum": list(EXTENSIONS),
                "description": "Language of the code; python if not given",
            },
            "persistent": {
                "type": ["string", "boolean"],
                "description": '"true" to save the tool as a skill on disk',
            },
        }
    ),
    required=("name", "description", "code"),
)
"""The meta-tool that creates a tool, as a model is offered it."""

REMOVE_TOOL = ToolSpec(
    name="remove_tool",
    description="Removes a tool that define_tool created.",
    parameters=MappingProxyType({"name": {"type": "string", "description": "Tool name to remove"}}),
    required=("name",),
)
"""The meta-tool that removes a tool, as a model is offered it."""

_FLAGS = {"true": True, "false": False, "": False}


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool to be made. `source` is its whole handler; `diagnostics` say what was taken otherwise than written."""

    tool: ToolSpec
    source: str
    persistent: bool = False
    diagnostics: tuple[Diagnostic, ...] = ()


def skill_name(tool_name: str) -> str:
    """Returns the name of the skill that holds a defined tool: underscores become single hyphens."""
    return "-".join(word for word in tool_name.split("_") if word)


def manifest_text(tool: ToolSpec) -> str:
    """Returns a tools.json that declares this one tool."""
    return json.dumps([manifest_entry(tool)], indent=2, ensure_ascii=False) + "\n"


def read_definition(
    arguments: object, *, reserved: Collection[str] = (), skills: Collection[str] = ()
) -> ToolDefinition:
    """Returns what a call of `define_tool` asks for.

    `reserved` are the names of tools, and `skills` of skills, that were not made at run time. Raises
    ToolCallError for arguments of the wrong shape, else ToolDefinitionError with every violation.
    """
    check_call(DEFINE_TOOL, arguments)
    given = cast("JsonObject", arguments)
    wrong = [
        Violation(name, NO_CHARACTER)
        for name in ("name", "description", "code", "parameters")
        if not _is_unicode(given.get(name))
    ]
    if wrong:
        raise ToolDefinitionError(DEFINE_TOOL.name, wrong)
    language = cast("Language", given.get("language", "python"))
    taken = {DEFINE_TOOL.name, REMOVE_TOOL.name, *reserved}
    tool, diagnostics = _tool(given, language, frozenset(taken), wrong)
    if tool and tool.skill in skills:
        wrong.append(Violation("name", f"{tool.skill!r} is a skill that define_tool did not make"))
    source = _source(tool.name if tool else "", str(given["code"]), language, wrong)
    persistent = _flag(given.get("persistent", False), wrong)
    if tool is None or wrong:
        raise ToolDefinitionError(DEFINE_TOOL.name, wrong[:MAX_VIOLATIONS])
    return ToolDefinition(tool, source, persistent, diagnostics)


def _is_unicode(value: JsonValue) -> bool:
    """Whether every text in `value` can be written to a file."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _tool(
    given: JsonObject, language: Language, reserved: frozenset[str], wrong: list[Violation]
) -> tuple[ToolSpec | None, tuple[Diagnostic, ...]]:
    found = Findings("lenient")
    entry: JsonObject = {
        "name": given["name"],
        "description": given["description"],
        "parameters": _parameters(given.get("parameters"), wrong),
    }
    tool = read_tool(entry, "", Place(found, ""), ManifestOptions(reserved=reserved))
    wrong.extend(found.errors)
    if tool is None:
        return None, ()
    tool = replace(
        tool,
        parameters=_described(tool.parameters),
        script=f"scripts/{tool.name}{EXTENSIONS[language]}",
        skill=skill_name(tool.name),
    )
    # What is written must load again: indentation and the levels above count against the same limits.
    if parse_manifest(manifest_text(tool), tool.skill).tools != (tool,):
        wrong.append(Violation("parameters", "are too large or nested too deep"))
    return tool, tuple(found)


def _parameters(value: JsonValue, wrong: list[Violation]) -> JsonValue:
    """Returns the definitions from an object or its JSON, within the limits of a manifest."""
    if value is None or value == "":
        return None
    try:
        document = read_json(value if isinstance(value, str) else json.dumps(value))
    except JsonError as error:
        message = f"{error.rule.summary}: {error.problem}"
        wrong.append(Violation("parameters", message, error.line, error.column))
        return None
    if document.halved:
        wrong.append(Violation("parameters", NO_CHARACTER))
        return None
    return document.value


def _described(parameters: Mapping[str, JsonObject]) -> Mapping[str, JsonObject]:
    """A manifest needs a description of each parameter; its name is the best there is."""
    return MappingProxyType(
        {
            name: schema if str(schema.get("description", "")).strip() else {**schema, "description": name}
            for name, schema in parameters.items()
        }
    )


def _source(name: str, code: str, language: Language, wrong: list[Violation]) -> str:
    try:
        return handler_source(name, code, language)
    except CodeError as error:
        where = "" if error.line is None else f"line {error.line}: "
        wrong.append(Violation("code", where + error.problem, error.line, error.column))
        return ""


def _flag(value: JsonValue, wrong: list[Violation]) -> bool:
    if isinstance(value, bool):
        return value
    flag = _FLAGS.get(str(value).strip().lower())
    if flag is None:
        wrong.append(Violation("persistent", 'is neither "true" nor "false"'))
    return flag is True

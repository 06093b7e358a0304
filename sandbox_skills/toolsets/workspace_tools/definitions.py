"""The workspace tools as a model is told of them. The schemas are made once; only the names of skills are put in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.toolsets.arguments import schema_of
from sandbox_skills.toolsets.base import Tool
from sandbox_skills.toolsets.workspace_tools import arguments, names

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from sandbox_skills.catalog.manifest_json import JsonObject, JsonValue
    from sandbox_skills.toolsets.arguments import Arguments
    from sandbox_skills.toolsets.base import Effect

MAX_ENUM = 256
"""Names of skills that a schema lists: more would cost more than they help."""

_TEXT: JsonObject = {"type": "string"}
_NUMBER: JsonObject = {"type": "integer"}
_FLAG: JsonObject = {"type": "boolean"}


def _list(item: JsonObject) -> JsonObject:
    return {"type": "array", "items": item}


def _object(properties: Mapping[str, JsonObject], *optional: str) -> JsonObject:
    required: list[JsonValue] = [name for name in properties if name not in optional]
    return {"type": "object", "properties": {**properties}, "required": required}


_FILE = _object(
    {
        "name": _TEXT,
        "content": _TEXT,
        "mime_type": _TEXT,
        "size_bytes": _NUMBER,
        "truncated": _FLAG,
        "ref": _TEXT,
    },
    "truncated",
)
_INPUT = _object(
    {"name": _TEXT, "original_name": _TEXT, "mime_type": _TEXT, "size_bytes": _NUMBER},
    *("original_name", "mime_type", "size_bytes"),
)
_INTERACTION = _object({"needs_input": _FLAG, "kind": {"enum": ["prompt", "selection"]}, "hint": _TEXT})
_STATUS: JsonObject = {"enum": ["running", "exited"]}

RUN_RESULT = _object(
    {
        "staged_inputs": _list(_INPUT),
        "output_files": _list(_FILE),
        "primary_output": _FILE,
        "stdout": _TEXT,
        "stderr": _TEXT,
        "exit_code": _NUMBER,
        "timed_out": _FLAG,
        "duration_ms": _NUMBER,
        "artifact_files": _list(_object({"name": _TEXT, "version": _NUMBER})),
        "warnings": _list(_TEXT),
    },
    *("staged_inputs", "primary_output", "artifact_files", "warnings"),
)
_POLL = {
    "status": _STATUS,
    "session_id": _TEXT,
    "output": _TEXT,
    "offset": _NUMBER,
    "next_offset": _NUMBER,
    "exit_code": _NUMBER,
    "interaction": _INTERACTION,
}
POLL_RESULT = _object({**_POLL, "result": RUN_RESULT}, "output", "exit_code", "interaction", "result")
SHELL_RESULT = _object(
    {**_POLL, "truncated": _FLAG, "total_bytes": _NUMBER, "warnings": _list(_TEXT)},
    *("session_id", "output", "exit_code", "interaction", "truncated", "total_bytes", "warnings"),
)
KILL_RESULT = _object({"ok": _FLAG, "session_id": _TEXT, "status": {"enum": ["killed", "exited"]}})
SELECT_RESULT = _object(
    {"skill": _TEXT, "selected_docs": _list(_TEXT), "include_all_docs": _FLAG, "mode": _TEXT},
    *("selected_docs", "include_all_docs"),
)
SAVE_RESULT = _object(
    {
        "path": _TEXT,
        "saved_as": _TEXT,
        "version": _NUMBER,
        "ref": _TEXT,
        "mime_type": _TEXT,
        "size_bytes": _NUMBER,
    },
    "mime_type",
)


def _tool(
    name: str,
    description: str,
    taken: type[Arguments],
    result: JsonObject | None = None,
    *,
    effect: Effect = "run",
) -> tuple[str, Tool]:
    return name, Tool(name, description, schema_of(taken), result, effect)


_TOOLS: dict[str, Tool] = dict(
    (
        _tool(
            names.SKILL_LOAD,
            "Load a skill: its instructions, and documents if named, are in your context from then on. "
            "Calling it again adds or replaces documents.",
            arguments.LoadArguments,
            effect="read",
        ),
        _tool(
            names.SKILL_SELECT_DOCS,
            "Choose which documents of a skill are in your context: add, replace, or clear.",
            arguments.SelectDocsArguments,
            SELECT_RESULT,
            effect="read",
        ),
        _tool(
            names.SKILL_LIST_DOCS,
            "List the documents of a skill that can be loaded.",
            arguments.ListDocsArguments,
            effect="read",
        ),
        _tool(
            names.SKILL_RUN,
            "Run a command of a skill in its sandbox, which has no network, and return its output and files.",
            arguments.RunArguments,
            RUN_RESULT,
        ),
        _tool(
            names.SKILL_EXEC,
            "Start a command of a skill that needs answers or a terminal; talk to it with skill_write_stdin.",
            arguments.ExecArguments,
            POLL_RESULT,
        ),
        _tool(
            names.SKILL_WRITE_STDIN,
            "Type into a program that skill_exec has started, and return what it says to that.",
            arguments.WriteArguments,
            POLL_RESULT,
        ),
        _tool(
            names.SKILL_POLL_SESSION,
            "Return what a program that skill_exec has started has said since, and its result once it has ended.",
            arguments.PollArguments,
            POLL_RESULT,
            effect="read",
        ),
        _tool(
            names.SKILL_KILL_SESSION,
            "End a program that skill_exec has started.",
            arguments.KillArguments,
            KILL_RESULT,
            effect="write",
        ),
        _tool(
            names.WORKSPACE_EXEC,
            "Run a shell command in the workspace itself, such as ls, cat or a script you wrote there.",
            arguments.ShellArguments,
            SHELL_RESULT,
        ),
        _tool(
            names.WORKSPACE_WRITE_STDIN,
            "Type into a command that workspace_exec has left running, and return what it says.",
            arguments.ShellWriteArguments,
            SHELL_RESULT,
        ),
        _tool(
            names.WORKSPACE_KILL_SESSION,
            "End a command that workspace_exec has left running.",
            arguments.KillArguments,
            KILL_RESULT,
            effect="write",
        ),
        _tool(
            names.WORKSPACE_SAVE_ARTIFACT,
            "Save one file of the workspace as an artifact, which outlives the workspace.",
            arguments.SaveArguments,
            SAVE_RESULT,
            effect="write",
        ),
    )
)


def tools_for(chosen: Collection[str], skills: Sequence[str]) -> tuple[Tool, ...]:
    """Returns the chosen tools, with the names of the skills there are where those are not too many."""
    return tuple(_named(tool, skills) for name, tool in _TOOLS.items() if name in chosen)


def _named(tool: Tool, skills: Sequence[str]) -> Tool:
    properties = tool.parameters["properties"]
    if not isinstance(properties, dict) or "skill" not in properties or not 1 <= len(skills) <= MAX_ENUM:
        return tool
    skill: JsonObject = {**_as_object(properties["skill"]), "enum": [*skills]}
    parameters: JsonObject = {**tool.parameters, "properties": {**properties, "skill": skill}}
    return Tool(tool.name, tool.description, parameters, tool.result, tool.effect)


def _as_object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}

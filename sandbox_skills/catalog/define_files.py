"""The files of a skill that is made at run time, and how one is known again. Pure.

A marker beside them has the digest of each: a skill that was edited by hand since belongs to its editor.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from sandbox_skills.catalog.define_arguments import manifest_text
from sandbox_skills.catalog.manifest_json import JsonError, read_json
from sandbox_skills.catalog.text import CONTROL, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.catalog.define_arguments import ToolDefinition
    from sandbox_skills.catalog.tool_spec import ToolSpec

MARKER = ".defined-tool.json"

_MAX_DESCRIPTION = 1024
"""Characters of a skill's description, by the Agent Skills specification."""

_MAX_PARAMETER = 200
"""Characters of one line of the list: the whole text is in tools.json."""

_SKILL = """---
name: "{skill}"
description: {quoted}
---

# {name}

{description}

The tool `{name}` was made by `define_tool`; its handler is `{script}`.
"""


def skill_files(definition: ToolDefinition) -> dict[str, bytes]:
    """Returns the content of each file of the skill by its path, the marker included."""
    tool = definition.tool
    assert tool.script is not None
    files = {
        "SKILL.md": _skill_text(tool).encode(),
        "tools.json": manifest_text(tool).encode(),
        tool.script: definition.source.encode(),
    }
    return {**files, MARKER: json.dumps({"tool": tool.name, "sha256": _digests(files)}).encode()}


def tool_of(files: Mapping[str, bytes]) -> str | None:
    """Returns the tool for which exactly these files were made; None where they were not, or not all of them."""
    try:
        marker = read_json(files.get(MARKER, b"")).value
    except JsonError:
        return None
    digests = _digests({path: content for path, content in files.items() if path != MARKER})
    if not isinstance(marker, dict) or marker.get("sha256") != digests:
        return None
    name = marker.get("tool")
    return name if isinstance(name, str) else None


def _digests(files: Mapping[str, bytes]) -> dict[str, str]:
    return {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}


def _skill_text(tool: ToolSpec) -> str:
    description = _shown(tool.description, _MAX_DESCRIPTION) or tool.name
    text = _SKILL.format(
        skill=tool.skill,
        # A JSON string is a YAML one, as long as no character in it needs an escape that YAML lacks.
        quoted=json.dumps(description, ensure_ascii=False),
        name=tool.name,
        description=description,
        script=tool.script,
    )
    return text + _parameter_list(tool)


def _parameter_list(tool: ToolSpec) -> str:
    if not tool.parameters:
        return ""
    lines = [
        f"- `{name}`{'' if name in tool.required else ' (optional)'}:"
        f" {_shown(str(schema['description']), _MAX_PARAMETER)}"
        for name, schema in tool.parameters.items()
    ]
    return "\n## Parameters\n\n" + "\n".join(lines) + "\n"


def _shown(text: str, limit: int) -> str:
    return one_line(CONTROL.sub("", text), limit)

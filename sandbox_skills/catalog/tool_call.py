"""A call of a tool, checked against what the tool takes before anything starts. Pure and bounded."""

from __future__ import annotations

import json
import math
from itertools import islice
from typing import TYPE_CHECKING, cast

from sandbox_skills.catalog.manifest_json import MAX_DEPTH, MAX_KEY_SHOWN
from sandbox_skills.catalog.manifest_parameters import WORK_DIR
from sandbox_skills.catalog.text import one_line
from sandbox_skills.errors import ToolCallError, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jsonschema import ValidationError

    from sandbox_skills.catalog.manifest_json import JsonObject, JsonValue
    from sandbox_skills.catalog.tool_spec import ToolSpec

MAX_ARGUMENTS = 1024 * 1024
"""Bytes of a call as JSON: several times what any model writes in one answer."""

MAX_CHECKS = 1_000_000
"""Values of a call times values of its schema: about two seconds of checking at the worst."""

MAX_QUOTED = 128 * MAX_ARGUMENTS
"""Bytes of a call times values of its schema: every branch of an `anyOf` that fails quotes the whole value."""

_MAX_BITS = 1024
"""The range of a double, which is what other languages make of a number; Python itself writes only 14,000."""

MAX_VIOLATIONS = 10
"""As many as a model corrects at once."""

_MAX_MESSAGE = 200
"""Characters of one violation: the library quotes the whole value, which may be a file."""


def check_call(tool: ToolSpec, arguments: object) -> None:
    """Returns where `arguments` are what `tool` takes; else raises ToolCallError, naming each parameter."""
    given = _plain(tool, arguments)
    violations = tuple(islice(_violations(tool, given), MAX_VIOLATIONS))
    if violations:
        raise _error(tool, *violations)


def handler_input(arguments: JsonObject, work_dir: str) -> str:
    """Returns the JSON that a handler reads: the checked arguments, and the working directory in the sandbox."""
    return json.dumps({**arguments, WORK_DIR: work_dir})


def _error(tool: ToolSpec, *violations: Violation) -> ToolCallError:
    taken = ", ".join(islice(tool.parameters, MAX_VIOLATIONS)) or "nothing"
    return ToolCallError(tool.name, violations, hint=f"The parameters are: {taken}.")


def _plain(tool: ToolSpec, arguments: object) -> JsonObject:
    """Returns the arguments as what they are: a JSON object of a bounded size."""
    if not isinstance(arguments, dict):
        raise _error(tool, Violation("", "the arguments are not a JSON object"))
    given = cast("JsonObject", arguments)
    fault, values = _survey(given)
    if fault := fault or _excess(tool, values, len(json.dumps(given))):
        raise _error(tool, Violation("", fault))
    return given


def _excess(tool: ToolSpec, values: int, size: int) -> str:
    weight = _survey(dict(tool.parameters))[1]
    if size > MAX_ARGUMENTS:
        return f"the arguments are longer than {MAX_ARGUMENTS:,} bytes of JSON"
    if values * weight > MAX_CHECKS or size * weight > MAX_QUOTED:
        return "the arguments are too large for the schema of this tool"
    return ""


def _survey(arguments: JsonObject) -> tuple[str, int]:
    """Returns why this is not JSON of a bounded depth, or "", and how many values it holds."""
    level: list[object] = [arguments]
    count = 0
    for _ in range(MAX_DEPTH):
        count += len(level)
        if count > MAX_CHECKS:
            return "the arguments hold too many values", count
        if not all(map(_is_json, level)):
            return "the arguments hold a value that is not JSON", count
        level = [item for value in level for item in _items(value)]
        if not level:
            return "", count
    return f"the arguments are nested more than {MAX_DEPTH} levels deep", count


def _is_json(value: object) -> bool:
    if isinstance(value, int):
        return value.bit_length() <= _MAX_BITS
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in cast("dict[object, object]", value))
    return value is None or isinstance(value, str | list)


def _items(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from cast("dict[str, object]", value).values()
    elif isinstance(value, list):
        yield from cast("list[object]", value)


def _violations(tool: ToolSpec, given: JsonObject) -> Iterator[Violation]:
    for name in tool.required:
        if name not in given:
            yield Violation(name, "is required")
    for name, value in given.items():
        if name in tool.parameters:
            yield from _faults(name, tool.parameters[name], value)
        else:
            yield Violation(one_line(name, MAX_KEY_SHOWN), "is not a parameter of this tool")


def _faults(name: str, schema: Mapping[str, JsonValue], value: JsonValue) -> Iterator[Violation]:
    # Importing it takes 60 ms, which the commands that call no tool need not wait for.
    from jsonschema import Draft202012Validator  # noqa: PLC0415

    errors: Iterator[ValidationError] = Draft202012Validator(schema).iter_errors(value)  # pyright: ignore[reportUnknownMemberType] — its second overload is not annotated
    for error in errors:
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path)
        yield Violation(one_line(name + path, _MAX_MESSAGE), one_line(error.message, _MAX_MESSAGE))

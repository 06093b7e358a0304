"""A JSON text against what is expected of it. Pure; JSONPath comes with the extra `test`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from sandbox_skills.ci.observed import Failure
from sandbox_skills.ci.texts import difference, quoted
from sandbox_skills.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox_skills.catalog.manifest_json import JsonValue
    from sandbox_skills.ci.expect import JsonExpectation

MAX_DIFFERENCES = 10
"""Places that are told: the first ones explain the rest."""


def check_json(name: str, expected: JsonExpectation, text: str) -> Iterator[Failure]:
    """Yields what of a JSON text is not as expected; `name` is what messages call it."""
    try:
        value: JsonValue = json.loads(text)
        failures = list(_checked(name, expected, value))
    except ValueError as error:
        failures = [Failure(f"{name}.json", f"{name} is not JSON: {error}; it is {quoted(text)}")]
    except RecursionError:
        failures = [Failure(f"{name}.json", f"{name} is JSON that is nested too deep to be compared")]
    yield from failures


def _checked(name: str, expected: JsonExpectation, value: JsonValue) -> Iterator[Failure]:
    if "equals" in expected.model_fields_set and not same(expected.equals, value):
        sides = (
            json.dumps(one, indent=2, sort_keys=True, ensure_ascii=False) for one in (expected.equals, value)
        )
        told = f"{name} is not the JSON that is expected"
        yield Failure(f"{name}.json.equals", told, difference(*sides))
    if "subset" in expected.model_fields_set:
        for place, told in _lacks(expected.subset, value, "$", MAX_DIFFERENCES):
            yield Failure(f"{name}.json.subset", f"{name} at {place}: {told}")
    for path, wanted in expected.paths.items():
        other = _other_than(wanted, path, value)
        if other is not None:
            yield Failure(f"{name}.json.paths", f"{name} at {path}: {other}")


def _other_than(wanted: JsonValue, path: str, value: JsonValue) -> str | None:
    """Returns what a JSONPath finds in place of what is wanted, None where that is the same."""
    try:
        found = find(path, value)
    except ValueError as error:
        return str(error)
    if same(wanted, found[0] if len(found) == 1 else found):
        return None
    many = f"{len(found)} values: {_shown(found)}" if found else "nothing"
    return f"{_shown(wanted)} expected, {_shown(found[0]) if len(found) == 1 else many} found"


def find(path: str, value: JsonValue) -> list[JsonValue]:
    """Returns what a JSONPath (RFC 9535) finds in a value.

    Raises SettingsError without the package, ValueError for what is no path, or for a path or value nested too deep.
    """
    try:
        import jsonpath_rfc9535 as jsonpath  # noqa: PLC0415  # of an extra, which only JSONPaths need
    except ImportError as error:
        raise SettingsError(
            "JSONPaths need the package jsonpath-rfc9535", hint="pip install 'sandbox-skills[test]'"
        ) from error
    try:
        return [cast("JsonValue", node.value) for node in jsonpath.find(path, cast("Any", value))]
    except (RecursionError, jsonpath.JSONPathRecursionError) as error:
        raise ValueError(f"the JSONPath {quoted(path)} goes too deep to be followed") from error
    # Numbers that nobody can hold come out of the package as Python's own errors.
    except (jsonpath.JSONPathError, ArithmeticError, ValueError) as error:
        raise ValueError(f"{quoted(path)} is no JSONPath: {str(error).partition(chr(10))[0]}") from error


def same(one: JsonValue, other: JsonValue) -> bool:
    """Whether two values are the same JSON: 1 is 1.0, and neither is true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _lacks(wanted: JsonValue, value: JsonValue, place: str, most: int) -> list[tuple[str, str]]:
    """Returns places where `value` has not what is wanted, with what it has there, at most so many."""
    if isinstance(wanted, dict) and isinstance(value, dict):
        found: list[tuple[str, str]] = []
        for key, one in wanted.items():
            below = f"{place}.{key}"
            found += (
                [(below, f"{_shown(one)} expected, nothing found")]
                if key not in value
                else _lacks(one, value[key], below, most)
            )
        return found[:most]
    if isinstance(wanted, list) and isinstance(value, list) and len(wanted) == len(value):
        pairs = enumerate(zip(wanted, value, strict=True))
        return [row for at, (one, other) in pairs for row in _lacks(one, other, f"{place}[{at}]", most)][
            :most
        ]
    return [] if same(wanted, value) else [(place, f"{_shown(wanted)} expected, {_shown(value)} found")]


def _shown(value: JsonValue) -> str:
    return quoted(json.dumps(value, ensure_ascii=False))[1:-1]

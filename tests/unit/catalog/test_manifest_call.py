"""Calls against what a tool takes: every parameter named, nothing that costs without end."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from sandbox_skills.catalog import ToolSpec, check_call, handler_input, parse_manifest
from sandbox_skills.errors import RequestError, ToolCallError

PARAMETERS: dict[str, Any] = {
    "text": {"type": "string", "description": "d"},
    "unit": {"type": "string", "description": "d", "enum": ["C", "F"], "optional": True},
    "count": {"type": "number", "description": "d", "optional": True},
    "flag": {"type": "boolean", "description": "d", "optional": True},
    "many": {"type": "array", "items": {"type": "object"}, "description": "d", "optional": True},
    "more": {"type": "object", "required": ["a"], "description": "d", "optional": True},
}


def tool_of(parameters: dict[str, Any]) -> ToolSpec:
    text = json.dumps([{"name": "convert", "description": "d", "parameters": parameters}])
    return parse_manifest(text, "s").tools[0]


TOOL = tool_of(PARAMETERS)


def refused(arguments: object, tool: ToolSpec = TOOL) -> list[str]:
    with pytest.raises(ToolCallError) as caught:
        check_call(tool, arguments)
    assert caught.value.tool == "convert"
    return [str(violation) for violation in caught.value.violations]


@pytest.mark.parametrize(
    "arguments",
    [
        {"text": "a"},
        {"text": "", "unit": "C", "count": 1.5, "flag": False, "many": [{}], "more": {"a": None}},
        {"text": "é\ud83d", "count": 2**1023},
    ],
)
def test_what_a_tool_takes_passes(arguments: dict[str, Any]) -> None:
    check_call(TOOL, arguments)


def test_a_tool_without_parameters_takes_an_empty_object() -> None:
    check_call(tool_of({}), {})
    assert refused({"a": 1}, tool_of({})) == ["a: is not a parameter of this tool"]


def test_a_missing_parameter_is_named() -> None:
    assert refused({}) == ["text: is required"]


def test_a_parameter_that_there_is_not_is_named() -> None:
    assert refused({"text": "a", "__workDir": "/"}) == ["__workDir: is not a parameter of this tool"]


def test_a_value_of_another_type_is_named_with_its_place() -> None:
    assert refused({"text": 1, "unit": "K", "count": True, "many": [{}, "x"], "more": {}}) == [
        "text: 1 is not of type 'string'",
        "unit: 'K' is not one of ['C', 'F']",
        "count: True is not of type 'number'",
        "many[1]: 'x' is not of type 'object'",
        "more: 'a' is a required property",
    ]


def test_the_refusal_is_the_callers_and_says_what_the_tool_takes() -> None:
    with pytest.raises(RequestError) as caught:
        check_call(TOOL, {})
    assert (caught.value.code, caught.value.message) == ("tool_call_invalid", "convert: text: is required")
    assert caught.value.hint == "The parameters are: text, unit, count, flag, many, more."
    with pytest.raises(RequestError) as caught:
        check_call(tool_of({}), [])
    assert caught.value.hint == "The parameters are: nothing."


@pytest.mark.parametrize("arguments", [None, [], "{}", 3, b"bytes"])
def test_arguments_that_are_no_object_are_refused(arguments: object) -> None:
    assert refused(arguments) == ["the arguments are not a JSON object"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**1024, {1}, b"x", {1: 2}, [object()], (1,)])
def test_a_value_that_is_not_json_is_refused(value: object) -> None:
    assert refused({"text": value}) == ["the arguments hold a value that is not JSON"]


def test_depth_is_bounded() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = [deep]
    assert refused({"text": deep}) == ["the arguments are nested more than 32 levels deep"]


def test_size_is_bounded() -> None:
    check_call(TOOL, {"text": "a" * 1_000_000})
    assert refused({"text": "a" * 1_100_000}) == ["the arguments are longer than 1,048,576 bytes of JSON"]
    assert refused({"text": [0] * 1_000_000}) == ["the arguments hold too many values"]


def test_violations_are_few_and_short() -> None:
    found = refused({"unit": "x" * 500_000, **{f"p{number}\n" + "k" * 500: 1 for number in range(100)}})
    assert len(found) == 10
    assert max(map(len, found)) < 300
    assert not any("\n" in item for item in found)


HOSTILE: dict[str, tuple[dict[str, Any], Any]] = {
    "branches that quote": ({"anyOf": [{"type": "null"}] * 10_000}, "a" * 1_000_000),
    "values to compare": (
        {"type": "array", "items": {"enum": [f"{n}" for n in range(20_000)]}},
        ["19999"] * 50_000,
    ),
    "branches to try": ({"type": "array", "items": {"anyOf": [{"type": "null"}] * 5_000}}, ["x"] * 100_000),
}


@pytest.mark.parametrize(("definition", "value"), HOSTILE.values(), ids=HOSTILE)
def test_a_schema_that_makes_checking_dear_has_only_small_calls(
    definition: dict[str, Any], value: object
) -> None:
    start = time.process_time()
    tool = tool_of({"p": {**definition, "description": "d"}})
    assert refused({"p": value}, tool) == ["the arguments are too large for the schema of this tool"]
    assert time.process_time() - start < 2


def test_the_dearest_call_that_is_checked_takes_seconds_at_most() -> None:
    tool = tool_of({"p": {"type": "array", "items": {"anyOf": [{"type": "null"}] * 90}, "description": "d"}})
    start = time.process_time()
    assert len(refused({"p": ["x"] * 4_500}, tool)) == 10
    check_call(tool, {"p": [None] * 4_500})
    assert time.process_time() - start < 5


def test_a_handler_reads_its_arguments_and_the_working_directory() -> None:
    assert json.loads(handler_input({"text": "é"}, "/workspace/work")) == {
        "text": "é",
        "__workDir": "/workspace/work",
    }

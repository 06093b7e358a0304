"""Models of arguments, made from the JSON Schemas of tools."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from sandbox_skills.toolsets.base import Tool
from sandbox_skills.toolsets.input_models import arguments_of, input_model
from sandbox_skills.toolsets.openrouter import _tools

SCHEMA: Any = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 3},
        "from": {"type": "integer"},
        "model_config": {"type": "number"},
        "_x": {"type": "boolean"},
        "unit-name": {"enum": ["C", "F"]},
        "many": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
        "rest": {"type": "object"},
        "any": {},
        "either": {"type": ["string", "null"]},
    },
    "required": ["text", "unit-name"],
    "additionalProperties": False,
}
MODEL = input_model(Tool("odd", "Odd.", SCHEMA))
GIVEN: Any = {
    "text": "abc",
    "from": 1,
    "model_config": 2.5,
    "_x": True,
    "unit-name": "F",
    "many": [["a"], []],
    "rest": {"k": [1]},
    "any": None,
    "either": "x",
}


def test_what_was_given_comes_back_by_its_names() -> None:
    assert arguments_of(MODEL.model_validate(GIVEN)) == GIVEN
    assert arguments_of(MODEL.model_validate({"text": "abc", "unit-name": "C"})) == {
        "text": "abc",
        "unit-name": "C",
    }


def test_the_schema_is_the_tools_own_and_a_copy() -> None:
    shown = MODEL.model_json_schema()
    assert shown == SCHEMA
    shown["properties"].clear()
    assert MODEL.model_json_schema() == SCHEMA
    for tool in _tools(("a", "b")):
        assert input_model(tool).model_json_schema() == tool.parameters
        assert input_model(tool).__name__ == tool.name


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": 1},
        {"from": "one"},
        {"unit-name": "K"},
        {"many": ["a"]},
        {"rest": []},
        {"other": 1},
        {"text": None},
    ],
)
def test_wrong_types_and_unknown_names_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MODEL.model_validate({**GIVEN, **wrong})


def test_a_tool_may_take_nothing() -> None:
    nothing = input_model(Tool("t", "T.", {"type": "object", "properties": {}, "required": []}))
    assert arguments_of(nothing()) == {}

"""Wire formats: what providers' own libraries take and give, and back to the one form that toolsets know."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from anthropic.types import MessageParam, ToolParam, ToolUseBlock
from hypothesis import given
from hypothesis import strategies as st
from mcp import types as mcp_types
from openai.types.chat import (
    ChatCompletionFunctionToolParam,
    ChatCompletionMessageCustomToolCall,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionToolMessageParam,
)
from openai.types.responses import FunctionToolParam, ResponseFunctionToolCall
from openai.types.responses.response_input_item_param import FunctionCallOutput
from pydantic import TypeAdapter

from sandbox_skills.toolsets.base import Tool, ToolCall, ToolResult
from sandbox_skills.toolsets.openrouter import _tools
from sandbox_skills.toolsets.wire_formats import (
    META,
    WIRE_FORMATS,
    ToolNames,
    decoded_arguments,
    definitions,
    gemini_schema,
    read_calls,
    replayable_arguments,
    result_item,
)
from tests import openrouter_types
from tests.openrouter_types import openrouter_type

if TYPE_CHECKING:
    from sandbox_skills.toolsets.wire_formats import WireFormat

UNUSUAL = Tool(
    "ведро.list/all items",
    "Lists.",
    {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
    effect="read",
)
TOOLS = (*_tools(("weather", "team-chat")), UNUSUAL)
NAMES = ToolNames.of(tool.name for tool in TOOLS)
SPELLED = NAMES.spell(UNUSUAL.name)

LIBRARIES: dict[str, Any] = {
    "responses": FunctionToolParam,
    "chat": ChatCompletionFunctionToolParam,
    "anthropic": ToolParam,
    "mcp": mcp_types.Tool,
}
ANSWERS: dict[str, Any] = {
    "responses": FunctionCallOutput,
    "chat": ChatCompletionToolMessageParam,
    "mcp": mcp_types.CallToolResult,
}


def schemas(definition: Any) -> list[Any]:  # noqa: ANN401  # plain JSON
    """The JSON Schemas in a definition of any format."""
    function = definition.get("function", definition)
    keys = ("parameters", "input_schema", "inputSchema", "outputSchema")
    return [function[key] for key in keys if key in function]


class TestDefinitions:
    @pytest.mark.parametrize("wire_format", LIBRARIES)
    def test_the_providers_own_library_takes_them(self, wire_format: WireFormat) -> None:
        for definition in definitions(TOOLS, wire_format, NAMES):
            TypeAdapter(LIBRARIES[wire_format]).validate_python(definition)

    @pytest.mark.parametrize("wire_format", openrouter_types.DEFINITIONS)
    def test_openrouters_own_library_takes_them(self, wire_format: WireFormat) -> None:
        model = openrouter_type(openrouter_types.DEFINITIONS[wire_format])
        for definition in definitions(TOOLS, wire_format, NAMES):
            sent = TypeAdapter(model).validate_python(definition).model_dump(exclude_none=True)
            assert sent == definition

    @pytest.mark.parametrize("wire_format", WIRE_FORMATS)
    def test_their_schemas_are_json_schemas_and_the_callers_own(self, wire_format: WireFormat) -> None:
        made = definitions(TOOLS, wire_format, NAMES)
        before = json.dumps(made)
        for definition in made:
            for schema in schemas(definition):
                jsonschema.Draft202012Validator.check_schema(schema)
                schema.clear()
        assert json.dumps(definitions(TOOLS, wire_format, NAMES)) == before

    def test_they_have_the_forms_of_the_apis(self) -> None:
        schema = UNUSUAL.parameters
        about = {"name": SPELLED, "description": "Lists."}
        assert {name: definitions([UNUSUAL], name, NAMES)[0] for name in WIRE_FORMATS} == {
            "responses": {"type": "function", **about, "parameters": schema, "strict": False},
            "chat": {"type": "function", "function": {**about, "parameters": schema}},
            "anthropic": {**about, "input_schema": schema},
            "gemini": about,
            "mcp": {
                **about,
                "inputSchema": schema,
                "annotations": {"readOnlyHint": True, "openWorldHint": False},
            },
        }

    def test_results_that_have_a_schema_tell_it_to_mcp(self) -> None:
        (_, use, _) = definitions(TOOLS, "mcp", NAMES)
        assert use["outputSchema"] == TOOLS[1].result


class TestNames:
    @given(st.sets(st.text(max_size=90) | st.from_regex(r"[a-zA-Z0-9_-]{1,70}", fullmatch=True), max_size=12))
    def test_every_name_has_a_spelling_of_its_own_and_comes_back(self, names: set[str]) -> None:
        known = ToolNames.of(names)
        spelled = {name: known.spell(name) for name in names}
        assert len(set(spelled.values())) == len(names)
        for name, spelling in spelled.items():
            assert re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}", spelling)
            assert known.read(spelling) == name
        assert ToolNames.of(sorted(names, reverse=True)) == known

    @pytest.mark.parametrize("name", ["a", "_", "load_skill", "A-9_", "a" * 64])
    def test_a_usual_name_stays(self, name: str) -> None:
        assert ToolNames.of([name, "b.c"]).spell(name) == name

    def test_an_unusual_one_stays_readable(self) -> None:
        assert re.fullmatch(r"_list_all_items_[0-9a-f]{8}", SPELLED)
        assert re.fullmatch(r"a{55}_[0-9a-f]{8}", ToolNames().spell("a" * 65))

    def test_a_name_that_looks_like_a_spelling_is_not_taken_for_it(self) -> None:
        names = ToolNames.of([UNUSUAL.name, SPELLED])
        assert names.spell(SPELLED) == SPELLED
        assert names.spell(UNUSUAL.name) != SPELLED
        assert names.read(names.spell(UNUSUAL.name)) == UNUSUAL.name

    def test_a_name_of_nobody_stays(self) -> None:
        assert NAMES.read("foreign") == "foreign"


ITEM_CALLS: list[tuple[WireFormat, object, str]] = [
    (
        "responses",
        {"type": "function_call", "call_id": "c1", "id": "fc", "name": SPELLED, "arguments": '{"a": 1}'},
        "c1",
    ),
    ("responses", {"type": "function_call", "id": "fc", "name": SPELLED, "arguments": '{"a": 1}'}, "fc"),
    (
        "responses",
        ResponseFunctionToolCall(
            type="function_call", call_id="c1", name=SPELLED, arguments='{"a": 1}', id=None
        ),
        "c1",
    ),
    (
        "chat",
        {"id": "c1", "type": "function", "function": {"name": SPELLED, "arguments": '{"a": 1}'}},
        "c1",
    ),
    (
        "chat",
        ChatCompletionMessageFunctionToolCall.model_validate(
            {"id": "c1", "type": "function", "function": {"name": SPELLED, "arguments": '{"a": 1}'}}
        ),
        "c1",
    ),
    ("anthropic", {"type": "tool_use", "id": "c1", "name": SPELLED, "input": {"a": 1}}, "c1"),
    ("anthropic", ToolUseBlock(type="tool_use", id="c1", name=SPELLED, input={"a": 1}), "c1"),
    ("gemini", {"functionCall": {"name": SPELLED, "args": {"a": 1}}}, ""),
    ("gemini", {"function_call": {"id": "c1", "name": SPELLED, "args": {"a": 1}}}, "c1"),
    ("mcp", {"name": SPELLED, "arguments": {"a": 1}}, ""),
    ("mcp", mcp_types.CallToolRequestParams(name=SPELLED, arguments={"a": 1}), ""),
]


class TestCalls:
    @pytest.mark.parametrize(("wire_format", "item", "call_id"), ITEM_CALLS)
    def test_a_call_is_read_from_json_and_from_a_librarys_object(
        self, wire_format: WireFormat, item: object, call_id: str
    ) -> None:
        assert read_calls([item], wire_format, NAMES) == (ToolCall(UNUSUAL.name, {"a": 1}, call_id),)

    @pytest.mark.parametrize("wire_format", openrouter_types.CALLS)
    def test_a_call_is_read_from_an_object_of_openrouters_library(self, wire_format: WireFormat) -> None:
        items = [item for form, item, _ in ITEM_CALLS if form == wire_format and isinstance(item, dict)]
        item = openrouter_type(openrouter_types.CALLS[wire_format]).model_validate(items[0])
        assert read_calls([item], wire_format, NAMES) == (ToolCall(UNUSUAL.name, {"a": 1}, "c1"),)

    @pytest.mark.parametrize("wire_format", WIRE_FORMATS)
    def test_what_is_no_call_is_passed_over(self, wire_format: WireFormat) -> None:
        others: list[object] = [
            {"type": "message", "content": []},
            {"type": "text", "text": "x"},
            {"text": "x"},
            {"type": "reasoning", "id": "r", "summary": []},
            None,
            7,
            object(),
        ]
        assert read_calls(others, wire_format, NAMES) == ()
        assert read_calls(None, wire_format, NAMES) == ()

    def test_calls_keep_their_order_and_equal_ones_are_two(self) -> None:
        item = {"type": "tool_use", "id": "1", "name": "use_skill", "input": {}}
        calls = read_calls([item, {"type": "text"}, {**item, "id": "2"}, item], "anthropic", NAMES)
        assert [call.id for call in calls] == ["1", "2", "1"]

    def test_a_custom_call_is_one_with_arguments_that_are_refused(self) -> None:
        call = ChatCompletionMessageCustomToolCall.model_validate(
            {"id": "1", "type": "custom", "custom": {"name": "use_skill", "input": "free text"}}
        )
        assert read_calls([call], "chat", NAMES) == (ToolCall("use_skill", "free text", "1"),)

    @given(
        st.recursive(
            st.none() | st.booleans() | st.text(max_size=5) | st.integers(),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        ["type", "name", "id", "function", "functionCall", "arguments", "args", "input"]
                    ),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=12,
        ),
        st.sampled_from(sorted(WIRE_FORMATS)),
    )
    def test_no_item_breaks_the_reading(self, item: object, wire_format: WireFormat) -> None:
        for call in read_calls([item], wire_format, NAMES):
            assert isinstance(call.name, str)
            assert isinstance(call.id, str)


class TestArguments:
    @pytest.mark.parametrize("raw", [None, "", "  \n", "null", "{}", {}, "{}{}"], ids=repr)
    def test_nothing_is_no_arguments(self, raw: object) -> None:
        assert decoded_arguments(raw) == {}
        assert replayable_arguments(raw) == "{}"

    @pytest.mark.parametrize(
        "raw", [{"a": "é"}, '{"a": "é"}', '{}{"a": "é"}', '{"a": "é"}{"a":"é"}', ' {"a": "\\u00e9"} \n{}']
    )
    def test_an_object_is_read_however_it_comes(self, raw: object) -> None:
        assert decoded_arguments(raw) == {"a": "é"}
        assert replayable_arguments(raw) == '{"a": "é"}'

    @pytest.mark.parametrize(
        "raw",
        [
            '{"a": ',
            "a",
            '{"a": 1}{"a": 2}',
            '{"a": 1}[]',
            '{"a": NaN}',
            '{"a": ' + "9" * 5000 + "}",
            "[" * 100_000,
            '{"a": 1} trailing',
        ],
    )
    def test_what_cannot_be_read_stays_for_the_toolset_to_refuse(self, raw: str) -> None:
        assert decoded_arguments(raw) == raw
        assert replayable_arguments(raw) == "{}", "a history with it would be refused"

    @pytest.mark.parametrize("raw", ["[1]", "3", '"text"', "true", [1], 4, False])
    def test_other_json_is_no_object(self, raw: object) -> None:
        assert not isinstance(decoded_arguments(raw), dict)
        assert replayable_arguments(raw) == "{}"

    @given(st.text(max_size=40))
    def test_no_text_breaks_the_reading(self, raw: str) -> None:
        decoded_arguments(raw)
        assert isinstance(json.loads(replayable_arguments(raw)), dict)


DONE = ToolResult({"success": True, "stdout": "é\ud800"})
FAILED = ToolResult("not done", "rejected", "policy_denied", is_error=True, display="no")
CALL = ToolCall(UNUSUAL.name, {}, "c1")


class TestResults:
    @pytest.mark.parametrize("result", [DONE, FAILED])
    @pytest.mark.parametrize("wire_format", ANSWERS)
    def test_the_providers_own_library_takes_them(self, wire_format: WireFormat, result: ToolResult) -> None:
        item = result_item(CALL, result, wire_format, NAMES)
        TypeAdapter(ANSWERS[wire_format]).validate_python(item)

    @pytest.mark.parametrize("result", [DONE, FAILED])
    @pytest.mark.parametrize("wire_format", openrouter_types.ANSWERS)
    def test_openrouters_own_library_takes_them(self, wire_format: WireFormat, result: ToolResult) -> None:
        item = result_item(CALL, result, wire_format, NAMES)
        model = openrouter_type(openrouter_types.ANSWERS[wire_format])
        assert model.model_validate(item).model_dump(exclude_none=True, by_alias=True) == item

    @pytest.mark.parametrize("result", [DONE, FAILED])
    def test_anthropics_takes_them_as_a_message(self, result: ToolResult) -> None:
        item = result_item(CALL, result, "anthropic", NAMES)
        TypeAdapter(MessageParam).validate_python({"role": "user", "content": [item]})

    def test_they_have_the_forms_of_the_apis(self) -> None:
        text = '{"success": true, "stdout": "é\ufffd"}'
        done = {name: result_item(CALL, DONE, name, NAMES) for name in WIRE_FORMATS}
        assert done == {
            "responses": {"type": "function_call_output", "call_id": "c1", "output": text},
            "chat": {"role": "tool", "tool_call_id": "c1", "content": text},
            "anthropic": {"type": "tool_result", "tool_use_id": "c1", "content": text, "is_error": False},
            "gemini": {"functionResponse": {"name": SPELLED, "response": DONE.content, "id": "c1"}},
            "mcp": {
                "content": [{"type": "text", "text": text}],
                "isError": False,
                "structuredContent": DONE.content,
                "_meta": {META: {"status": "ok", "code": "", "display": "", "artifacts": []}},
            },
        }
        failed = {name: result_item(ToolCall("t", {}), FAILED, name, NAMES) for name in WIRE_FORMATS}
        assert failed["anthropic"]["is_error"] is True
        assert failed["mcp"] == {
            "content": [{"type": "text", "text": "not done"}],
            "isError": True,
            "_meta": {
                META: {"status": "rejected", "code": "policy_denied", "display": "no", "artifacts": []}
            },
        }
        assert failed["gemini"] == {"functionResponse": {"name": "t", "response": {"error": "not done"}}}


GEMINI_FIELDS = frozenset(
    """type format title description nullable enum maxItems minItems properties required minProperties maxProperties
    minLength maxLength pattern default anyOf items minimum maximum""".split()  # noqa: SIM905  # shorter to read
)

JSON_SCHEMAS = st.recursive(
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "integer", "null"]) | st.just(["string", "null"]),
            "const": st.sampled_from(["x", 1]),
            "enum": st.just(["a", 1]) | st.just(["a", "b"]),
            "format": st.sampled_from(["uri", "date-time"]),
            "additionalProperties": st.booleans(),
            "exclusiveMinimum": st.integers(),
            "$comment": st.text(max_size=3),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": st.just("object"),
            "properties": st.dictionaries(st.text(max_size=4), inner | st.booleans(), max_size=3),
            "items": inner | st.booleans(),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
        },
    ),
    max_leaves=8,
)


class TestGemini:
    @given(JSON_SCHEMAS)
    def test_nothing_is_left_that_it_does_not_know(self, schema: dict[str, Any]) -> None:
        before = json.dumps(schema)
        plain = gemini_schema(schema)
        assert json.dumps(schema) == before
        for node in nodes(plain):
            assert node.keys() <= GEMINI_FIELDS
            assert not isinstance(node.get("type"), list)
            assert node.get("properties", True)
            assert "enum" not in node or node["type"] == "string"

    def test_what_is_kept_means_the_same(self) -> None:
        schema: Any = {
            "type": "object",
            "properties": {
                "a": {"type": ["string", "null"], "format": "uri", "description": "d"},
                "b": {"const": "x"},
                "c": {"type": ["string", "integer"]},
                "d": {"type": "array", "items": {"oneOf": [{"type": "string"}, {"type": "number"}]}},
                "e": {"type": "object", "properties": {}, "required": []},
                "f": {"type": "integer", "enum": [1, 2]},
                "g": True,
            },
            "required": ["a"],
            "additionalProperties": False,
        }
        assert gemini_schema(schema) == {
            "type": "object",
            "properties": {
                "a": {"type": "string", "nullable": True, "description": "d"},
                "b": {"type": "string", "enum": ["x"]},
                "c": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "d": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "number"}]}},
                "e": {"type": "object"},
                "f": {"type": "integer"},
                "g": {},
            },
            "required": ["a"],
        }


def nodes(schema: Any) -> list[dict[str, Any]]:  # noqa: ANN401  # plain JSON
    """Every schema in a schema."""
    below = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    below += [schema["items"]] if "items" in schema else []
    return [schema, *(node for one in below for node in nodes(one))]

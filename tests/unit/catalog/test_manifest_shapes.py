"""tools.json as the specification has it, as found in the wild, and what a model is told of its tools."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.catalog import (
    ManifestOptions,
    ToolManifest,
    ToolSpec,
    parse_manifest,
    stub_message,
    tool_schema,
)
from sandbox_skills.catalog.tool_spec import manifest_entry

if TYPE_CHECKING:
    from sandbox_skills.catalog.manifest_json import JsonValue

TEXT: dict[str, JsonValue] = {"type": "string", "description": "A text."}
COUNT: dict[str, JsonValue] = {"type": "number", "description": "How many."}
SEED: list[dict[str, Any]] = [
    {
        "name": "tool_name",
        "description": "What the tool does",
        "script": "scripts/tool_name.js",
        "parameters": {"param1": TEXT, "param2": {**COUNT, "optional": True}},
    }
]
EXPECTED = ToolSpec(
    "tool_name",
    "What the tool does",
    {"param1": TEXT, "param2": COUNT},
    ("param1",),
    "scripts/tool_name.js",
    "s",
)


def parse(value: object) -> ToolManifest:
    return parse_manifest(json.dumps(value), "s")


def codes(manifest: ToolManifest) -> list[str]:
    return [item.code for item in manifest.diagnostics]


def only(value: object) -> ToolSpec:
    (tool,) = parse([value]).tools
    return tool


def test_the_example_of_the_specification_loads_in_strict_mode_without_a_finding() -> None:
    assert parse_manifest(json.dumps(SEED), "s", ManifestOptions("strict")) == ToolManifest((EXPECTED,), ())


def test_a_tool_is_found_by_its_name() -> None:
    manifest = parse(SEED)
    assert manifest.get("tool_name") == EXPECTED
    assert manifest.get("other") is None


def test_parameters_are_required_unless_they_are_optional_and_nothing_else_is_allowed() -> None:
    assert tool_schema(EXPECTED) == {
        "type": "object",
        "properties": {"param1": TEXT, "param2": COUNT},
        "required": ["param1"],
        "additionalProperties": False,
    }


def test_a_schema_is_the_callers_own_copy() -> None:
    schema: Any = tool_schema(EXPECTED)
    schema["properties"]["param1"]["type"] = "number"
    assert tool_schema(EXPECTED) != schema


def test_parameters_default_to_none_at_all() -> None:
    absent: list[dict[str, object]] = [{}, {"parameters": {}}, {"parameters": None}]
    for keys in absent:
        assert tool_schema(only({"name": "t", "description": "d", **keys}))["properties"] == {}


def test_a_manifest_may_declare_no_tools() -> None:
    assert parse([]) == ToolManifest()


def test_a_tool_without_a_script_is_a_stub_that_sends_the_model_to_the_skill() -> None:
    for absent in ({}, {"script": None}):
        tool = only({"name": "t", "description": "d", **absent})
        assert tool.script is None
        assert stub_message(tool, "load_skill") == (
            "t has no handler. Load the skill 's' with load_skill and follow its instructions."
        )


@pytest.mark.parametrize("kind", ["string", "number", "boolean", "object", "array"])
def test_each_type_of_the_specification_is_taken_without_a_finding(kind: str) -> None:
    assert codes(parse([{**SEED[0], "parameters": {"p": {**TEXT, "type": kind}}}])) == []


def test_an_enum_is_kept() -> None:
    tool = only({**SEED[0], "parameters": {"unit": {**TEXT, "enum": ["C", "F"]}}})
    assert tool.parameters["unit"]["enum"] == ["C", "F"]


@pytest.mark.parametrize("name", ["", "A", "_a", "1a", "a-b", "a b", "a\n", "é", "a" * 65, 3, None])
def test_a_name_that_is_not_one_skips_the_tool(name: object) -> None:
    assert parse([{"name": name, "description": "d"}]).tools == ()


@pytest.mark.parametrize("name", ["a", "a1", "count_words", "a__b", "a_", "a" * 64])
def test_a_name_that_is_one_is_taken(name: str) -> None:
    assert only({"name": name, "description": "d"}).name == name


@pytest.mark.parametrize("text", ["", " \n", 3, None, ["d"]])
def test_a_description_that_is_none_skips_the_tool(text: object) -> None:
    assert codes(parse([{"name": "t", "description": text}])) == ["tool-description-missing"]


def test_a_long_description_is_cut_to_what_providers_take() -> None:
    tool = only({"name": "t", "description": "w" * 2_000})
    assert (len(tool.description), tool.description[-1]) == (1024, "…")


@pytest.mark.parametrize(
    "script",
    [
        "",
        ".",
        "/x.py",
        "..",
        "../x.py",
        "a/../../x.py",
        "a\\x.py",
        "a\0b",
        "a\nb",
        "\x1b[0m",
        "x" * 1025,
        3,
        [],
    ],
)
def test_a_script_that_is_no_path_inside_the_skill_skips_the_tool(script: object) -> None:
    assert codes(parse([{**SEED[0], "script": script}])) == ["tool-script-invalid"]


def test_a_script_is_normalised() -> None:
    assert only({**SEED[0], "script": "./scripts//a b.py"}).script == "scripts/a b.py"


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({"tools": SEED}, "manifest-not-array"),
        (SEED[0], "manifest-not-array"),
        ([{"type": "function", "function": SEED[0]}], "tool-wrapped"),
        ([{"type": "function", "function": {**SEED[0], "strict": True}}], "tool-wrapped"),
        ([{"function": SEED[0]}], "tool-wrapped"),
        ([{"type": "function", **SEED[0], "strict": False}], "tool-wrapped"),
    ],
)
def test_a_manifest_in_another_shape_gives_the_same_tool(value: object, code: str) -> None:
    manifest = parse(value)
    assert manifest.tools == (EXPECTED,)
    assert code in codes(manifest)


@pytest.mark.parametrize("key", ["parameters", "input_schema", "inputSchema"])
def test_parameters_as_a_whole_json_schema_give_the_same_tool(key: str) -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"param1": TEXT, "param2": COUNT},
        "required": ["param1", "no_such", 3],
        "additionalProperties": False,
    }
    item = {key_: value for key_, value in SEED[0].items() if key_ != "parameters"}
    manifest = parse([{**item, key: schema}])
    assert manifest.tools == (EXPECTED,)
    assert codes(manifest) == ["tool-wrapped"] * (key != "parameters") + ["tool-parameters-schema"]


def test_a_schema_that_requires_nothing_makes_every_parameter_optional() -> None:
    tool = only({**SEED[0], "parameters": {"type": "object", "properties": {"p": TEXT}, "required": None}})
    assert tool.required == ()


def test_a_parameter_may_be_called_type_or_required() -> None:
    tool = only({**SEED[0], "parameters": {"type": TEXT, "required": TEXT, "properties": TEXT}})
    assert tool.required == ("type", "required", "properties")


@pytest.mark.parametrize(
    "schema", [{"type": "string"}, {"type": "object", "properties": []}, {"required": [], "properties": 3}]
)
def test_a_schema_of_something_else_skips_the_tool(schema: object) -> None:
    manifest = parse([{**SEED[0], "parameters": schema}])
    assert manifest.tools == ()
    assert "tool-parameters-invalid" in codes(manifest)


def test_definitions_that_a_schema_shares_are_dropped_and_said() -> None:
    parameters = {"type": "object", "properties": {"p": {**TEXT, "$ref": "#/$defs/x"}}, "$defs": {"x": TEXT}}
    manifest = parse([{**SEED[0], "parameters": parameters}])
    assert [item.message.partition(": ")[2] for item in manifest.diagnostics[1:]] == ["$defs", "$ref"]
    assert manifest.tools[0].parameters == {"p": TEXT}


def test_more_than_a_hundred_parameters_skip_the_tool() -> None:
    parameters = {f"p{number}": TEXT for number in range(101)}
    assert codes(parse([{**SEED[0], "parameters": parameters}])) == ["tool-parameters-invalid"]


def test_the_working_directory_is_no_parameter() -> None:
    tool = only({**SEED[0], "parameters": {"__workDir": TEXT, "p": TEXT}})
    assert tool.required == ("p",)


@pytest.mark.parametrize(
    "definition",
    [
        {"type": "integer"},
        {"type": ["string", "null"]},
        {"enum": ["a", 1]},
        {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        {"const": None},
    ],
)
def test_types_beyond_the_five_are_kept_with_a_warning(definition: dict[str, Any]) -> None:
    manifest = parse([{**SEED[0], "parameters": {"p": {**definition, "description": "d"}}}])
    assert codes(manifest) == ["parameter-type-extra"]
    assert manifest.tools[0].parameters["p"] == {**definition, "description": "d"}


@pytest.mark.parametrize(
    "kind", ["text", "", 3, None, [], ["string", "string"], ["string", "x"], [["string"]], {}]
)
def test_a_type_that_is_none_skips_the_tool(kind: object) -> None:
    manifest = parse([{**SEED[0], "parameters": {"p": {**TEXT, "type": kind}}}])
    assert codes(manifest) == ["parameter-type"]


def test_a_missing_type_skips_the_tool() -> None:
    assert codes(parse([{**SEED[0], "parameters": {"p": {"description": "d"}}}])) == ["parameter-type"]


@pytest.mark.parametrize(
    ("kind", "fitting", "other"),
    [
        ("string", "a", 1),
        ("number", 1.5, True),
        ("integer", 2.0, 1.5),
        ("boolean", True, 1),
        ("array", [1], {}),
        ("object", {"a": 1}, []),
        (["string", "null"], None, 1),
    ],
)
def test_an_enum_needs_a_value_that_the_type_allows(kind: object, fitting: object, other: object) -> None:
    def parsed(*values: object) -> list[str]:
        definition = {"type": kind, "description": "d", "enum": list(values)}
        return codes(parse([{**SEED[0], "parameters": {"p": definition}}]))

    assert "parameter-enum" not in parsed(other, fitting)
    assert "parameter-enum" in parsed(other)


@pytest.mark.parametrize("enum", [[], "a", {"a": 1}, None, 3])
def test_an_enum_that_is_no_list_of_values_skips_the_tool(enum: object) -> None:
    assert codes(parse([{**SEED[0], "parameters": {"p": {**TEXT, "enum": enum}}}])) == ["parameter-enum"]


def test_optional_that_is_no_boolean_leaves_the_parameter_required() -> None:
    values: tuple[object, ...] = ("true", 1, None, [])
    for value in values:
        assert only({**SEED[0], "parameters": {"p": {**TEXT, "optional": value}}}).required == ("p",)


@pytest.mark.parametrize(
    "dropped",
    [
        {"pattern": "(a+)+$"},
        {"$ref": "https://example.org/x"},
        {"$id": "x"},
        {"not": {}},
        {"uniqueItems": True},
        {"minLength": -1},
        {"minLength": True},
        {"minimum": "1"},
        {"maximum": None},
        {"required": True},
        {"items": "string"},
        {"anyOf": []},
        {"anyOf": "x"},
        {"allOf": [{}, 3]},
        {"oneOf": [{"pattern": "a"}, {"pattern": "b"}]},
        {"properties": [TEXT]},
        {"examples": "x"},
        {"title": 3},
        {"requird": ["x"]},
    ],
)
def test_a_keyword_that_is_not_used_or_makes_no_sense_is_dropped_and_named(dropped: dict[str, Any]) -> None:
    manifest = parse([{**SEED[0], "parameters": {"p": {**TEXT, **dropped}}}])
    assert [(item.code, item.message.partition(": ")[2]) for item in manifest.diagnostics] == [
        ("parameter-keyword", *dropped)
    ]
    assert manifest.tools[0].parameters == {"p": TEXT}


def test_nested_schemas_are_kept_as_far_as_they_are_used() -> None:
    inner = {"type": "array", "items": {"type": "object", "properties": {"a": {"pattern": "x"}, "b": 3}}}
    outer = {**TEXT, "type": "object", "properties": {"list": inner}, "additionalProperties": False}
    manifest = parse([{**SEED[0], "parameters": {"p": {**outer, "oneOf": [{"minProperties": 1}, True]}}}])
    kept: Any = manifest.tools[0].parameters["p"]
    assert kept["properties"]["list"]["items"]["properties"] == {"a": {}, "b": True}
    assert kept["oneOf"] == [{"minProperties": 1}, True]
    assert [item.message.partition(": ")[2] for item in manifest.diagnostics] == ["pattern, properties"]


def test_names_in_a_finding_are_few_and_on_one_line() -> None:
    item = {**SEED[0], **{f"k{number:03}\x1b\n": 1 for number in range(50)}}
    (found,) = parse([item]).diagnostics
    assert found.message.endswith("k000, k001, k002, k003, k004, k005, k006, k007, k008, k009, …")


def test_half_a_character_becomes_a_sign_for_it() -> None:
    text = (
        r'[{"name": "t", "description": "a\ud83d", "parameters": {"p": {"type": "string", "description": "d",'
    )
    manifest = parse_manifest(text + r' "enum": ["\udfff", 1], "default": null}}}]', "s")
    tool = manifest.tools[0]
    assert [item.code for item in manifest.diagnostics] == ["manifest-half-character"]
    assert tool.description == "a\N{REPLACEMENT CHARACTER}"
    assert tool.parameters["p"]["enum"] == ["\N{REPLACEMENT CHARACTER}", 1]


@pytest.mark.parametrize(
    ("written", "said"), [(r"\ud83d\ude00", []), ("a\ud83d", ["manifest-half-character"])]
)
def test_two_halves_make_a_character_and_one_is_said_however_it_is_written(
    written: str, said: list[str]
) -> None:
    manifest = parse_manifest(f'[{{"name": "t", "description": "{written}"}}]', "s")
    assert [item.code for item in manifest.diagnostics] == said
    assert manifest.tools[0].description in {"\N{GRINNING FACE}", "a\N{REPLACEMENT CHARACTER}"}


def test_a_byte_order_mark_is_taken() -> None:
    assert parse_manifest(("\ufeff" + json.dumps(SEED)).encode(), "s").tools == (EXPECTED,)
    assert parse_manifest("\ufeff" + json.dumps(SEED), "s").tools == (EXPECTED,)


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999", "9" * 5_000])
def test_a_number_that_json_or_python_does_not_have_is_said(number: str) -> None:
    (found,) = parse_manifest(f"[{number}]", "s").diagnostics
    assert (found.code, found.message) == ("manifest-not-json", "is not JSON: a number is out of range")


def test_a_syntax_error_has_its_line_and_column() -> None:
    (found,) = parse_manifest('[\n  {"name": "x",}\n]', "s").diagnostics
    assert (found.code, found.line) == ("manifest-not-json", 2)
    assert found.column is not None


def test_a_tool_has_no_line_where_other_objects_make_it_uncertain() -> None:
    (found,) = parse({"other": [{}], "tools": [{}]}).diagnostics[1:2]
    assert found.line is None


def test_what_is_written_for_a_tool_loads_as_that_tool() -> None:
    assert parse([manifest_entry(EXPECTED)]) == ToolManifest((EXPECTED,))
    stub = ToolSpec("t", "d", skill="s")
    assert parse([manifest_entry(stub)]) == ToolManifest((stub,))

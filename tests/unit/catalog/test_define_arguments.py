"""What a call of define_tool asks for: every form that models write, every violation at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_skills.catalog import (
    DEFINE_TOOL,
    REMOVE_TOOL,
    ManifestOptions,
    check_call,
    parse_manifest,
    parse_skill,
    read_definition,
)
from sandbox_skills.catalog.define_arguments import NO_CHARACTER, manifest_text, skill_name
from sandbox_skills.catalog.define_files import MARKER, skill_files, tool_of
from sandbox_skills.catalog.tool_spec import manifest_entry
from sandbox_skills.errors import ToolCallError, ToolDefinitionError

CITY = {"type": "string", "description": "Which city."}
UNIT = {"type": "string", "description": "Which unit.", "enum": ["C", "F"], "optional": True}
SEED: dict[str, Any] = {
    "name": "fetch_weather",
    "description": "Fetches the weather.",
    "parameters": json.dumps({"city": CITY, "unit": UNIT}),
    "code": "return args['city']",
    "persistent": "true",
}


def violations(**changes: object) -> list[str]:
    with pytest.raises(ToolDefinitionError) as caught:
        read_definition({**SEED, **changes})
    return [str(item) for item in caught.value.violations]


def test_the_call_of_the_specification_gives_a_definition() -> None:
    definition = read_definition(SEED)
    tool = definition.tool
    assert (tool.name, tool.description, tool.required) == (
        "fetch_weather",
        "Fetches the weather.",
        ("city",),
    )
    assert (tool.skill, tool.script) == ("fetch-weather", "scripts/fetch_weather.py")
    assert definition.persistent
    assert "    return args['city']\n" in definition.source
    assert definition.diagnostics == ()


@pytest.mark.parametrize(
    "parameters",
    [
        {"city": CITY, "unit": UNIT},
        {
            "type": "object",
            "properties": {"city": CITY, "unit": {key: UNIT[key] for key in ("type", "description", "enum")}},
            "required": ["city"],
        },
    ],
)
def test_parameters_may_be_an_object_or_its_json_in_either_form(parameters: dict[str, Any]) -> None:
    expected = read_definition(SEED).tool
    assert read_definition({**SEED, "parameters": parameters}).tool == expected
    assert read_definition({**SEED, "parameters": json.dumps(parameters)}).tool == expected


@pytest.mark.parametrize("parameters", ["", "{}", "null", {}])
def test_no_parameters_are_fine(parameters: object) -> None:
    assert read_definition({**SEED, "parameters": parameters}).tool.parameters == {}
    del (without := dict(SEED))["parameters"]
    assert read_definition(without).tool.parameters == {}


@pytest.mark.parametrize(
    ("value", "expected"),
    [("true", True), ("True ", True), (True, True), ("false", False), ("", False), (False, False)],
)
def test_persistent_may_be_a_text_or_a_boolean(value: object, *, expected: bool) -> None:
    assert read_definition({**SEED, "persistent": value}).persistent is expected


def test_a_tool_is_not_persistent_unless_it_is_asked_for() -> None:
    del (without := dict(SEED))["persistent"]
    assert not read_definition(without).persistent


def test_javascript_is_asked_for_by_its_name() -> None:
    definition = read_definition({**SEED, "language": "javascript", "code": "return args.city;"})
    assert definition.tool.script == "scripts/fetch_weather.js"
    assert "export default async function handler(args) {\nreturn args.city;\n}" in definition.source


def test_a_parameter_without_a_description_gets_its_name_and_that_is_said() -> None:
    definition = read_definition({**SEED, "parameters": {"city": {"type": "string"}}})
    assert definition.tool.parameters == {"city": {"type": "string", "description": "city"}}
    assert [item.code for item in definition.diagnostics] == ["parameter-description"]


@pytest.mark.parametrize(
    ("tool", "skill"),
    [
        ("fetch_weather", "fetch-weather"),
        ("a__b", "a-b"),
        ("a_", "a"),
        ("a" * 64, "a" * 64),
        ("a_1__", "a-1"),
    ],
)
def test_the_name_of_the_skill_has_single_hyphens_for_underscores(tool: str, skill: str) -> None:
    assert skill_name(tool) == skill


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": "../x"}, "name: is not a tool name of at most 64 characters: '../x'"),
        ({"name": ""}, "name: is missing or not text"),
        ({"name": "define_tool"}, "name: is the name of a built-in tool: 'define_tool'"),
        ({"name": "remove_tool"}, "name: is the name of a built-in tool: 'remove_tool'"),
        ({"description": " "}, "description: is missing, blank or not text"),
        ({"parameters": "[]"}, "parameters: is not an object of at most 100 parameters"),
        ({"parameters": "{"}, "parameters: is not JSON: "),
        ({"parameters": "[" * 40}, "parameters: is nested too deep: the limit is 32 levels"),
        ({"parameters": {"p": {"type": "text"}}}, "parameters.p: has no type that JSON Schema knows"),
        ({"parameters": {"a b": CITY}}, "parameters.a b: has a name that no provider takes"),
        ({"code": " "}, "code: is blank"),
        ({"code": "x = 1\nreturn ("}, "code: line 2: '(' was never closed"),
        ({"code": "x" * 70_000}, "code: is longer than 65,536 bytes"),
        ({"persistent": "yes"}, 'persistent: is neither "true" nor "false"'),
    ],
)
def test_what_is_wrong_with_a_definition_is_said(changes: dict[str, Any], expected: str) -> None:
    (found,) = violations(**changes)
    assert found.startswith(expected)


def test_every_violation_is_said_at_once() -> None:
    found = violations(name="X", description="", parameters={"p": 1}, code="", persistent="x")
    assert [item.partition(":")[0] for item in found] == [
        "name",
        "description",
        "parameters.p",
        "code",
        "persistent",
    ]


def test_violations_are_few() -> None:
    assert len(violations(parameters={f"p{number}": 1 for number in range(100)})) == 10


def test_reserved_names_and_the_skills_of_others_are_refused() -> None:
    for changes in ({"reserved": ["fetch_weather"]}, {"skills": ["fetch-weather"]}):
        with pytest.raises(ToolDefinitionError, match=r"^define_tool: name: "):
            read_definition(SEED, **changes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": 3}, "name: 3 is not of type 'string'"),
        ({"parameters": 3}, "parameters: 3 is not of type 'string', 'object'"),
        ({"persistent": 1}, "persistent: 1 is not of type 'string', 'boolean'"),
        ({"language": "bash"}, "language: 'bash' is not one of ['python', 'javascript']"),
        ({"shell": True}, "shell: is not a parameter of this tool"),
    ],
)
def test_arguments_of_the_wrong_shape_are_a_bad_call(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(ToolCallError, match="define_tool") as caught:
        read_definition({**SEED, **changes})
    assert [str(item) for item in caught.value.violations] == [expected]
    assert not isinstance(caught.value, ToolDefinitionError)


def test_remove_tool_takes_a_name() -> None:
    check_call(REMOVE_TOOL, {"name": "fetch_weather"})
    with pytest.raises(ToolCallError):
        check_call(REMOVE_TOOL, {})


def test_the_meta_tools_can_be_declared_like_any_other() -> None:
    text = json.dumps([manifest_entry(DEFINE_TOOL), manifest_entry(REMOVE_TOOL)])
    assert parse_manifest(text, "", ManifestOptions(reserved=frozenset())).tools == (DEFINE_TOOL, REMOVE_TOOL)


@pytest.mark.parametrize("kind", ["deep", "large"])
def test_parameters_that_would_not_load_again_are_refused(kind: str) -> None:
    default: object = 0
    for _ in range(29):
        default = [default]
    value = {"deep": default, "large": [0] * 80_000}[kind]
    assert violations(parameters=json.dumps({"p": {**CITY, "default": value}})) == [
        "parameters: are too large or nested too deep"
    ]


def test_the_files_have_the_layout_of_the_specification() -> None:
    files = skill_files(read_definition(SEED))
    assert list(files) == ["SKILL.md", "tools.json", "scripts/fetch_weather.py", MARKER]
    assert json.loads(files["tools.json"]) == [
        {
            "name": "fetch_weather",
            "description": "Fetches the weather.",
            "script": "scripts/fetch_weather.py",
            "parameters": {"city": CITY, "unit": UNIT},
        }
    ]
    assert files["SKILL.md"].decode() == (
        '---\nname: "fetch-weather"\ndescription: "Fetches the weather."\n---\n\n'
        "# fetch_weather\n\nFetches the weather.\n\n"
        "The tool `fetch_weather` was made by `define_tool`; its handler is `scripts/fetch_weather.py`.\n\n"
        "## Parameters\n\n- `city`: Which city.\n- `unit` (optional): Which unit.\n"
    )


def test_a_tool_without_parameters_has_no_list_of_them() -> None:
    assert b"## Parameters" not in skill_files(read_definition({**SEED, "parameters": {}}))["SKILL.md"]


def test_files_are_known_again_and_not_when_anything_has_changed() -> None:
    files = skill_files(read_definition(SEED))
    assert tool_of(files) == "fetch_weather"
    for path in files:
        assert tool_of({**files, path: files[path] + b" x"}) is None
        assert tool_of({other: content for other, content in files.items() if other != path}) is None
    assert tool_of({**files, "more": b""}) is None
    nameless = {**json.loads(files[MARKER]), "tool": 3}
    assert tool_of({**files, MARKER: json.dumps(nameless).encode()}) is None
    assert tool_of({MARKER: b"[]"}) is None


def is_broken(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("description", "\ud800"),
        ("code", "return '\ud800'"),
        ("parameters", {"p": {"type": "string", "description": "\udfff"}}),
    ],
)
def test_half_a_character_is_refused_where_it_stands(field: str, value: object) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        read_definition({**SEED, field: value})
    assert [(item.field, item.message) for item in caught.value.violations] == [(field, NO_CHARACTER)]


def test_an_escape_in_code_is_the_program_s_own() -> None:
    read_definition({**SEED, "code": "return {'x': '\\ud800'}"})


NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,63}", fullmatch=True) | st.sampled_from(["null", "true", "on", "y"])


@given(NAMES, st.text(alphabet=st.characters(), min_size=1), st.text(alphabet=st.characters()))
@settings(max_examples=200, deadline=None)
def test_whatever_is_defined_is_a_skill_that_a_strict_reader_takes(
    name: str, description: str, about: str
) -> None:
    parameters = {"p": {"type": "string", "description": about}}
    try:
        definition = read_definition(
            {**SEED, "name": name, "description": description, "parameters": parameters}
        )
    except ToolDefinitionError as error:
        refused = [item.field for item in error.violations]
        broken = [
            field for field, text in (("description", description), ("parameters", about)) if is_broken(text)
        ]
        assert refused == (broken or ["description"])
        assert broken or not description.strip()
        return
    tool = definition.tool
    files = skill_files(definition)
    spec = parse_skill(files["SKILL.md"], f"/skills/{tool.skill}/SKILL.md").spec
    assert spec.name == tool.skill
    manifest = parse_manifest(files["tools.json"], spec.name, ManifestOptions("strict"))
    assert manifest.tools == (tool,)
    assert manifest.diagnostics == ()
    assert manifest_text(tool).encode() == files["tools.json"]

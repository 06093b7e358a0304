"""Whatever the bytes of a tools.json: tools that can be offered, or findings, soon."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sandbox_skills.catalog import (
    ManifestOptions,
    Mode,
    ToolManifest,
    check_call,
    parse_manifest,
    tool_schema,
)
from sandbox_skills.catalog.manifest_json import MAX_BYTES, JsonError, read_json
from sandbox_skills.catalog.tool_spec import manifest_entry
from sandbox_skills.errors import ToolCallError

# Words that steer the search to where the reader has to decide.
WORDS = st.sampled_from([
    "tools", "name", "description", "script", "parameters", "type", "function", "properties", "required", "optional",
    "enum", "items", "anyOf", "oneOf", "$ref", "default", "additionalProperties", "object", "string", "integer",
    "array", "count_words", "scripts/x.py", "__workDir", "minLength", "input_schema",
])  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = WORDS | st.text(alphabet=st.characters(), max_size=6)
VALUES = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=20,
)
DEFINITIONS = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "number", "object", "array", "integer"]), "description": TEXTS},
    optional=dict.fromkeys(
        ("enum", "optional", "properties", "items", "anyOf", "required", "minimum"), VALUES
    ),
)
TOOLS = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b"]) | TEXTS, "description": TEXTS},
    optional={
        "script": TEXTS,
        "parameters": st.dictionaries(TEXTS, DEFINITIONS | VALUES, max_size=4) | VALUES,
    },
)
MANIFESTS = st.lists(TOOLS | VALUES, max_size=4) | VALUES


def usable(manifest: ToolManifest) -> None:
    assert len({tool.name for tool in manifest.tools}) == len(manifest.tools)
    for tool in manifest.tools:
        schema = tool_schema(tool)
        Draft202012Validator.check_schema(schema)
        json.dumps(schema, ensure_ascii=False, allow_nan=False).encode()
        assert set(tool.required) <= set(tool.parameters)
        assert tool.description.strip()


@given(st.binary() | st.text(alphabet=st.characters()))
@settings(max_examples=300, deadline=None)
def test_any_bytes_and_any_text_give_a_manifest(contents: bytes | str) -> None:
    usable(parse_manifest(contents, "s"))


@given(MANIFESTS, st.sampled_from(["strict", "lenient"]))
@settings(max_examples=400, deadline=None)
def test_any_json_gives_tools_that_can_be_offered(value: object, mode: Mode) -> None:
    manifest = parse_manifest(json.dumps(value), "s", ManifestOptions(mode))
    usable(manifest)
    assert manifest.tools or manifest.diagnostics or value == []


@given(MANIFESTS)
@settings(max_examples=300, deadline=None)
def test_what_was_read_is_read_the_same_when_it_is_written(value: object) -> None:
    tools = parse_manifest(json.dumps(value), "s").tools
    again = parse_manifest(json.dumps([manifest_entry(tool) for tool in tools]), "s")
    assert again.tools == tools


@given(DEFINITIONS, VALUES)
@settings(max_examples=300, deadline=None)
def test_any_call_of_any_tool_is_taken_or_refused(definition: object, value: object) -> None:
    for tool in parse_manifest(
        json.dumps([{"name": "t", "description": "d", "parameters": {"p": definition}}]), "s"
    ).tools:
        for arguments in ({"p": value}, {"q": value}, value):
            try:
                check_call(tool, arguments)
            except ToolCallError as error:
                assert len(str(error)) < 5_000  # noqa: PT017 — not raising is fine as well


@given(VALUES.filter(lambda value: value is not None))
def test_what_python_writes_as_json_is_read_back(value: object) -> None:
    text = json.dumps(value)
    read = read_json(text).value
    assert read == value or "\\ud" in text
    assert read_json(text.encode()).value == read


HOSTILE = {
    "brackets": "[" * MAX_BYTES,
    "pairs": "[]" * (MAX_BYTES // 2),
    "closed": "]" * MAX_BYTES,
    "objects": '[{"a":' * (MAX_BYTES // 6),
    "an endless text of quotes": '"' + '\\"' * (MAX_BYTES // 2 - 1),
    "an endless text of brackets": '["' + "[" * (MAX_BYTES - 2),
    "backslashes": "\\" * MAX_BYTES,
    "empty texts": '""' * (MAX_BYTES // 2),
    "many items": "[" + "0," * (MAX_BYTES // 2 - 2) + "0]",
    "many objects": "[" + "{}," * (MAX_BYTES // 3 - 2) + "{}]",
    "many lines": "[" + "{},\n" * (MAX_BYTES // 4 - 2) + "{}]",
    "many keys": "{" + ",".join(f'"{n:06}":0' for n in range(MAX_BYTES // 12)) + "}",
    "one key": "{" + '"a":0,' * (MAX_BYTES // 6 - 2) + '"a":0}',
    "half characters": '["' + "\\ud800" * (MAX_BYTES // 6 - 2) + '"]',
    "digits": "[" + "9" * (MAX_BYTES - 2) + "]",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_done_with_in_two_seconds(text: str) -> None:
    start = time.process_time()
    usable(parse_manifest(text, "s"))
    parse_manifest(text.encode(), "s")
    assert time.process_time() - start < 2


def test_the_limits_are_met_exactly() -> None:
    assert read_json("[" * 32 + "]" * 32).value
    assert read_json(" " * (MAX_BYTES - 1) + "1").value == 1
    with pytest.raises(JsonError):
        read_json("[" * 33 + "]" * 33)

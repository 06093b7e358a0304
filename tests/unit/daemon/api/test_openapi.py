"""The OpenAPI document is complete: every schema and operation shows an example, and each is of its own schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from sandbox_skills.daemon.api.examples import REFERENCE, complete
from tests.daemon_host import opened_host

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.anyio

BINARY = {"type": "string", "format": "binary"}


@pytest.fixture
async def document(tmp_path: Path) -> dict[str, Any]:
    async with opened_host(tmp_path) as host:
        return host.app.openapi()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def contents(operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields what an operation takes and answers, by status and media type."""
    for status, part in [("request", operation.get("requestBody", {})), *operation["responses"].items()]:
        for media, content in part.get("content", {}).items():
            yield f"{status} {media}", content


def examples(schema: dict[str, Any]) -> list[Any]:
    return [schema["example"]] if "example" in schema else schema.get("examples", [])


def faults(document: dict[str, Any], schema: dict[str, Any], value: object) -> list[str]:
    """Returns what keeps a value from being of a schema of the document."""
    whole = {**schema, "components": document["components"]}
    return [error.message for error in Draft202012Validator(whole).iter_errors(value)]


def is_bytes(schema: dict[str, Any]) -> bool:
    """Whether there is nothing to show: bytes, or a form of nothing else."""
    parts = schema.get("properties", {"": schema}).values()
    return all(BINARY.items() <= part.get("items", part).items() for part in parts)


async def test_every_schema_has_an_example_of_it(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        shown = examples(schema)
        assert shown, name
        for one in shown:
            assert faults(document, {"$ref": REFERENCE + name}, one) == [], name


async def test_an_example_has_no_name_that_its_schema_has_not(document: dict[str, Any]) -> None:
    """What is told may have more names later: an example that shows another one today is a mistake."""
    for name, schema in document["components"]["schemas"].items():
        for one in examples(schema):
            if isinstance(one, dict):
                assert one.keys() <= schema["properties"].keys(), name


async def test_every_operation_shows_what_it_takes_and_answers(document: dict[str, Any]) -> None:
    seen = 0
    for name, operation in operations(document):
        assert operation["summary"], name
        assert operation.get("description"), name
        for where, content in contents(operation):
            schema = content["schema"]
            if is_bytes(schema):
                continue
            if "$ref" in schema:
                assert schema["$ref"].removeprefix(REFERENCE) in document["components"]["schemas"], name
            else:
                assert examples(content), (name, where)
                assert faults(document, schema, content["example"]) == [], (name, where)
            seen += 1
    assert seen > 100


async def test_every_operation_that_makes_something_says_what_it_may_answer(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        assert any(status.startswith("2") for status in operation["responses"]), name
        assert {"4XX", "5XX"} <= operation["responses"].keys(), name


async def test_every_part_of_a_path_has_an_example(document: dict[str, Any]) -> None:
    for name, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            shown = examples(parameter) or examples(parameter["schema"])
            assert shown or not parameter["required"], (name, parameter["name"])
            for one in shown:
                assert faults(document, parameter["schema"], one) == [], (name, parameter["name"])


def test_an_example_is_made_of_those_of_the_parts() -> None:
    word = {"type": "string", "examples": ["hello"]}
    schemas: dict[str, Any] = {
        "Word": word,
        "Page": {
            "properties": {
                "items": {"type": "array", "items": {"$ref": f"{REFERENCE}Word"}},
                "next": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "kind": {"const": "page"},
                "size": {"enum": ["small", "large"]},
                "more": {"type": "string"},
            },
            "required": ["items", "next", "kind", "size"],
        },
    }
    complete(schemas)
    assert schemas["Page"]["examples"] == [
        {"items": ["hello"], "next": None, "kind": "page", "size": "small"}
    ]


def test_what_has_a_part_without_an_example_has_none() -> None:
    schemas: dict[str, Any] = {"Odd": {"properties": {"name": {"type": "string"}}, "required": ["name"]}}
    complete(schemas)
    assert "examples" not in schemas["Odd"]


def test_nulls_that_must_be_are_put_back_in_every_depth() -> None:
    may_be_null = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    inner = {"properties": {"a": may_be_null, "b": may_be_null}, "required": ["a"], "example": {}}
    outer = {
        "properties": {"one": {"anyOf": [{"$ref": f"{REFERENCE}Inner"}, {"type": "null"}]}},
        "examples": [{"one": {"b": "x"}}],
    }
    schemas: dict[str, Any] = {"Inner": inner, "Outer": outer}
    complete(schemas)
    assert schemas["Inner"]["examples"] == [{"a": None}]
    assert schemas["Outer"]["examples"] == [{"one": {"a": None, "b": "x"}}]

"""Each rule of tools.json: what breaks it, what becomes of the tool, and what a strict reader does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sandbox_skills.catalog import (
    Diagnostic,
    ManifestOptions,
    Mode,
    Rule,
    Severity,
    merge_manifests,
    parse_manifest,
)

RULES = {rule.code: rule for rule in Rule}
GOOD = {"name": "good", "description": "Stays."}


def tool(**changes: object) -> dict[str, Any]:
    return {"name": "bad", "description": "d", **changes}


def parameter(**definition: object) -> dict[str, Any]:
    return tool(parameters={"p": {"type": "string", "description": "d", **definition}})


def parameters(value: object) -> dict[str, Any]:
    return tool(parameters=value)


OF_A_TOOL: dict[str, tuple[Any, str]] = {
    "tool-not-object": ("text", "tools[1]"),
    "tool-wrapped": ({"type": "function", "function": tool()}, "tools[1]"),
    "tool-key-unknown": (tool(scripts="x"), "tools[1]"),
    "tool-name-missing": ({"description": "d"}, "tools[1].name"),
    "tool-name-invalid": (tool(name="Bad-Name"), "tools[1].name"),
    "tool-name-duplicate": (tool(name="good"), "tools[1].name"),
    "tool-name-reserved": (tool(name="use_skill"), "tools[1].name"),
    "tool-description-missing": ({"name": "bad"}, "tools[1].description"),
    "tool-description-length": (tool(description="d" * 1025), "tools[1].description"),
    "tool-script-invalid": (tool(script="../x.py"), "tools[1].script"),
    "tool-script-missing": (tool(script="scripts/x.py"), "tools[1].script"),
    "tool-parameters-invalid": (parameters([]), "tools[1].parameters"),
    "tool-parameters-schema": (parameters({"type": "object"}), "tools[1].parameters"),
    "parameter-name": (
        parameters({"a b": {"type": "string", "description": "d"}}),
        "tools[1].parameters.a b",
    ),
    "parameter-work-dir": (parameters({"__workDir": {}}), "tools[1].parameters.__workDir"),
    "parameter-not-object": (parameters({"p": "string"}), "tools[1].parameters.p"),
    "parameter-type": (parameter(type="text"), "tools[1].parameters.p"),
    "parameter-type-extra": (parameter(type="integer"), "tools[1].parameters.p"),
    "parameter-description": (parameter(description=" "), "tools[1].parameters.p"),
    "parameter-enum": (parameter(enum=[]), "tools[1].parameters.p"),
    "parameter-optional": (parameter(optional="true"), "tools[1].parameters.p"),
    "parameter-keyword": (parameter(pattern="^a+$"), "tools[1].parameters.p"),
}

OF_THE_FILE: dict[str, tuple[str | bytes, int]] = {  # and how many tools are loaded nevertheless
    "manifest-too-large": (b" " * (256 * 1024 + 1), 0),
    "manifest-not-utf8": ('[{"name": "é"}]'.encode("latin-1"), 0),
    "manifest-not-json": ("[{'name': 'x'}]", 0),
    "manifest-too-deep": ("[" * 33 + "]" * 33, 0),
    "manifest-key-duplicate": ('[{"name": "x", "name": "good", "description": "d"}]', 1),
    "manifest-half-character": (r'[{"name": "good", "description": "a\ud800"}]', 1),
    "manifest-not-array": (json.dumps({"tools": [GOOD]}), 1),
    "manifest-unrelated": ('{"bash": true}', 0),
    "manifest-too-many-tools": (json.dumps([{**GOOD, "name": f"t{n}"} for n in range(129)]), 128),
}

ELSEWHERE = {"manifest-unreadable", "tool-shadowed"}  # test_manifest_load.py, and below


def options(mode: Mode = "lenient") -> ManifestOptions:
    def fault(script: str) -> str:
        return "is not there" if script == "scripts/x.py" else ""

    return ManifestOptions(mode, frozenset({"use_skill"}), fault)


def one(code: str, found: tuple[Diagnostic, ...]) -> Diagnostic:
    (item,) = [item for item in found if item.code == code]
    return item


def test_every_code_of_manifests_has_a_case() -> None:
    codes = {code for code in RULES if code.startswith(("manifest-", "tool-", "parameter-"))}
    assert set(OF_A_TOOL) | set(OF_THE_FILE) | ELSEWHERE == codes


@pytest.mark.parametrize("code", OF_A_TOOL)
def test_a_bad_tool_is_said_with_its_place_and_skipped_on_an_error_while_its_siblings_live(code: str) -> None:
    item, field = OF_A_TOOL[code]
    text = json.dumps([GOOD, item, {**GOOD, "name": "last"}], indent=1)
    manifest = parse_manifest(text, "s", options())
    found = one(code, manifest.diagnostics)
    assert found.severity is RULES[code].severity
    assert found.field == field
    skipped = [] if found.severity is Severity.ERROR else ["bad"]
    assert [entry.name for entry in manifest.tools] == ["good", *skipped, "last"]
    if isinstance(item, dict):
        assert found.line == 6


@pytest.mark.parametrize("code", OF_A_TOOL)
def test_a_strict_reader_skips_a_tool_that_breaks_the_specification(code: str) -> None:
    manifest = parse_manifest(json.dumps([GOOD, OF_A_TOOL[code][0]]), "s", options("strict"))
    assert (one(code, manifest.diagnostics).severity is Severity.ERROR) is RULES[code].breaks_spec
    assert len(manifest.tools) == (1 if RULES[code].breaks_spec else 2)


@pytest.mark.parametrize("code", OF_THE_FILE)
def test_what_is_wrong_with_the_file_is_said(code: str) -> None:
    contents, tools = OF_THE_FILE[code]
    manifest = parse_manifest(contents, "s", options())
    found = one(code, manifest.diagnostics)
    assert (found.severity, found.field) == (RULES[code].severity, "tools.json")
    assert len(manifest.tools) == tools


@pytest.mark.parametrize("code", OF_THE_FILE)
def test_a_strict_reader_takes_nothing_from_a_file_that_breaks_the_specification(code: str) -> None:
    contents, tools = OF_THE_FILE[code]
    manifest = parse_manifest(contents, "s", options("strict"))
    assert len(manifest.tools) == (0 if RULES[code].breaks_spec else tools)


def test_a_tool_of_a_skill_loaded_later_wins_and_the_loss_is_said() -> None:
    manifests = [parse_manifest(json.dumps([GOOD, tool(name=name)]), name) for name in ("first", "second")]
    merged = merge_manifests([*manifests, parse_manifest(json.dumps([GOOD]), "third")])
    assert [(item.name, item.skill) for item in merged.tools] == [
        ("first", "first"),
        ("second", "second"),
        ("good", "third"),
    ]
    assert [(item.code, item.message.partition(": ")[2]) for item in merged.diagnostics] == [
        ("tool-shadowed", "'good' of 'first' gives way to that of 'third'"),
        ("tool-shadowed", "'good' of 'second' gives way to that of 'third'"),
    ]

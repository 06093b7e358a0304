"""JSON that a stranger wrote: text → plain values, bounded in bytes and depth. Pure, in linear time."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from sandbox_skills.catalog.rules import Rule
from sandbox_skills.catalog.text import SURROGATE, one_line, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = "dict[str, JsonValue]"

MAX_BYTES = 256 * 1024
"""Real manifests have a few KiB; more than this would fill a model's context by itself."""

MAX_DEPTH = 32
"""A JSON Schema takes two levels for each property: room for a dozen inside one another, none for our stack."""

MAX_KEY_SHOWN = 64
"""Characters of a key in a finding: as long as the longest name there may be."""

_TRACKED_DEPTH = 2
"""Tools stand at depth 1 in an array and at 2 in `{"tools": []}`; objects below need no line."""

# A string that never ends is one token to the end, so that no quote in it is tried again.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_HALF = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


class JsonError(Exception):
    """The text is not JSON that is taken here. Lines and columns count from 1."""

    def __init__(self, rule: Rule, problem: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(problem)
        self.rule = rule
        self.problem = problem
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class JsonDocument:
    """`lines` has, by depth, the line of each object in order; `duplicates` the keys that an object has twice.

    `halved` says that a text held half a character, which is U+FFFD in `value`.
    """

    value: JsonValue
    duplicates: tuple[str, ...] = ()
    lines: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    halved: bool = False


def read_json(contents: str | bytes, *, max_depth: int = MAX_DEPTH) -> JsonDocument:
    """Returns what the text holds; a half of a character becomes U+FFFD. Raises JsonError."""
    text = _decode(contents)
    lines = _survey(text, max_depth)
    duplicates: list[str] = []

    def build(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
        built = dict(pairs)
        if len(built) < len(pairs):
            duplicates.extend(_repeated(pairs))
        return built

    try:
        value: JsonValue = json.loads(
            text, object_pairs_hook=build, parse_constant=_no_constant, parse_float=_finite
        )
    except json.JSONDecodeError as error:
        raise JsonError(Rule.MANIFEST_NOT_JSON, error.msg, error.lineno, error.colno) from error
    except ValueError as error:
        # A number that is none in JSON, or an integer with more digits than Python converts.
        raise JsonError(Rule.MANIFEST_NOT_JSON, "a number is out of range") from error
    # Two halves that make a character are one already, and stay.
    whole = _whole(value) if _HALF.search(text) else value
    return JsonDocument(whole, tuple(dict.fromkeys(duplicates)), lines, halved=whole != value)


def _decode(contents: str | bytes) -> str:
    if len(contents) > MAX_BYTES:
        raise JsonError(Rule.MANIFEST_TOO_LARGE, f"the limit is {MAX_BYTES:,} bytes")
    if isinstance(contents, str):
        return contents.removeprefix("\ufeff")
    try:
        return contents.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = contents.count(b"\n", 0, error.start) + 1
        raise JsonError(Rule.MANIFEST_NOT_UTF8, "", line) from error


def _survey(text: str, max_depth: int) -> dict[int, tuple[int, ...]]:
    """Returns the lines on which objects start, by their depth; raises JsonError where the nesting is too deep."""
    lines: dict[int, list[int]] = {}
    depth, line, seen = 0, 1, 0
    for token in _TOKEN.finditer(text):
        char = text[token.start()]
        if char in "]}":
            depth -= 1
        if char not in "[{":
            continue
        if depth <= _TRACKED_DEPTH and char == "{":
            line += text.count("\n", seen, token.start())
            seen = token.start()
            lines.setdefault(depth, []).append(line)
        depth += 1
        if depth > max_depth:
            raise JsonError(Rule.MANIFEST_TOO_DEEP, f"the limit is {max_depth} levels")
    return {depth: tuple(found) for depth, found in lines.items()}


def _no_constant(name: str) -> JsonValue:
    raise ValueError(name)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(digits)
    return number


def _repeated(pairs: list[tuple[str, JsonValue]]) -> list[str]:
    counts = Counter(key for key, _ in pairs)
    return [one_line(key, MAX_KEY_SHOWN) for key, count in counts.items() if count > 1]


def _whole(value: JsonValue) -> JsonValue:
    """Returns `value` without halves of characters, which no request to a model could carry."""
    if isinstance(value, str):
        return SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {printable(key): _whole(item) for key, item in value.items()}
    return value

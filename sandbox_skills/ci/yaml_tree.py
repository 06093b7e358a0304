"""A safe corner of YAML with the place of every value: text → plain values. Pure and bounded.

As in the catalog nothing but text, lists and mappings is built, and aliases, anchors and tags are refused. What JSON
would call a number, a boolean or null is only made of text where a value of any kind is meant: `typed` does it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

import yaml

from sandbox_skills.errors import Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox_skills.catalog.manifest_json import JsonValue

Tree: TypeAlias = "str | list[Tree] | dict[str, Tree]"
Path: TypeAlias = "tuple[str | int, ...]"

MAX_DEPTH = 40
"""Levels of nesting: a case has ten, and a value that JSON is compared with the rest."""

MAX_CHARACTERS = 1024 * 1024
"""A file of cases that is longer holds data, which belongs into a file of its own."""

_INT = re.compile(r"[-+]?[0-9]{1,100}|0o[0-7]{1,100}|0x[0-9a-fA-F]{1,100}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,4})?")
_WORDS: dict[str, JsonValue] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
"""YAML 1.2's core schema, section 10.3: `on`, `no` and dates are text there."""


class Plain(str):
    """Text that stood without quotes, which may be meant for a number, a boolean or null."""

    __slots__ = ()


class _Loader(Protocol):
    def get_event(self) -> yaml.Event: ...


_LOADER: Callable[[str], _Loader] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


class TreeError(Exception):
    """The text is no YAML of this kind."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(str(violation))
        self.violation = violation


@dataclass(slots=True)
class PlacedTree:
    """A value, and where each part of it stands: line and column from 1, by the keys and indexes that lead there."""

    value: Tree = ""
    places: dict[Path, tuple[int, int]] = field(default_factory=dict[Path, tuple[int, int]])

    def place(self, path: Path) -> tuple[int, int]:
        """Returns where a part stands, or the nearest part above it; keys that lead nowhere are passed over."""
        known: Path = ()
        for key in path:
            if (*known, key) in self.places:
                known = (*known, key)
        return self.places.get(known, (1, 1))


def read_tree(text: str) -> PlacedTree:
    """Returns what a text says; an empty one is an empty text. Raises TreeError."""
    if len(text) > MAX_CHARACTERS:
        raise TreeError(Violation("", f"is longer than {MAX_CHARACTERS:,} characters", 1))
    try:
        return _Reader(text).tree()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise TreeError(Violation("", error.problem or error.context or "syntax error", *at)) from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise TreeError(Violation("", str(error).partition("\n")[0], 1)) from error


def typed(value: Tree) -> JsonValue:
    """Returns a value with the numbers, booleans and nulls that its text without quotes stands for."""
    if isinstance(value, dict):
        return {str(key): typed(one) for key, one in value.items()}
    if isinstance(value, list):
        return [typed(one) for one in value]
    return _scalar(value) if isinstance(value, Plain) else value


def _scalar(text: Plain) -> JsonValue:
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text, 0) if text.startswith(("0o", "0x")) else int(text)
    return float(text) if _FLOAT.fullmatch(text) else str(text)


class _Reader:
    def __init__(self, text: str) -> None:
        self._next = _LOADER(text).get_event
        self._result = PlacedTree()

    def tree(self) -> PlacedTree:
        self._next()  # start of the stream
        if not isinstance(self._next(), yaml.StreamEndEvent):
            self._result.value = self._value(self._next(), ())
            self._next()  # end of the document
            if not isinstance(end := self._next(), yaml.StreamEndEvent):
                raise _fault("there is a second document", end)
        return self._result

    def _value(self, event: yaml.Event, path: Path) -> Tree:
        self._result.places[path] = _where(event)
        if len(path) >= MAX_DEPTH:
            raise _fault(f"is nested more than {MAX_DEPTH} levels deep", event)
        if isinstance(event, yaml.AliasEvent):
            raise _fault("an alias (*name) is not read here: write the value out, or quote it", event)
        if isinstance(event, yaml.NodeEvent):
            _check(event)
        if isinstance(event, yaml.ScalarEvent):
            return event.value if event.style else Plain(event.value)
        return self._mapping(path) if isinstance(event, yaml.MappingStartEvent) else self._sequence(path)

    def _sequence(self, path: Path) -> Tree:
        items: list[Tree] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._value(event, (*path, len(items))))
        return items

    def _mapping(self, path: Path) -> Tree:
        items: dict[str, Tree] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                raise _fault("a key is not text", event)
            _check(event)
            if event.value in items:
                raise _fault(f"the key {event.value!r} is there twice", event)
            items[event.value] = self._value(self._next(), (*path, event.value))
        return items


def _check(event: yaml.NodeEvent) -> None:
    if event.anchor is not None:
        raise _fault("an anchor (&name) is not read here: delete it, or quote the text", event)
    if getattr(event, "tag", None) is not None:
        raise _fault("a tag (!name) is not read here: delete it, or quote the text", event)


def _fault(message: str, event: yaml.Event) -> TreeError:
    return TreeError(Violation("", message, *_where(event)))


def _where(event: yaml.Event) -> tuple[int, int]:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)

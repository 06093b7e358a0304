"""A safe corner of YAML: text → top-level entries whose scalars are all strings. Pure and bounded.

Works on parser events, so that nothing is resolved, expanded or built but `str`, tuples and mappings.
Aliases, anchors and tags are refused; a plain `on`, `1.10` or `2026-01-05` stays the text it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeAlias

import yaml

from sandbox_skills.catalog.diagnostics import Rule
from sandbox_skills.catalog.text import SURROGATE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Value: TypeAlias = "str | tuple[Value, ...] | Mapping[str, Value]"

MAX_DEPTH = 20
"""Levels of nesting: real frontmatter has a handful, and every reader of the value may recurse this far."""


class _Loader(Protocol):
    """What both of PyYAML's loaders can do."""

    def get_event(self) -> yaml.Event: ...


_TOO_DEEP_FOR_LIBYAML = "exceeded maximum nesting depth"
"""libyaml reads ahead of its events and stops at a depth of 1,000 before the limit here is seen."""

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})

_LOADER: Callable[[str], _Loader] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""libyaml where PyYAML was built with it: ten times as fast."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One top-level key; line and column are those of the value within the text, from 0.

    `twice` is the first key that a mapping within the value has twice: the last one counts there.
    """

    key: str
    value: Value
    line: int
    column: int
    null: bool = False
    twice: str | None = None


class YamlError(Exception):
    """The text is not YAML, or not a mapping. Lines and columns count from 0."""

    rule = Rule.YAML_INVALID

    def __init__(self, problem: str, line: int = 0, column: int = 0, *, rule: Rule | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.column = column
        self.rule = rule or self.rule


class RefusedYamlError(YamlError):
    """The text is YAML, but of a kind that is never loaded; no repair may be tried."""


def read_entries(text: str) -> list[Entry]:
    """Returns the top-level entries in order, a duplicate key as often as it stands there.

    Raises RefusedYamlError, or YamlError where a repair may help.
    """
    try:
        return _Reader(text).entries()
    except yaml.MarkedYAMLError as error:
        raise _from_library(error) from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise YamlError(str(error).partition("\n")[0]) from error


def _from_library(error: yaml.MarkedYAMLError) -> YamlError:
    mark = error.problem_mark or error.context_mark
    at = (mark.line, mark.column) if mark else (0, 0)
    if error.problem == _TOO_DEEP_FOR_LIBYAML:
        return RefusedYamlError("", *at, rule=Rule.YAML_TOO_DEEP)
    return YamlError(error.problem or error.context or "syntax error", *at)


class _Reader:
    def __init__(self, text: str) -> None:
        self._next = _LOADER(text).get_event
        self._refused: RefusedYamlError | None = None
        self._twice: str | None = None

    def entries(self) -> list[Entry]:
        self._next()  # start of the stream
        if isinstance(self._next(), yaml.StreamEndEvent):
            return []
        entries = self._top(self._next())
        self._next()  # end of the document
        end = self._next()
        if not isinstance(end, yaml.StreamEndEvent):
            raise YamlError("there is a second document", *_where(end))
        # Only YAML that is sound otherwise is refused: `*bold* text` is a slip that can be repaired.
        if self._refused:
            raise self._refused
        return entries

    def _top(self, event: yaml.Event) -> list[Entry]:
        if not isinstance(event, yaml.MappingStartEvent):
            self._value(event, 1)  # for the errors in it
            raise YamlError("there are no 'key: value' lines", *_where(event), rule=Rule.YAML_NOT_MAPPING)
        self._check(event, event.tag)
        entries: list[Entry] = []
        while not isinstance(key := self._next(), yaml.MappingEndEvent):
            name = self._key(key)
            event = self._next()
            self._twice = None
            value = self._value(event, 1)
            entries.append(Entry(name, value, *_where(event), null=_is_null(event), twice=self._twice))
        return entries

    def _key(self, event: yaml.Event) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            raise YamlError("a key is not text", *_where(event))
        return self._scalar(event)

    def _value(self, event: yaml.Event, depth: int) -> Value:
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if depth >= MAX_DEPTH:
            raise RefusedYamlError("", *_where(event), rule=Rule.YAML_TOO_DEEP)
        if isinstance(event, yaml.CollectionStartEvent):
            self._check(event, event.tag)
            return (
                self._mapping(depth) if isinstance(event, yaml.MappingStartEvent) else self._sequence(depth)
            )
        self._refuse(Rule.YAML_ALIAS, event)
        return ""

    def _sequence(self, depth: int) -> Value:
        items: list[Value] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._value(event, depth + 1))
        return tuple(items)

    def _mapping(self, depth: int) -> Value:
        items: dict[str, Value] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._key(event)
            if key in items and self._twice is None:
                self._twice = key
            items[key] = self._value(self._next(), depth + 1)
        return MappingProxyType(items)

    def _scalar(self, event: yaml.ScalarEvent) -> str:
        self._check(event, event.tag)
        value = event.value
        if not value.isascii() and SURROGATE.search(value):
            raise YamlError("an escape is not a character", *_where(event))
        return value

    def _check(self, event: yaml.NodeEvent, tag: str | None) -> None:
        if event.anchor is not None:
            self._refuse(Rule.YAML_ANCHOR, event)
        elif tag is not None:
            self._refuse(Rule.YAML_TAG, event)

    def _refuse(self, rule: Rule, event: yaml.Event) -> None:
        self._refused = self._refused or RefusedYamlError("", *_where(event), rule=rule)


def _where(event: yaml.Event) -> tuple[int, int]:
    mark = event.start_mark
    return (mark.line, mark.column) if mark else (0, 0)


def _is_null(event: yaml.Event) -> bool:
    return isinstance(event, yaml.ScalarEvent) and not event.style and event.value in _NULLS

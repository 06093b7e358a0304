"""Frontmatter entries → the fields of a skill, with what is wrong with each. Pure."""

from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from sandbox_skills.catalog.allowed_tools import parse_allowed_tools
from sandbox_skills.catalog.diagnostics import Rule
from sandbox_skills.catalog.skill import plain
from sandbox_skills.catalog.text import CONTROL, MAX_KEPT_NAME, nfkc, one_line, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.catalog.diagnostics import Findings
    from sandbox_skills.catalog.yaml_values import Entry, Value

# Characters; the three are the specification's.
MAX_NAME = 64
MAX_DESCRIPTION = 1024
MAX_COMPATIBILITY = 500

_MARKUP = re.compile(r"<[A-Za-z/!?]")


class Fields:
    """Reads one field after another from the entries; the last entry of a key counts."""

    def __init__(self, entries: list[Entry], first_line: int, found: Findings) -> None:
        self._entries: dict[str, Entry] = {}
        self._first_line = first_line
        self._found = found
        for entry in entries:
            if entry.key in self._entries:
                self._say(Rule.KEY_DUPLICATE, entry, one_line(entry.key, MAX_NAME))
            if entry.twice is not None:
                self._say(Rule.KEY_DUPLICATE, entry, one_line(f"{entry.key}.{entry.twice}", MAX_NAME))
            self._entries[entry.key] = entry

    def name(self, directory: str, *, check_directory: bool) -> str:
        """Returns the name in NFKC, or the directory's where there is none."""
        entry = self._take("name")
        fallback = nfkc(one_line(printable(directory), MAX_KEPT_NAME)) or "unnamed"
        if entry is None or entry.null or not entry.value:
            self._say(Rule.NAME_MISSING, entry)
            return fallback
        if not isinstance(entry.value, str):
            self._say(Rule.NAME_NOT_TEXT, entry)
            return fallback
        name = nfkc(one_line(entry.value, MAX_KEPT_NAME))
        if not name:
            self._say(Rule.NAME_MISSING, entry)
            return fallback
        for rule in _name_rules(name, entry.value):
            self._say(rule, entry)
        if check_directory and directory and name != nfkc(directory):
            self._say(Rule.NAME_MISMATCH, entry, f"the directory is {fallback!r}")
        return name

    def description(self) -> str:
        """Returns the description; "" where there is none, which is an error found."""
        entry = self._take("description")
        text = self._text(entry, Rule.DESCRIPTION_NOT_TEXT)
        if text is None:
            self._say(Rule.DESCRIPTION_MISSING, entry)
            return ""
        if len(text) > MAX_DESCRIPTION:
            self._say(Rule.DESCRIPTION_LENGTH, entry, f"{len(text):,}")
        if "\n" in text:
            self._say(Rule.DESCRIPTION_MULTILINE, entry)
        if _MARKUP.search(text):
            self._say(Rule.DESCRIPTION_MARKUP, entry)
        return text

    def license(self) -> str | None:
        """Returns the licence, as text whatever was written."""
        return self._text(self._take("license"), Rule.LICENSE_NOT_TEXT)

    def compatibility(self) -> str | None:
        """Returns what the skill says it needs, as text whatever was written."""
        entry = self._take("compatibility")
        text = self._text(entry, Rule.COMPATIBILITY_NOT_TEXT)
        if text is not None and len(text) > MAX_COMPATIBILITY:
            self._say(Rule.COMPATIBILITY_LENGTH, entry, f"{len(text):,}")
        return text

    def metadata(self) -> tuple[Mapping[str, str], Value | None]:
        """Returns the text view, and the value as written where it holds more than texts."""
        entry = self._take("metadata")
        if entry is None or entry.null:
            return MappingProxyType({}), None
        if isinstance(entry.value, str | tuple):
            self._say(Rule.METADATA_NOT_MAPPING, entry)
            return MappingProxyType({}), entry.value
        view = {key: _as_text(value) for key, value in entry.value.items()}
        if all(isinstance(value, str) for value in entry.value.values()):
            return MappingProxyType(view), None
        self._say(Rule.METADATA_NESTED, entry)
        return MappingProxyType(view), entry.value

    def allowed_tools(self) -> tuple[str | None, tuple[str, ...]]:
        """Returns the raw text and its tokens; a list's items are tokens as they are.

        `- Bash(git: x)` is a mapping to YAML: taken as the one text that its author meant.
        """
        entry = self._take("allowed-tools")
        if entry is None or entry.null:
            return None, ()
        if isinstance(entry.value, str):
            return entry.value, parse_allowed_tools(entry.value)
        if not isinstance(entry.value, tuple) or not all(map(_is_tool, entry.value)):
            self._say(Rule.TOOLS_NOT_TEXT, entry)
            return None, ()
        unquoted = [_as_text(item) for item in entry.value if not isinstance(item, str)]
        if unquoted:
            self._say(Rule.VALUE_QUOTED, entry, one_line(unquoted[0], MAX_NAME), field="allowed-tools")
        tokens = tuple(item for item in map(_as_text, entry.value) if item)
        return " ".join(tokens), tokens

    def extra(self) -> Mapping[str, Value]:
        """Returns what no other method took."""
        if self._entries:
            names = ", ".join(one_line(key, MAX_NAME) for key in list(self._entries)[:10])
            self._say(Rule.KEY_UNKNOWN, next(iter(self._entries.values())), names)
        return MappingProxyType({key: entry.value for key, entry in self._entries.items()})

    def _take(self, key: str) -> Entry | None:
        return self._entries.pop(key, None)

    def _text(self, entry: Entry | None, not_text: Rule) -> str | None:
        if entry is None or entry.null:
            return None
        if not isinstance(entry.value, str):
            self._say(not_text, entry)
        text = _as_text(entry.value)
        if CONTROL.search(text):
            self._say(Rule.FILE_CONTROL, entry)
            text = CONTROL.sub("", text)
        return text.strip() or None

    def _say(self, rule: Rule, entry: Entry | None, detail: str = "", *, field: str = "") -> None:
        line, column = self._first_line, None
        if entry is not None:
            line, column = line + entry.line, entry.column + 1
        self._found.add(rule, detail, field=field, line=line, column=column)


def _name_rules(name: str, written: str) -> list[Rule]:
    broken: list[Rule] = []
    if len(name) > MAX_NAME:
        broken.append(Rule.NAME_LENGTH)
    if name != name.lower() or not all(char.isalnum() or char == "-" for char in nfkc(written)):
        broken.append(Rule.NAME_CHARACTERS)
    elif not written.isascii():
        broken.append(Rule.NAME_NOT_ASCII)
    if name.startswith("-") or name.endswith("-") or "--" in name:
        broken.append(Rule.NAME_HYPHENS)
    return broken


def _is_tool(item: Value) -> bool:
    """Whether an item of a list is a tool: text, or what YAML makes of a pattern with a colon and a space in it."""
    if isinstance(item, str):
        return True
    if isinstance(item, tuple) or len(item) != 1:
        return False
    ((key, value),) = item.items()
    return "(" in key and isinstance(value, str) and value.endswith(")")


def _as_text(value: Value) -> str:
    """Text as it is; a list joined by commas; a mapping as `key: value`; deeper parts as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, tuple) and all(isinstance(item, str) for item in value):
        return ", ".join(map(str, value))
    if (
        not isinstance(value, tuple)
        and len(value) == 1
        and isinstance(only := next(iter(value.values())), str)
    ):
        return f"{next(iter(value))}: {only}"
    return json.dumps(plain(value), ensure_ascii=False)

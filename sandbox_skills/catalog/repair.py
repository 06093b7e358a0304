"""Frontmatter that is not YAML, read key by key: what stands on a line is kept, what cannot be read is dropped.

Most real YAML faults are an unquoted `: ` or a stray quote in one value; the other keys need not suffer. Pure, linear.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sandbox_skills.catalog.diagnostics import Rule
from sandbox_skills.catalog.yaml_values import Entry, RefusedYamlError, YamlError, read_entries

if TYPE_CHECKING:
    from sandbox_skills.catalog.diagnostics import Findings

MAX_BLOCKS = 256
"""Top-level keys that are repaired: each costs one run of the YAML reader, and no real file comes near."""

_KEY = re.compile(
    r"""(["']?)(?P<key>[^\W\d][\w.-]*)\1[ \t]*(?::(?=[ \t]|$)|\N{FULLWIDTH COLON})[ \t]*(?P<head>.*)"""
)
_TIGHT_KEY = re.compile(r"(?P<key>name|description):(?P<head>.*)")
_NEEDED = frozenset({"name", "description"})

_PAIR = re.compile(r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")


@dataclass(slots=True)
class _Block:
    """One top-level key line and what follows it."""

    key: str
    head: str
    line: int
    source: list[str] = field(default_factory=list[str])

    @property
    def rest(self) -> list[str]:
        return self.source[1:]


def join_surrogates(yaml: str, first_line: int, found: Findings) -> str:
    """Returns `yaml` with JSON's two-escape spelling of one character replaced by the character."""
    pair = _PAIR.search(yaml) if "\\u" in yaml else None
    if pair is None:
        return yaml
    found.add(Rule.VALUE_ESCAPES, line=first_line + yaml.count("\n", 0, pair.start()))
    return _PAIR.sub(lambda match: _character(match[1], match[2]), yaml)


def _character(high: str, low: str) -> str:
    return bytes.fromhex(high + low).decode("utf-16-be")


def repair(yaml: str, first_line: int, found: Findings) -> list[Entry]:
    """Returns what can be read of `yaml` key by key; says what was done to each broken value.

    Raises RefusedYamlError where one part is YAML of a refused kind, and YamlError where nothing can be read.
    """
    stray, blocks = _blocks(yaml)
    if not blocks:
        raise YamlError("there are no 'key: value' lines", rule=Rule.YAML_NOT_MAPPING)
    if len(blocks) > MAX_BLOCKS:
        raise YamlError(f"it has more than {MAX_BLOCKS} keys and one of them is broken")
    if stray is not None:
        found.add(Rule.VALUE_DROPPED, "text above the first key", line=first_line + stray)
    return [entry for block in blocks for entry in _read(block, first_line, found)]


def _blocks(yaml: str) -> tuple[int | None, list[_Block]]:
    """Returns the key lines with what follows each, and the line of text that belongs to none."""
    blocks: list[_Block] = []
    stray: int | None = None
    for number, line in enumerate(yaml.split("\n")):
        key = _KEY.match(line) or _TIGHT_KEY.match(line)
        if key:
            blocks.append(_Block(key["key"], key["head"].strip(), number, [line]))
        elif blocks and not line.startswith("#"):
            blocks[-1].source.append(line)
        elif stray is None and line.strip() and not line.startswith("#"):
            stray = number
    return stray, blocks


def _read(block: _Block, first_line: int, found: Findings) -> list[Entry]:
    try:
        entries = read_entries("\n".join(block.source))
        return [replace(entry, line=entry.line + block.line) for entry in entries]
    except RefusedYamlError as error:
        error.line += block.line
        raise
    except YamlError as error:
        rule = _outcome(block)
        offset = min(error.line, len(block.source) - 1)
        line = first_line + block.line + offset
        found.add(rule, error.problem, field=block.key, line=line, column=error.column + 1)
    return [] if rule is Rule.VALUE_DROPPED else [Entry(block.key, _text(block), block.line, 0)]


def _outcome(block: _Block) -> Rule:
    nested = any(line.strip() for line in block.rest)
    start = block.head[:1]
    structured = start == "{" or (start == "[" and nested)
    if start and start not in "\"'|>" and not structured:
        return Rule.VALUE_QUOTED
    return Rule.VALUE_RECOVERED if block.key in _NEEDED else Rule.VALUE_DROPPED


def _text(block: _Block) -> str:
    lines = [line.strip() for line in block.rest]
    if block.head.startswith("|"):
        return "\n".join(lines).strip()
    head = "" if block.head.startswith(">") else block.head
    return _unquote(" ".join(part for part in [head, *lines] if part))


def _unquote(text: str) -> str:
    quote = text[:1]
    if quote not in {'"', "'"}:
        return text
    inner = text[1:]
    if inner.endswith(quote) and quote not in inner[:-1]:
        return inner[:-1]
    return text if quote in inner else inner

"""SKILL.md bytes → frontmatter text and body. Pure, linear, and never an exception."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sandbox_skills.catalog.diagnostics import Rule
from sandbox_skills.catalog.text import CONTROL, SURROGATE

if TYPE_CHECKING:
    from sandbox_skills.catalog.diagnostics import Findings

MAX_FILE = 4 * 1024 * 1024
"""Bytes of a SKILL.md: the longest of 31,000 real ones has 292,000 characters."""

MAX_FRONTMATTER = 65_536
"""Characters of frontmatter: the longest real descriptions have 2,240; bounds what the YAML reader sees."""

_MAX_LINK_TEXT = 1024
"""Characters of a path that was stored as text: longer lines are prose without spaces."""

_OPEN = re.compile(r"---[ \t]*(?:\n|\Z)")
_DASHES = re.compile(r"---+[ \t]*")
_LINK_TEXT = re.compile(r"\S*(?:/|\.md)\S*")
_UTF16_STARTS = (b"\xff\xfe", b"\xfe\xff", b"-\x00-\x00", b"\x00-\x00-")


@dataclass(frozen=True, slots=True)
class Document:
    """A file cut in two. `first_line` is the line of the file on which `yaml` starts, from 1.

    `glued` is where, in the file's text, a `---` with text behind it stands in front of the closing line.
    """

    text: str
    start: int
    end: int
    body_start: int
    first_line: int
    glued: int | None = None

    @property
    def yaml(self) -> str:
        """The text between the fences."""
        return self.text[self.start : self.end]

    @property
    def body(self) -> str:
        """The Markdown after the closing fence, without blank edges."""
        return self.text[self.body_start :].strip()

    def cut_at_glued(self) -> Document | None:
        """Returns the document as closed by its glued fence, or None where it has none."""
        if self.glued is None:
            return None
        dashes = _DASHES.match(self.text, self.glued)
        assert dashes is not None
        return replace(self, end=self.glued, body_start=dashes.end(), glued=None)

    @property
    def glued_line(self) -> int | None:
        """The line of the glued fence, from 1."""
        return None if self.glued is None else self.text.count("\n", 0, self.glued) + 1


def decode(contents: str | bytes, found: Findings) -> str | None:
    """Returns the text with line feeds only and no byte order mark or NUL; None for what is not text."""
    if len(contents) > MAX_FILE:
        found.add(Rule.FILE_TOO_LARGE, f"the limit is {MAX_FILE:,} bytes")
        return None
    if isinstance(contents, bytes) and contents.startswith(_UTF16_STARTS):
        found.add(Rule.FILE_UTF16)
        return None
    text = _from_bytes(contents, found) if isinstance(contents, bytes) else _from_str(contents, found)
    text = text.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        found.add(Rule.FILE_CONTROL, "NUL", line=_line_of(text, text.index("\0")))
        text = text.replace("\0", "")
    return text


def _from_bytes(contents: bytes, found: Findings) -> str:
    try:
        return contents.decode()
    except UnicodeDecodeError as error:
        found.add(Rule.FILE_NOT_UTF8, line=contents.count(b"\n", 0, error.start) + 1)
        return contents.decode(errors="replace")


def _from_str(contents: str, found: Findings) -> str:
    half = None if contents.isascii() else SURROGATE.search(contents)
    if half is None:
        return contents
    found.add(Rule.FILE_NOT_UTF8, line=_line_of(contents, half.start()))
    return SURROGATE.sub("\N{REPLACEMENT CHARACTER}", contents)


def split(text: str, found: Findings) -> Document | None:
    """Finds the fences. Only a whole line `---` closes, and the first one does; text glued to it is said."""
    opening = _OPEN.match(text)
    blank = 0
    if opening is None:
        blank = len(text) - len(text.lstrip())
        blank = text.rfind("\n", 0, blank) + 1
        opening = _OPEN.match(text, blank) if blank else None
    if opening is None:
        found.add(_no_frontmatter(text), line=1)
        return None
    if blank:
        found.add(Rule.LEADING_BLANK, line=1)
    return _close(text, opening.end(), found)


def _close(text: str, start: int, found: Findings) -> Document | None:
    first_line = _line_of(text, start)
    closing, glued = _fences(text, start)
    if closing is not None:
        return Document(text, start, closing.start(), closing.end(), first_line, glued)
    document = Document(text, start, len(text), len(text), first_line, glued)
    cut = document.cut_at_glued()
    if cut is not None:
        found.add(Rule.GLUED_FENCE, line=document.glued_line)
    elif len(text) - start > MAX_FRONTMATTER:
        found.add(Rule.TOO_LARGE, line=first_line)
    else:
        found.add(Rule.UNCLOSED, line=first_line - 1)
    return cut


def _fences(text: str, start: int) -> tuple[re.Match[str] | None, int | None]:
    limit = start + MAX_FRONTMATTER
    glued: int | None = None
    at = start if text.startswith("---", start) else text.find("\n---", start, limit) + 1
    while at > 0:
        closing = _OPEN.match(text, at)
        if closing is not None:
            return closing, glued
        glued = at if glued is None else glued
        at = text.find("\n---", at, limit) + 1
    return None, glued


def _no_frontmatter(text: str) -> Rule:
    head = text.lstrip()
    if not head:
        return Rule.FILE_EMPTY
    if head.startswith("#"):
        return Rule.HEADING_FIRST
    if head.startswith(("```", "~~~")):
        return Rule.IN_CODE_BLOCK
    if len(head) <= _MAX_LINK_TEXT and _LINK_TEXT.fullmatch(head.rstrip()):
        return Rule.FILE_LINK_AS_TEXT
    return Rule.MISSING


def clean_yaml(yaml: str, first_line: int, found: Findings) -> str:
    """Returns frontmatter without the control characters that no YAML reader takes."""
    bad = CONTROL.search(yaml)
    if bad is None:
        return yaml
    found.add(Rule.FILE_CONTROL, line=first_line + yaml.count("\n", 0, bad.start()))
    return CONTROL.sub("", yaml)


def _line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1

"""Untrusted text made fit to keep and to show."""

from __future__ import annotations

import re
import unicodedata

_SPACE = re.compile(r"\s+")
_UNSEEN = frozenset({"Cc", "Cf", "Cs"})
"""Unicode categories that hide, reorder or break text: controls, formats, surrogates."""

CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff\ufffe\uffff]")
"""What YAML 1.1 does not allow in a stream, and no description needs."""

SURROGATE = re.compile(r"[\ud800-\udfff]")
"""Halves of a character, which no UTF-8 can spell."""

MAX_SLUG = 64
"""The specification's longest name."""

MAX_KEPT_NAME = 1024
"""Characters of the longest name that is kept or compared: sixteen times what the specification allows, so only junk
is cut. Normalising takes time quadratic in a run of combining marks: 65,000 of them five seconds, these under 1 ms."""


def nfkc(text: str) -> str:
    """Returns the compatibility form in which names are compared; text that is longer than any name as it is."""
    if text.isascii() or len(text) > MAX_KEPT_NAME:
        return text
    return unicodedata.normalize("NFKC", text)


def printable(text: str) -> str:
    """Returns `text` without surrogates, so that it can be printed and encoded; U+FFFD stands in for each."""
    return text if text.isascii() else SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


LOOKED_AT = 16
"""How many times the characters wanted of a line are looked at: a stranger's text may have millions to be left out."""


def one_line(text: str, limit: int) -> str:
    """Returns `text` on one line without invisible characters, cut to `limit` characters with an ellipsis."""
    head = text[: LOOKED_AT * limit]
    line = _SPACE.sub(" ", head).strip()
    if not (line.isascii() and line.isprintable()):
        line = "".join(c for c in line if unicodedata.category(c) not in _UNSEEN)
    if len(line) <= limit and len(head) == len(text):
        return line
    return line[: limit - 1].rstrip() + "…"


def slug(text: str) -> str:
    """Returns a stable id of lowercase letters, digits and single hyphens; "" where nothing is left."""
    folded = nfkc(text).casefold()
    words = "".join(c if c.isalnum() else "-" for c in folded).split("-")
    return "-".join(word for word in words if word)[:MAX_SLUG].rstrip("-")

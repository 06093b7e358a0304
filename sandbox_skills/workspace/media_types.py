"""The media type of a file that a stranger made and named, and whether its content is text to show. Pure.

Bytes that prove a type decide. Where they are text, of which one kind proves little against another, the name
chooses among the kinds of text. A name alone never makes bytes an image, an archive or a program.
"""

from __future__ import annotations

import json
import mimetypes
import re
from pathlib import PurePosixPath

from sandbox_skills.spec import KIB
from sandbox_skills.workspace.media_signatures import CERTAIN_IN_TEXT, SIGNED_TYPES, signature_type

HEAD_BYTES = 16 * KIB
"""How much of a file `media_type` looks at: the first entries of a zip, the whole of a short JSON text."""

PLAIN = "text/plain"
UNKNOWN = "application/octet-stream"

# Own entries where Python's table has none, differs between versions, or names what is text as if it were not.
_OWN_TYPES = {
    **{f".{name}": PLAIN for name in ("log", "ini", "cfg", "conf", "diff", "patch", "tex", "srt")},
    **{f".{name}": "text/javascript" for name in ("js", "mjs", "cjs", "jsx")},
    **{f".{name}": "text/x-typescript" for name in ("ts", "tsx", "mts", "cts")},
    **{f".{name}": "text/x-shellscript" for name in ("sh", "bash", "zsh")},
    **{f".{name}": "application/yaml" for name in ("yaml", "yml")},
    **{f".{name}": "text/markdown" for name in ("md", "markdown")},
    ".csv": "text/csv",
    ".geojson": "application/geo+json",
    ".ipynb": "application/x-ipynb+json",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".ndjson": "application/x-ndjson",
    ".py": "text/x-python",
    ".rst": "text/x-rst",
    ".rtf": "application/rtf",
    ".sql": "application/sql",
    ".svg": "image/svg+xml",
    ".toml": "application/toml",
    ".tsv": "text/tab-separated-values",
    ".xml": "application/xml",
}

# An instance begins with Python's own table; the module's functions would read the host's files too.
_TYPES = mimetypes.MimeTypes().types_map[True] | _OWN_TYPES

_TEXT_TYPES = frozenset(
    f"application/{name}"
    for name in ("json", "jsonl", "x-ndjson", "xml", "yaml", "toml", "sql", "javascript")
)
_TEXT_SUFFIXES = ("+json", "+xml", "+yaml")

_LONGEST_CHARACTER = 4
"""Bytes of the longest character in UTF-8."""

_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
"""Bytes that no text has in any single-byte encoding: what browsers take for the mark of a binary file."""

_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks of UTF-16, and of UTF-32 in the order that is in use."""

_TEXT_SIGNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"<!doctype html|<html[\s>]", re.IGNORECASE), "text/html"),
    (re.compile(r"(?:<\?xml[^>]{0,200}>\s{0,20})?(?:<!--[^>]{0,500}-->\s{0,20})?<svg[\s>]"), "image/svg+xml"),
    (re.compile(r"<\?xml\s"), "application/xml"),
    (re.compile(r"#![^\n]{0,100}\bpython"), "text/x-python"),
    (re.compile(r"#![^\n]{0,100}\bnode"), "text/javascript"),
    (re.compile(r"#![^\n]{0,100}\b(?:ba|da|z)?sh\b"), "text/x-shellscript"),
)


def media_type(name: str, head: bytes) -> str:
    """Returns the media type of a file called `name`, from its first HEAD_BYTES, `head`.

    It has no parameters, such as the encoding. An empty file has the type of text that its name says, else
    `text/plain`.
    """
    head = head[:HEAD_BYTES]
    suffix = PurePosixPath(name).suffix.lower()
    named = _TYPES.get(suffix, "")
    proven = signature_type(head, suffix)
    if is_text(head, complete=False):
        if proven in CERTAIN_IN_TEXT:
            return proven
        return named if is_text_type(named) else _unnamed_text_type(head)
    if proven is not None:
        return proven
    if is_text_type(named):
        return named if _is_legacy_text(head) else UNKNOWN
    return named if named.startswith("application/") and named not in SIGNED_TYPES else UNKNOWN


def is_text_type(media_type: str) -> bool:
    """Tells whether files of that type are text: text/*, JSON, XML (SVG too), YAML, TOML, SQL and JavaScript."""
    return media_type.startswith("text/") or media_type in _TEXT_TYPES or media_type.endswith(_TEXT_SUFFIXES)


def is_text(head: bytes, *, complete: bool) -> bool:
    """Tells whether `head` is UTF-8 without a NUL; a cut last character is fine where it is not the whole file."""
    return _decoded(head, complete=complete) is not None


def inline_text(data: bytes, media_type: str, *, complete: bool = True) -> str | None:
    """Returns `data` as text to put into a reply, None where it is not text by its type and by its bytes.

    A byte order mark is left out. Of a file that is not `complete`, a cut last character is left out too.
    """
    return _decoded(data, complete=complete) if is_text_type(media_type) else None


def _decoded(data: bytes, *, complete: bool) -> str | None:
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        cut = error.reason == "unexpected end of data" and len(data) - error.start < _LONGEST_CHARACTER
        return data[: error.start].decode("utf-8-sig") if cut and not complete else None


def _is_legacy_text(head: bytes) -> bool:
    return head.startswith(_WIDE_MARKS) or _CONTROL.search(head) is None


def _unnamed_text_type(head: bytes) -> str:
    text = (_decoded(head, complete=False) or "").lstrip()
    for pattern, sign in _TEXT_SIGNS:
        if pattern.match(text):
            return sign
    return "application/json" if text.startswith(("{", "[")) and _is_json(text) else PLAIN


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True

"""How a secret looks when a program has written it as programs do: encoded, escaped, cut into lines. Pure."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MIN_SECRET = 8
"""Characters of the shortest value that is looked for: a shorter one, and its encodings, are part of honest output."""

MIN_LINE = 16
"""Bytes of a line that is looked for by itself: the lines of a key are longer, those of its envelope may stay."""

_BASE64_WIDTHS = (76, 64)
"""Columns at which `base64` and `openssl` break lines."""

_URL_SAFE = bytes.maketrans(b"+/", b"-_")

_ESCAPE = re.compile(rb"%[0-9A-F]{2}")


def forms_of(values: Iterable[str]) -> tuple[bytes, ...]:
    """Returns every form of the values that are long enough, the longest first."""
    found = {form for value in values if len(value) >= MIN_SECRET for form in _forms(value)}
    return tuple(sorted(found, key=lambda form: (-len(form), form)))


def _forms(value: str) -> Iterator[bytes]:
    for text in dict.fromkeys((value, value.strip())):
        raw = text.encode(errors="surrogatepass")
        if len(raw) >= MIN_SECRET:
            yield from _raw(raw)
            yield from _base64(raw)
            yield from (raw.hex().encode(), raw.hex().upper().encode())
            yield from _escaped(text, raw)


def _raw(raw: bytes) -> Iterator[bytes]:
    yield raw
    yield raw.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")  # as a terminal has it
    yield from (line for line in raw.splitlines() if len(line) >= MIN_LINE)


def _base64(raw: bytes) -> Iterator[bytes]:
    """Yields what is certain of the encoding at each of its three offsets: the ends depend on what stands around."""
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + raw)
        start = (offset * 8 + 5) // 6
        certain = encoded[start : (offset + len(raw)) * 8 // 6]
        yield from (certain, certain.translate(_URL_SAFE))
    whole = base64.b64encode(raw).rstrip(b"=")
    for width in _BASE64_WIDTHS:
        lines = (whole[start : start + width] for start in range(0, len(whole), width))
        yield from (line for line in lines if len(line) >= MIN_LINE)


def _escaped(text: str, raw: bytes) -> Iterator[bytes]:
    for safe in ("", "/"):
        for encoded in (quote(raw, safe=safe), quote_plus(raw, safe=safe)):
            yield encoded.encode()
            yield _ESCAPE.sub(lambda match: match[0].lower(), encoded.encode())
    for ascii_only in (True, False):
        escaped = json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode(errors="surrogatepass")
        yield from (escaped, escaped.replace(b"/", b"\\/"))

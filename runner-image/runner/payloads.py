"""JSON from the host and to it: every field is checked before it is used."""

from __future__ import annotations

import _json
import math
import os
from itertools import chain
from typing import TYPE_CHECKING

from .refusals import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


class JsonRules:
    """What the scanner of `_json` wants to know: the rules that `json.loads` has."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = parse_constant = float
    parse_int = int
    memo: dict[str, str] = {}  # noqa: RUF012  the scanner empties it


def not_json(value: object) -> object:
    """Refuses what JSON has no word for."""
    raise TypeError(f"{type(value).__name__} is not JSON")


rules: Any = JsonRules
scan_json = _json.make_scanner(rules)
encode_json = _json.make_encoder(
    None, not_json, _json.encode_basestring_ascii, None, ":", ",", False, False, True
)


def pack(value: Mapping[str, object]) -> bytes:
    """Returns a JSON payload, in ASCII, so that a name that is no text cannot break it."""
    return "".join(encode_json(value, 0)).encode()


def unpack(payload: bytes) -> object:
    """Returns what a JSON payload without spaces around it says; raises ValueError, RecursionError."""
    text = payload.decode()
    try:
        value, end = scan_json(text, 0)
    except (StopIteration, SystemError):  # it has no error of its own while `json` is not loaded
        raise ValueError("the payload is not JSON") from None
    if end != len(text):
        raise ValueError("the payload has more than one value")
    return value


class Fields:
    """A JSON object from the host; every reading method raises Refused for a value of the wrong type."""

    def __init__(self, payload: bytes) -> None:
        try:
            self._values: Any = unpack(payload) if payload else {}
        except (ValueError, RecursionError):
            raise Refused("bad_request", "the payload is not JSON") from None
        if type(self._values) is not dict:
            raise Refused("bad_request", "the payload is not a JSON object")

    def _get(self, name: str, kind: type) -> Any:  # noqa: ANN401  each caller names the type
        value = self._values.get(name)
        if type(value) is not kind:  # JSON has no subtypes, and a bool is no number here
            raise self._wrong(name)
        return value

    @staticmethod
    def _wrong(name: str) -> Refused:
        return Refused("bad_request", f"{name} is missing or of the wrong type")

    def has(self, name: str) -> bool:
        """Tells whether the field is there and not null."""
        return self._values.get(name) is not None

    def text(self, name: str) -> str:
        """Returns a string without NUL."""
        value: str = self._get(name, str)
        if not value.isascii() or "\0" in value:
            check_texts((value,))
        return value

    def texts(self, name: str) -> list[str]:
        """Returns a list of strings."""
        values: list[str] = self._get(name, list)
        check_texts(values)
        return values

    def pairs(self, name: str) -> list[tuple[str, str]]:
        """Returns a list of pairs of strings."""
        values: list[Any] = self._get(name, list)
        if any(type(pair) is not list or len(pair) != 2 for pair in values):  # noqa: PLR2004  a pair has two
            raise Refused("bad_request", f"{name} is not a list of pairs")
        pairs = [(first, second) for first, second in values]
        check_texts(chain.from_iterable(pairs))
        return pairs

    def mapping(self, name: str) -> dict[str, str]:
        """Returns an object of strings."""
        values: dict[str, str] = self._get(name, dict)
        check_texts(chain(values, values.values()))
        return values

    def flag(self, name: str) -> bool:
        """Returns a boolean."""
        value = self._values.get(name)
        if value is not True and value is not False:
            raise self._wrong(name)
        return value

    def count(self, name: str) -> int:
        """Returns an integer that is not negative."""
        value = self._values.get(name)
        if type(value) is not int:
            raise self._wrong(name)
        if value < 0:
            raise Refused("bad_request", f"{name} is negative")
        return value

    def seconds(self, name: str) -> float:
        """Returns a finite number that is not negative."""
        value = self._values.get(name)
        if type(value) is int:
            value = float(value)
        if type(value) is not float:
            raise self._wrong(name)
        if not math.isfinite(value) or value < 0:
            raise Refused("bad_request", f"{name} is not a length of time")
        return value

    def within(self, name: str) -> Fields:
        """Returns the object inside."""
        inner = Fields(b"")
        inner._values = self._get(name, dict)
        return inner


def check_texts(values: Iterable[str]) -> None:
    """Raises Refused unless all are strings that the kernel can take; joined, which looks at all of them at once."""
    try:
        text = "".join(values)
    except TypeError:
        raise Refused("bad_request", "a text is of the wrong type") from None
    if "\0" in text:
        raise Refused("bad_request", "a text contains NUL")
    if not text.isascii():
        try:
            os.fsencode(text)
        except UnicodeEncodeError:
            raise Refused("bad_request", "a text cannot be encoded") from None

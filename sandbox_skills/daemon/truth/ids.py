"""ULIDs: their order is the order in which this process made them, also within a millisecond."""

from __future__ import annotations

import re

from ulid import ULID

_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


def new_id() -> str:
    """Returns a new id, greater than every one before it as long as the clock does not go back."""
    return str(ULID())


def is_id(text: str) -> bool:
    """Tells whether a text could be an id at all. Pure."""
    return _ULID.fullmatch(text) is not None

"""Lists in pages: a cursor says behind which row the next page begins, and means nothing to anybody else."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from fastapi import Query

from sandbox_skills.daemon.api.values import DEFAULT_PAGE, MAX_PAGE
from sandbox_skills.daemon.errors import CursorError
from sandbox_skills.daemon.truth.ids import is_id

Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="Rows of the page.")]
After = Annotated[
    str | None, Query(max_length=2048, description="`next_cursor` of the page before; absent for the first.")
]

__all__ = ["DEFAULT_PAGE", "After", "Limit", "cursor_of", "id_behind", "text_behind"]


def cursor_of(text: str) -> str:
    """Returns the cursor that says: behind this. Pure."""
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def text_behind(cursor: str | None) -> str | None:
    """Returns what a cursor was made of, None for none; raises CursorError. Pure."""
    if cursor is None:
        return None
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (UnicodeError, binascii.Error, ValueError) as error:
        raise CursorError("the cursor is none of this list", hint="begin with the first page") from error


def id_behind(cursor: str | None) -> str | None:
    """Returns the id that a cursor was made of, None for none; raises CursorError. Pure."""
    text = text_behind(cursor)
    if text is not None and not is_id(text):
        raise CursorError("the cursor is none of this list", hint="begin with the first page")
    return text

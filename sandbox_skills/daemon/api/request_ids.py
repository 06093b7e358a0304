"""Every request has an id: the client's own where it is a decent one, and every answer tells it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ulid import ULID

if TYPE_CHECKING:
    from starlette.types import Scope

HEADER = b"x-request-id"

_DECENT = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
"""What may stand in a log and in a header as it is; longer ones than any tracer makes are none."""


def request_id_of(scope: Scope) -> str:
    """Returns the id of a request; a new one where the request came by another way."""
    found: str | None = scope.get("state", {}).get("request_id")
    return found or str(ULID())


def chosen_id(scope: Scope) -> str:
    """Returns what a request is to be called."""
    given = next((value for name, value in scope["headers"] if name == HEADER), b"")
    return given.decode() if _DECENT.fullmatch(given) else str(ULID())

"""Lists, a page at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from sandbox_skills.client.connection import Connection, Request
from sandbox_skills.client.json_values import objects_of, read, text_at

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

T = TypeVar("T")


async def pages(
    connection: Connection,
    path: str,
    kind: type[T],
    query: Mapping[str, str | int | bool | None] | None = None,
) -> AsyncGenerator[T]:
    """Yields every item of a list; a filter that is None is not given. Pages are fetched as they are needed."""
    given: dict[str, str | int | bool] = {
        name: value for name, value in (query or {}).items() if value is not None
    }
    while True:
        page = await connection.json(Request("GET", path, query=given))
        for item in objects_of(page.get("items")):
            yield read(kind, item)
        cursor = text_at(page, "next_cursor")
        if not cursor:
            return
        given["after"] = cursor

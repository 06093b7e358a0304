"""Reading a server's JSON: of the type that is asked for, or nothing. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from sandbox_skills.client.errors import ServerAnswerError

if TYPE_CHECKING:
    from collections.abc import Mapping

JsonObject: TypeAlias = dict[str, object]

T = TypeVar("T")

MAX_SHOWN = 200
"""Characters of an answer that is shown in an error: enough to see whose page it is."""


def object_in(data: bytes) -> JsonObject | None:
    """Returns the object that a body holds, None for anything else."""
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return cast("JsonObject", value) if isinstance(value, dict) else None


def object_of(value: object) -> JsonObject:
    """Returns an object, an empty one for anything else."""
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def objects_of(value: object) -> list[JsonObject]:
    """Returns the objects of a list, none for anything else."""
    found = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("JsonObject", one) for one in found if isinstance(one, dict)]


def text_at(values: Mapping[str, object], key: str) -> str:
    """Returns a text, "" for anything else."""
    value = values.get(key)
    return value if isinstance(value, str) else ""


def number_at(values: Mapping[str, object], key: str) -> int | None:
    """Returns a whole number, None for anything else."""
    value = values.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def texts_at(values: Mapping[str, object], key: str) -> tuple[str, ...]:
    """Returns the texts of a list, none for anything else."""
    value = values.get(key)
    found = cast("list[object]", value) if isinstance(value, list) else []
    return tuple(one for one in found if isinstance(one, str))


def read(kind: type[T], value: object) -> T:
    """Returns the value as a `kind`; raises ServerAnswerError where it is none. Other fields are passed over."""
    try:
        return _adapter(kind).validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        shown = str(first["input"])[:MAX_SHOWN]
        raise ServerAnswerError(
            f"the server's answer is no {kind.__name__.lower()}: {place}: {first['msg']} ({shown})",
            hint="is it sandbox-skills, and of a version that fits?",
        ) from error


def _adapter(kind: type[T]) -> TypeAdapter[T]:
    made = _ADAPTERS.get(kind)
    if made is None:
        made = _ADAPTERS[kind] = TypeAdapter(kind)
    return cast("TypeAdapter[T]", made)


_ADAPTERS: dict[object, object] = {}

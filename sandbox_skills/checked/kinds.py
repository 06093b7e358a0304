"""Kinds of values, for annotations: what is meant by a size or a number of seconds."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from pydantic import BeforeValidator, ByteSize, Field, TypeAdapter

Count = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@cache
def _byte_size() -> TypeAdapter[ByteSize]:
    return TypeAdapter(ByteSize)


def _bytes(value: object) -> int:
    return _byte_size().validate_python(value)


Size = Annotated[int, BeforeValidator(_bytes), Field(gt=0)]
"""Bytes, as a number or as text such as `64KiB`."""

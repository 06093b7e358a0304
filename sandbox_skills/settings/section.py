"""What sections of settings are made of."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ByteSize, ConfigDict, Field, TypeAdapter


def _absolute(path: Path) -> Path:
    if not path.is_absolute() or "\0" in str(path):
        raise ValueError("must be an absolute path")
    return path


AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
Size = Annotated[int, BeforeValidator(TypeAdapter(ByteSize).validate_python), Field(gt=0)]
"""Bytes, as a number or as text such as `256MiB`."""
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(gt=0)]


def words(value: object) -> object:
    """Returns the words of a list that was given as one text, as a variable is; another value as it is."""
    return [word for word in value.replace(",", " ").split() if word] if isinstance(value, str) else value


class Section(BaseModel):
    """A group of settings; a name that it does not have is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

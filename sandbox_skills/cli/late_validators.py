"""Parameters whose validators are made when a value needs one: they are pydantic's, which takes 200 ms to come."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard, TypeVar, cast

from typer._coercion import RuntimeParam
from typer._param_types import coerce_cli_path
from typer.core import TyperArgument, TyperOption

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typer._click import Command, Context
    from typer._click.core import Parameter
    from typer.core import _TyperParameter  # pyright: ignore[reportPrivateUsage]  # the name that overriding needs

Made = TypeVar("Made", bound="Command")


def with_late_validators(made: Made) -> Made:
    """Returns the command, none of whose parameters makes a validator that its value has no need of."""
    vars(made)["get_params"] = partial(_parameters, made.get_params)
    return made


def _parameters(usual: Callable[[Context], list[Parameter]], context: Context) -> list[Parameter]:
    found = usual(context)
    for one in found:
        if isinstance(one, TyperOption | TyperArgument) and "get_runtime_param" not in vars(one):
            vars(one)["get_runtime_param"] = partial(PlainValues.of, one, one.get_runtime_param)
    return found


@dataclass(frozen=True)
class PlainValues(RuntimeParam):
    """Takes plain words and paths as the library does, and has it make its validator for anything else."""

    usual: Callable[[], RuntimeParam]

    @classmethod
    def of(cls, one: TyperOption | TyperArgument, usual: Callable[[], RuntimeParam]) -> PlainValues:
        """Returns what takes the values of a parameter; `usual` has the library make its validator."""
        kind = one.type_descriptor
        return cls(kind.parameter_info, kind.annotation, usual)

    def _coerce_value(self, value: object, param: _TyperParameter, ctx: Context) -> object:
        if self.annotation is str and _is_plain(value):
            return value
        if self.annotation is Path and _is_plain(value):
            return self._path(value, param, ctx)
        if self.annotation == list[Path] and isinstance(value, list | tuple):
            items = cast("Sequence[object]", value)
            plain = [item for item in items if _is_plain(item)]
            if len(plain) == len(items):
                return [self._path(item, param, ctx) for item in plain]
        return self.usual()._coerce_value(value, param, ctx)  # noqa: SLF001  # it is one of them

    def _path(self, value: str, param: _TyperParameter, ctx: Context) -> object:
        return coerce_cli_path(Path(value), self.parameter_info, path_type=Path, param=param, ctx=ctx)


def _is_plain(value: object) -> TypeGuard[str]:
    """Tells whether a value is text that can be a path: what the library says of others comes from its validator."""
    return isinstance(value, str) and "\0" not in value

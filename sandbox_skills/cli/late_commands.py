"""The tree of commands, where each is made when it is asked for: making all of them takes longer than `list` works."""

from __future__ import annotations

import copy
import inspect
from collections import UserDict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard, TypeVar, cast

import typer.main
from typer._coercion import RuntimeParam
from typer._param_types import coerce_cli_path
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.models import TyperInfo

from sandbox_skills.cli.options import takes_global_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from typer._click import Command, Context, HelpFormatter
    from typer._click.core import Parameter
    from typer.core import _TyperParameter  # pyright: ignore[reportPrivateUsage]  # the name that overriding needs
    from typer.models import CommandInfo

Made = TypeVar("Made", bound="Command")


def program(app: typer.Typer) -> TyperGroup:
    """Returns the program of an application, whose commands all take the global options."""
    return _group(TyperInfo(app))


class _Group(TyperGroup):
    """A group that tells of its commands without making them."""

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Writes the names of the commands, each with the first words of its help."""
        outlines = TyperGroup(commands=self.commands.outlines() if isinstance(self.commands, _Late) else [])
        outlines.format_commands(ctx, formatter)


class _Late(UserDict[str, "Command"]):
    """Commands by their names, in the order of the help."""

    def __init__(self, app: typer.Typer) -> None:
        super().__init__()
        self._infos = dict(_infos(app))

    def __getitem__(self, name: str) -> Command:
        if name not in self.data:
            info = self._infos[name]
            self.data[name] = _group(info) if isinstance(info, TyperInfo) else _command(info)
        return self.data[name]

    def __contains__(self, name: object) -> bool:
        return name in self._infos

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def outlines(self) -> list[Command]:
        """Returns commands that have a name and a help, and nothing else."""
        return [TyperCommand(name=name, help=_help(info)) for name, info in self._infos.items()]


def _infos(app: typer.Typer) -> Iterator[tuple[str, CommandInfo | TyperInfo]]:
    """Yields what an application registers; the commands of a group without a name are its own."""
    for command in app.registered_commands:
        if command.callback is not None:
            yield command.name or typer.main.get_command_name(command.callback.__name__), command
    for group in app.registered_groups:
        if isinstance(group.name, str):
            yield group.name, group
        elif group.typer_instance is not None:
            yield from _infos(group.typer_instance)


def _help(info: CommandInfo | TyperInfo) -> str | None:
    if isinstance(info, TyperInfo):
        return typer.main.solve_typer_info_help(info)
    return info.help or inspect.getdoc(info.callback)


def _command(info: CommandInfo) -> Command:
    own = copy.copy(info)
    own.callback = takes_global_options(info.callback) if info.callback is not None else None
    made = typer.main.get_command_from_info(own, pretty_exceptions_short=True, rich_markup_mode=None)
    return _sparing(made)


def _group(info: TyperInfo) -> TyperGroup:
    app = info.typer_instance
    assert app is not None  # none is registered without
    own, bare = copy.copy(info), copy.copy(app)
    bare.registered_commands, bare.registered_groups = [], []
    own.typer_instance, own.cls = bare, _Group
    group = typer.main.get_group_from_info(
        own, pretty_exceptions_short=True, suggest_commands=True, rich_markup_mode=None
    )
    group.commands = _Late(app)
    return _sparing(group)


def _sparing(made: Made) -> Made:
    """Has none of its parameters make a validator that nothing needs: pydantic takes 200 ms to come."""
    vars(made)["get_params"] = partial(_parameters, made.get_params)
    return made


def _parameters(usual: Callable[[Context], list[Parameter]], context: Context) -> list[Parameter]:
    found = usual(context)
    for one in found:
        if isinstance(one, TyperOption | TyperArgument) and "get_runtime_param" not in vars(one):
            vars(one)["get_runtime_param"] = partial(_Sparing.of, one, one.get_runtime_param)
    return found


@dataclass(frozen=True)
class _Sparing(RuntimeParam):
    """Takes plain words and paths as the library does, and has it make its validator for anything else."""

    usual: Callable[[], RuntimeParam]

    @classmethod
    def of(cls, one: TyperOption | TyperArgument, usual: Callable[[], RuntimeParam]) -> _Sparing:
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
    """Tells whether a value is text that no rule refuses, as one does bytes that are no UTF-8."""
    return isinstance(value, str) and value.isascii() and "\0" not in value

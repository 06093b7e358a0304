"""The tree of commands, where each is made when it is asked for: making all of them takes longer than `list` works."""

from __future__ import annotations

import copy
import inspect
from collections import UserDict
from typing import TYPE_CHECKING

import typer.main
from typer.core import TyperCommand, TyperGroup
from typer.models import TyperInfo

from sandbox_skills.cli.late_validators import with_late_validators
from sandbox_skills.cli.options import takes_global_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typer._click import Command, Context, HelpFormatter
    from typer.models import CommandInfo


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
    return with_late_validators(made)


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
    return with_late_validators(group)

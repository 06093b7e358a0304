"""The options that hold for every command, which may stand before a command's name and after it."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sandbox_skills.settings import Settings

SkillsOption = Annotated[
    list[Path] | None,
    typer.Option("--skills", metavar="DIR", help="A folder of skills; can be repeated, the first one wins."),
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="The settings file to read.")
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine", metavar="NAME", help="docker, bubblewrap, or fake: a dry run; local, see below."
    ),
]
AcceptOption = Annotated[
    bool,
    typer.Option(
        "--accept-no-isolation", help="With --engine local: run a skill as you, with all that you may do."
    ),
]

ServerOption = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="URL", help="A daemon that does it, instead of server.url; '' is this machine."
    ),
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]

NewFileOption = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where to write it; else to stdout.")
]
ReplaceOption = Annotated[bool, typer.Option("--force", help="Replace a FILE that is there.")]
EveryVersionOption = Annotated[bool, typer.Option("--all", help="Every version of it.")]


@dataclass(slots=True)
class GlobalOptions:
    """What holds for every command. `as_json` is whether the command was asked for JSON, errors included."""

    skills: tuple[Path, ...] = ()
    config: Path | None = None
    engine: str | None = None
    accept_no_isolation: bool = False
    as_json: bool = False

    def take(
        self,
        skills: SkillsOption = None,
        config: ConfigOption = None,
        engine: EngineOption = None,
        accept_no_isolation: AcceptOption = False,
    ) -> None:
        """Adds what was given in one more place: folders come after those before, a later word wins otherwise."""
        self.skills += tuple(skills or ())
        self.config = config or self.config
        self.engine = engine or self.engine
        self.accept_no_isolation |= accept_no_isolation

    def settings(self, overrides: Mapping[str, object] | None = None) -> Settings:
        """Returns the settings in force; options of the command line win."""
        from sandbox_skills.settings import load_settings  # noqa: PLC0415  # 200 ms that `--help` need not pay

        given = {
            "skills.roots": self.skills or None,
            "engine": self.engine,
            "accept_no_isolation": self.accept_no_isolation or None,
            **(overrides or {}),
        }
        return load_settings(given, config=self.config)


def options_of(context: typer.Context, as_json: bool) -> GlobalOptions:
    """Returns the global options of a command that has `--json` itself."""
    options: GlobalOptions = context.obj
    options.as_json = as_json
    return options


GLOBAL_PARAMETERS = tuple(
    parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    for parameter in inspect.signature(GlobalOptions.take, eval_str=True).parameters.values()
    if parameter.name != "self"
)


def takes_global_options(command: Callable[..., int]) -> Callable[..., int]:
    """Lets a command have the global options after its name as well: that is where people write them."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    parameters = [*(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own), *GLOBAL_PARAMETERS]

    @functools.wraps(command)
    def with_global_options(**values: Any) -> int:  # noqa: ANN401  # whatever the command takes
        given = {one.name: values.pop(one.name) for one in GLOBAL_PARAMETERS}
        options: GlobalOptions = values["context"].obj
        options.take(**given)
        return command(**values)

    # The command line is made from these two.
    with_global_options.__dict__["__signature__"] = inspect.Signature(parameters)
    with_global_options.__annotations__ = {one.name: one.annotation for one in parameters}
    return with_global_options


def asks_for_json(arguments: Sequence[str]) -> bool:
    """Whether a command line asks for JSON, as far as that shows before it is understood."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in own

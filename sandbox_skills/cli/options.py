"""The options that stand before a command's name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sandbox_skills.settings import Settings


@dataclass(slots=True)
class GlobalOptions:
    """What holds for every command. `as_json` is whether the command was asked for JSON, errors included."""

    skills: tuple[Path, ...] = ()
    config: Path | None = None
    engine: str | None = None
    as_json: bool = False

    def settings(self, overrides: Mapping[str, object] | None = None) -> Settings:
        """Returns the settings in force; options of the command line win."""
        from sandbox_skills.settings import load_settings  # noqa: PLC0415  # 200 ms that `--help` need not pay

        given = {"skills.roots": self.skills or None, "engine": self.engine, **(overrides or {})}
        return load_settings(given, config=self.config)


def asks_for_json(arguments: Sequence[str]) -> bool:
    """Whether a command line asks for JSON, as far as that shows before it is understood."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in own

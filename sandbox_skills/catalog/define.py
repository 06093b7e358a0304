"""Tools that are made and removed while a program runs. Blocking.

A persistent one is a skill in the writable skills root, any other one in a directory that goes with its provider.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.catalog.define_arguments import DEFINE_TOOL, skill_name
from sandbox_skills.catalog.define_files import skill_files
from sandbox_skills.catalog.define_store import reading, writing
from sandbox_skills.catalog.lock_file import unwritable
from sandbox_skills.catalog.manifest import TOOL_NAME
from sandbox_skills.catalog.text import one_line
from sandbox_skills.catalog.tool_spec import MAX_TOOL_NAME
from sandbox_skills.directories import owned_directory, remove_tree, sweep_owned
from sandbox_skills.errors import ToolDefinitionError, ToolNotFoundError, ToolProtectedError, Violation

if TYPE_CHECKING:
    from collections.abc import Generator

    from sandbox_skills.catalog.define_arguments import ToolDefinition
    from sandbox_skills.catalog.define_store import SkillReader
    from sandbox_skills.catalog.tool_spec import ToolSpec

PREFIX = "sandbox-skills-tools-"
"""Names a provider's directory: it may lie among those of every other program."""


@dataclass(frozen=True, slots=True)
class DefinedTool:
    """A tool that was made; `directory` is that of its skill, `replaced` says that one of its name was there."""

    tool: ToolSpec
    directory: Path
    persistent: bool
    replaced: bool


@contextmanager
def defined_tools(root: Path | None, *, temporary: Path | None = None) -> Generator[DefinedTools]:
    """Gives the tools of one provider; those that are not persistent are gone afterwards.

    `root` is the writable skills root, None where there is none. `temporary` is where the other directory is made,
    by default the system's place for such; what killed providers have left there is removed first. Raises
    SettingsError where it cannot be written.
    """
    place = temporary or Path(tempfile.gettempdir())
    with suppress(OSError):  # the next provider tries again
        sweep_owned(place, PREFIX)
    with ExitStack() as owned:
        try:
            directory = owned.enter_context(owned_directory(place, PREFIX))
        except OSError as error:
            raise unwritable(place, error) from error
        yield DefinedTools(root, directory)


def sweep_defined_tools(temporary: Path | None = None) -> list[str]:
    """Removes what killed providers have left of tools that were not persistent; returns the names of the directories.

    `temporary` is as for `defined_tools`. Raises OSError where it cannot be listed.
    """
    return sweep_owned(temporary or Path(tempfile.gettempdir()), PREFIX)


class DefinedTools:
    """Makes and removes tools. Safe to use from several threads, and processes may share the root."""

    def __init__(self, root: Path | None, temporary: Path) -> None:
        self._root = root
        self._temporary = temporary

    def apart(self, owner: str) -> DefinedTools:
        """Returns those of one owner: persistent ones are made in the same root, all others are its alone. Pure."""
        return DefinedTools(self._root, self._own(owner))

    def forget(self, owner: str) -> None:
        """Removes what one owner has made that is not persistent; nothing is fine."""
        with suppress(OSError):  # what cannot be removed goes with the provider
            remove_tree(self._own(owner))

    def _own(self, owner: str) -> Path:
        return self._temporary / hashlib.sha256(owner.encode(errors="surrogatepass")).hexdigest()[:32]

    @property
    def roots(self) -> tuple[Path, ...]:
        """The directories to scan for the skills made here; the later one counts."""
        return (self._temporary,) if self._root is None else (self._root, self._temporary)

    def define(self, definition: ToolDefinition) -> DefinedTool:
        """Makes a tool, in place of the one of its name if that was made here too.

        Raises ToolProtectedError where a skill of that name was not made at run time or was changed since,
        ToolDefinitionError where it holds another tool or there is no root, SettingsError as `writing` does.
        """
        tool = definition.tool
        place = self._root if definition.persistent else self._temporary
        if place is None:
            wrong = Violation("persistent", "there is no directory of skills that can be written")
            raise ToolDefinitionError(DEFINE_TOOL.name, [wrong], hint="Define it without persistent.")
        if self._root is not None and self._root.is_dir():
            with reading(self._root) as reader:
                _check_free(reader, tool)
        with writing(place) as writer:
            _check_free(writer, tool)
            replaced = writer.exists(tool.skill)
            writer.put(tool.skill, skill_files(definition))
        if definition.persistent:
            _remove_from(self._temporary, tool.name)  # it would count before the new one
        return DefinedTool(tool, place / tool.skill, definition.persistent, replaced)

    def remove(self, name: str) -> None:
        """Removes a tool that was made here or, persistent, by an earlier provider.

        Raises ToolNotFoundError where there is none, ToolProtectedError where the skill is not one made so.
        """
        shown = repr(one_line(name, MAX_TOOL_NAME))
        if len(name) > MAX_TOOL_NAME or not TOOL_NAME.fullmatch(name):
            raise ToolNotFoundError(f"{shown} is not the name of a tool")
        removed = [_remove_from(root, name) for root in self.roots if _has(root, name)]
        if any(removed):
            return
        if removed:
            raise ToolProtectedError(f"the tool {shown} was not made by define_tool, or was changed since")
        raise ToolNotFoundError(f"no tool {shown} was made by define_tool")


def made_at_run_time(directory: Path) -> bool:
    """Whether a skill is just what `define_tool` wrote: code that a model wrote, and nobody has looked at since."""
    try:
        with reading(directory.parent) as reader:
            return reader.tool_of(directory.name) is not None
    except OSError:
        return False


def _has(root: Path, name: str) -> bool:
    return os.path.lexists(root / skill_name(name))


def _check_free(reader: SkillReader, tool: ToolSpec) -> None:
    if not reader.exists(tool.skill):
        return
    made_for = reader.tool_of(tool.skill)
    if made_for is None:
        raise ToolProtectedError(
            f"the skill {tool.skill!r} was not made by define_tool, or was changed since",
            hint="Choose another name.",
        )
    if made_for != tool.name:
        wrong = Violation("name", f"the skill {tool.skill!r} already holds the tool {made_for!r}")
        raise ToolDefinitionError(DEFINE_TOOL.name, [wrong], hint="Choose another name.")


def _remove_from(root: Path, name: str) -> bool:
    with writing(root) as writer:
        made = writer.tool_of(skill_name(name)) == name
        if made:
            writer.remove(skill_name(name))
    return made

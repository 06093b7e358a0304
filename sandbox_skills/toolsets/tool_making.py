"""`define_tool` and `remove_tool` for one tenant: what a model makes is a skill, among those it may see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.catalog import (
    LENIENT,
    REMOVE_TOOL,
    Catalog,
    SkillRoot,
    check_call,
    made_at_run_time,
    read_definition,
)
from sandbox_skills.catalog.builtin_names import BUILTIN_TOOLS
from sandbox_skills.errors import ToolNotFoundError, ToolProtectedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.catalog import DefinedTool, DefinedTools, SkillSpec, ToolDefinition
    from sandbox_skills.toolsets.base import ToolCall
    from sandbox_skills.toolsets.declared import DeclaredTool
    from sandbox_skills.toolsets.offered import OfferedSkills


class ToolMaking:
    """Makes and removes tools in `defined`, which whoever entered it owns. Blocking.

    The tools made here are the tenant's whatever skills he is offered; those of earlier times are skills like others.
    """

    def __init__(self, defined: DefinedTools, offered: OfferedSkills, *, tenant: str) -> None:
        self.tenant = tenant
        self._defined = defined
        self._offered = offered
        roots = [SkillRoot(str(root)) for root in defined.roots]
        self._catalog = Catalog(roots, replace(LENIENT, precedence="last"))
        self._made: frozenset[str] = frozenset()

    def skills(self) -> tuple[SkillSpec, ...]:
        """Returns the skills that are offered, and after them those of the tools that were made here."""
        offered = self._offered.list()
        if not self._made:
            return offered
        known = {spec.dir for spec in offered}
        mine = (spec for spec in self._catalog.list() if spec.name in self._made and spec.dir not in known)
        return (*offered, *mine)

    def define(
        self, call: ToolCall, visible: Mapping[str, DeclaredTool]
    ) -> tuple[DefinedTool, ToolDefinition]:
        """Makes the tool that a call asks for; raises RequestError as `read_definition` and `define` do.

        Taken are the names of tools and skills that were not made at run time, and of skills that the model may not
        see, so that it replaces nothing behind anybody's back.
        """
        reserved = {name for name, one in visible.items() if not made_at_run_time(Path(one.skill.dir))}
        definition = read_definition(
            call.arguments, reserved=BUILTIN_TOOLS | reserved, skills=self._taken_skills()
        )
        made = self._defined.define(definition)
        self._made |= {made.tool.skill}
        return made, definition

    def remove(self, call: ToolCall, visible: Mapping[str, DeclaredTool]) -> str:
        """Removes a tool that define_tool made and returns its name; raises ToolProtectedError for any other."""
        check_call(REMOVE_TOOL, call.arguments)
        name = call.named("name")
        if name in BUILTIN_TOOLS:
            raise ToolProtectedError(f"{name} is a built-in tool, which cannot be removed")
        if name not in visible:
            raise ToolNotFoundError(
                f"no tool is named {name[:64]!r}", hint=_removable(visible) or "There is nothing to remove."
            )
        skill = visible[name].skill
        if not made_at_run_time(Path(skill.dir)):
            raise ToolProtectedError(
                f"{name} belongs to the skill {skill.name!r}, which define_tool did not make"
            )
        self._defined.remove(name)
        self._made -= {skill.name}
        return name

    def _taken_skills(self) -> frozenset[str]:
        seen = {spec.dir for spec in self.skills()}
        return frozenset(
            spec.name
            for spec in self._offered.source.list()
            if spec.dir not in seen or not made_at_run_time(Path(spec.dir))
        )


def _removable(visible: Mapping[str, DeclaredTool]) -> str:
    names = [name for name, one in visible.items() if made_at_run_time(Path(one.skill.dir))]
    return f"Those that can be removed are: {', '.join(names)}." if names else ""

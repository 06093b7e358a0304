"""`define_tool` and `remove_tool` for one tenant: what a model makes is a skill, which its conversation sees."""

from __future__ import annotations

import threading
from collections import OrderedDict
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
from sandbox_skills.errors import ToolDefinitionError, ToolNotFoundError, ToolProtectedError, Violation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.catalog import DefinedTool, DefinedTools, SkillSpec, ToolDefinition
    from sandbox_skills.toolsets.base import Conversation, ToolCall
    from sandbox_skills.toolsets.declared import DeclaredTool
    from sandbox_skills.toolsets.offered import OfferedSkills


MAX_MADE = 100
"""Tools that one conversation may have made: more than a model can choose among, and they lie on the host."""


MAX_CONVERSATIONS = 1_000
"""Conversations whose tools are kept, of one tenant: a folder each. Those not asked for longest go first."""


class _Made:
    """What one conversation has made: the names of the skills, and where they lie."""

    def __init__(self, defined: DefinedTools) -> None:
        self.defined = defined
        self.names: frozenset[str] = frozenset()
        roots = [SkillRoot(str(root)) for root in defined.roots]
        self._catalog = Catalog(roots, replace(LENIENT, precedence="last"))

    def skills(self) -> tuple[SkillSpec, ...]:
        return tuple(spec for spec in self._catalog.list() if spec.name in self.names)


class ToolMaking:
    """Makes and removes tools in `defined`, which whoever entered it owns. Blocking; safe to use from several threads.

    The tools made here are their conversation's whatever skills it is offered, and no other's; those of earlier times
    are skills like others. They end with MAX_CONVERSATIONS others that made some since: persistent ones stay skills.
    """

    def __init__(self, defined: DefinedTools, offered: OfferedSkills, *, tenant: str) -> None:
        self.tenant = tenant
        self._defined = defined
        self._offered = offered
        self._lock = threading.Lock()
        self._made: OrderedDict[str, _Made] = OrderedDict()

    def made_in(self, conversation: Conversation) -> object | None:
        """Returns what stands for the tools that were made in a conversation as long as some are there; else None."""
        return self._made.get(conversation.id)

    def skills(self, conversation: Conversation) -> tuple[SkillSpec, ...]:
        """Returns the skills of the tools that were made in a conversation."""
        with self._lock:
            made = self._made.get(conversation.id)
            if made is None:
                return ()
            self._made.move_to_end(conversation.id)
        return made.skills()

    def define(
        self, call: ToolCall, visible: Mapping[str, DeclaredTool], conversation: Conversation
    ) -> tuple[DefinedTool, ToolDefinition]:
        """Makes the tool that a call asks for; raises RequestError as `read_definition` and `define` do.

        Taken are the names of tools and skills that were not made at run time, and of skills that the model may not
        see, so that it replaces nothing behind anybody's back.
        """
        reserved = {name for name, one in visible.items() if not made_at_run_time(Path(one.skill.dir))}
        definition = read_definition(
            call.arguments, reserved=BUILTIN_TOOLS | reserved, skills=self._taken_skills(conversation)
        )
        with self._lock:
            mine = self._made.get(conversation.id) or self._new(conversation)
            if len(mine.names | {definition.tool.skill}) > MAX_MADE:
                wrong = Violation("name", f"there are {MAX_MADE} tools of this conversation already")
                raise ToolDefinitionError(call.name, [wrong], hint="Remove one first.")
            made = mine.defined.define(definition)
            mine.names |= {made.tool.skill}
            self._keep(conversation, mine)
        return made, definition

    def remove(self, call: ToolCall, visible: Mapping[str, DeclaredTool], conversation: Conversation) -> str:
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
        with self._lock:
            mine = self._made.get(conversation.id) or self._new(conversation)
            mine.defined.remove(name)
            mine.names -= {skill.name}
            self._keep(conversation, mine)
        return name

    def _keep(self, conversation: Conversation, mine: _Made) -> None:
        """Remembers what a conversation has made; of too many, what was asked for longest ago is removed."""
        self._made.pop(conversation.id, None)
        if mine.names:
            self._made[conversation.id] = mine
        else:
            self._defined.forget(conversation.id)
        while len(self._made) > MAX_CONVERSATIONS:
            gone, _ = self._made.popitem(last=False)
            self._defined.forget(gone)

    def _new(self, conversation: Conversation) -> _Made:
        return _Made(self._defined.apart(conversation.id))

    def _taken_skills(self, conversation: Conversation) -> frozenset[str]:
        seen = {spec.dir for spec in (*self._offered.list(), *self.skills(conversation))}
        return frozenset(
            spec.name
            for spec in self._offered.source.list()
            if spec.dir not in seen or not made_at_run_time(Path(spec.dir))
        )


def _removable(visible: Mapping[str, DeclaredTool]) -> str:
    names = [name for name, one in visible.items() if made_at_run_time(Path(one.skill.dir))]
    return f"Those that can be removed are: {', '.join(names)}." if names else ""

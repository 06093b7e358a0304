"""The skills that one agent is offered: those its owner names, and never one that nobody vouches for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sandbox_skills.catalog import create_skill_registry
from sandbox_skills.catalog.text import one_line
from sandbox_skills.errors import SkillNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox_skills.catalog import SkillSpec

_MAX_ASKED = 128
"""Characters of an unknown name that are compared or shown: twice the longest name there may be."""


class SkillSource(Protocol):
    """Where skills are looked up, as `catalog.Catalog` does. Blocking."""

    def list(self) -> tuple[SkillSpec, ...]: ...

    def get(self, name: str) -> SkillSpec | None: ...


def _any(_spec: SkillSpec) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class OfferedSkills:
    """Skills as a model may know them. Blocking, as the source is.

    `include` None means every one, `exclude` counts after it; both hold names or ids. Skills that hide from models,
    skills whose root nobody named, and those that `admits` refuses are never offered.
    """

    source: SkillSource
    include: frozenset[str] | None = None
    exclude: frozenset[str] = frozenset()
    admits: Callable[[SkillSpec], bool] = _any

    def list(self) -> tuple[SkillSpec, ...]:
        """Returns the offered skills as they are now, in the order they were found."""
        return tuple(spec for spec in self.source.list() if self._offers(spec))

    def names(self) -> tuple[str, ...]:
        """Returns their names."""
        return tuple(spec.name for spec in self.list())

    def require(self, name: str) -> SkillSpec:
        """Returns the offered skill of that name or id.

        Raises SkillNotFoundError with near names; the text is the same for a skill that is not offered.
        """
        spec = self.source.get(name)
        if spec is not None and self._offers(spec):
            return spec
        near = create_skill_registry(self.list()).near(name)
        hint = f"Did you mean {' or '.join(near)}?" if near else self._all()
        raise SkillNotFoundError(f"no skill is named {one_line(name, _MAX_ASKED)!r}", hint=hint, near=near)

    def canonical(self, name: str) -> str:
        """Returns the own name of a skill that goes by `name` or has it as its id, and any other text as it is."""
        spec = self.source.get(name) or self.source.get(name.strip())
        return name if spec is None else spec.name

    def _offers(self, spec: SkillSpec) -> bool:
        known = {spec.name, spec.id}
        chosen = self.include is None or bool(known & self.include)
        return chosen and not known & self.exclude and self._may_be_told(spec)

    def _may_be_told(self, spec: SkillSpec) -> bool:
        return spec.trusted and spec.model_invocable and self.admits(spec)

    def _all(self) -> str:
        names = [one_line(name, _MAX_ASKED) for name in self.names()[:12]]
        return f"The skills are: {', '.join(names)}." if names else "There are no skills."

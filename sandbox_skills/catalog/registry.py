"""Skills by name and id, in memory. Pure."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sandbox_skills.catalog.text import nfkc, one_line
from sandbox_skills.errors import SkillNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sandbox_skills.catalog.skill import SkillSpec

Precedence = Literal["first", "last"]
"""Which of several skills of one name counts."""

_NEAR = 3
"""Suggestions that still fit in one line."""

_MAX_ASKED = 128
"""Characters of an unknown name that are compared or shown: twice the longest name there may be."""


@dataclass(frozen=True, slots=True)
class Shadowed:
    """A skill that lost its name to another."""

    spec: SkillSpec
    winner: SkillSpec


class SkillRegistry:
    """An immutable directory of skills. A name counts before an id, both exactly and then in NFKC.

    Of several skills with one id, `precedence` says which is found by it.
    """

    def __init__(
        self,
        skills: Iterable[SkillSpec],
        shadowed: Iterable[Shadowed] = (),
        *,
        precedence: Precedence = "first",
    ) -> None:
        self._skills = tuple(skills)
        self._shadowed = tuple(shadowed)
        self._ids = {spec.id: spec for spec in _ranked(self._skills, precedence)}
        self._names = {spec.name: spec for spec in self._skills}

    def get(self, name: str) -> SkillSpec | None:
        """Returns the skill of that name or id, or None."""
        for key in (name, nfkc(name)):
            spec = self._names.get(key) or self._ids.get(key)
            if spec is not None:
                return spec
        return None

    def has(self, name: str) -> bool:
        """Whether there is a skill of that name or id."""
        return self.get(name) is not None

    def list(self) -> tuple[SkillSpec, ...]:
        """Returns all skills in the order they were found."""
        return self._skills

    def require(self, name: str) -> SkillSpec:
        """Returns the skill of that name or id; raises SkillNotFoundError with similar names."""
        spec = self.get(name)
        if spec is not None:
            return spec
        near = self.near(name)
        hint = f"did you mean {' or '.join(near)}?" if near else "see the list of skills"
        raise SkillNotFoundError(f"no skill is named {one_line(name, _MAX_ASKED)!r}", hint=hint, near=near)

    def near(self, name: str) -> tuple[str, ...]:
        """Returns names that look like `name`, the most similar first."""
        asked = nfkc(name[:_MAX_ASKED]).casefold()
        folded = {spec.name.casefold(): spec.name for spec in self._skills}
        return tuple(folded[match] for match in difflib.get_close_matches(asked, folded, n=_NEAR))

    @property
    def shadowed(self) -> tuple[Shadowed, ...]:
        """Skills that no name or id leads to, each with the one that has its name."""
        return self._shadowed


def create_skill_registry(skills: Iterable[SkillSpec], *, precedence: Precedence = "first") -> SkillRegistry:
    """Returns a registry of `skills`, one a name."""
    return SkillRegistry(*settle(skills, precedence), precedence=precedence)


def settle(
    skills: Iterable[SkillSpec], precedence: Precedence
) -> tuple[tuple[SkillSpec, ...], tuple[Shadowed, ...]]:
    """Returns the skill that counts for each name, in order, and the ones that do not."""
    skills = tuple(skills)
    winners = {spec.name: spec for spec in _ranked(skills, precedence)}
    kept = tuple(spec for spec in skills if winners[spec.name] is spec)
    lost = tuple(Shadowed(spec, winners[spec.name]) for spec in skills if winners[spec.name] is not spec)
    return kept, lost


def _ranked(skills: tuple[SkillSpec, ...], precedence: Precedence) -> Iterable[SkillSpec]:
    """Returns the skills so that the one that counts comes after the others."""
    return skills if precedence == "last" else reversed(skills)

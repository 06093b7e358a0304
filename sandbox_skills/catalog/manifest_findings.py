"""Where in a manifest something is found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sandbox_skills.catalog.manifest_json import MAX_KEY_SHOWN
from sandbox_skills.catalog.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sandbox_skills.catalog.diagnostics import Findings
    from sandbox_skills.catalog.rules import Rule

_MAX_LISTED = 10
"""Names in one finding: enough to see what kind they are."""


@dataclass(frozen=True, slots=True)
class Place:
    """A value of a manifest, as `tools[0].parameters.city`; `line` is that of its tool, from 1."""

    found: Findings
    field: str
    line: int | None = None

    def below(self, key: str) -> Place:
        """Returns the place of a value below this one."""
        name = one_line(key, MAX_KEY_SHOWN)
        return replace(self, field=f"{self.field}.{name}" if self.field else name)

    def say(self, rule: Rule, detail: str = "") -> None:
        """Adds a finding about this place."""
        self.found.add(rule, detail, field=self.field, line=self.line)


def listed(names: Iterable[str]) -> str:
    """Returns names for a finding: sorted, on one line, and not too many."""
    ordered = [one_line(name, MAX_KEY_SHOWN).strip() for name in sorted(names)]
    return ", ".join(ordered[:_MAX_LISTED] + ["…"] * (len(ordered) > _MAX_LISTED))

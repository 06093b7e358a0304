"""What is wrong with a skill: findings, made from the table of rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.catalog.rules import Mode, Rule, Severity
from sandbox_skills.errors import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Diagnostic", "Findings", "Mode", "Rule", "Severity", "diagnostic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic(Violation):
    """A violation with its stable code, how bad it is, and what to do about it."""

    code: str
    severity: Severity
    fix: str

    def as_dict(self) -> dict[str, object]:
        """Returns the one spelling of a diagnostic, for JSON."""
        return {
            "line": self.line,
            "column": self.column,
            "severity": self.severity.value,
            "code": self.code,
            "field": self.field,
            "message": str(self),
            "fix": self.fix,
        }


class Findings:
    """Collects the diagnostics of one file in the order they are found."""

    def __init__(self, mode: Mode) -> None:
        self._mode: Mode = mode
        self._items: list[Diagnostic] = []

    def add(
        self,
        rule: Rule,
        detail: str = "",
        *,
        field: str = "",
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        """Adds a finding; `detail` follows the rule's summary. Lines and columns count from 1."""
        found = diagnostic(rule, detail, mode=self._mode, field=field, line=line, column=column)
        self._items.append(found)

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(self._items)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The findings that keep the skill from loading."""
        return tuple(item for item in self._items if item.severity is Severity.ERROR)


def diagnostic(
    rule: Rule,
    detail: str = "",
    *,
    mode: Mode = "lenient",
    field: str = "",
    line: int | None = None,
    column: int | None = None,
) -> Diagnostic:
    """Returns one finding of `rule`, about `field` where that is not the rule's own."""
    return Diagnostic(
        field=field or rule.field,
        message=f"{rule.summary}: {detail}" if detail else rule.summary,
        line=line,
        column=column,
        code=rule.code,
        severity=rule.severity_in(mode),
        fix=rule.fix,
    )

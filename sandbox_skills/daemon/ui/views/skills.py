"""Skills and what is wrong with them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from sandbox_skills.daemon.ui.views.formatting import NOTHING, Time, counted, size, time_of
from sandbox_skills.daemon.ui.views.log_text import page_line
from sandbox_skills.daemon.ui.views.outcomes import Badge, Tone

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from sandbox_skills.catalog import SkillSpec
    from sandbox_skills.daemon.service.skills import SkillEntry
    from sandbox_skills.daemon.truth.skills import SkillVersion

Rows = tuple[tuple[str, str], ...]

_SEVERITIES = {"error": Tone.BAD, "warning": Tone.WARN, "note": Tone.QUIET}


@dataclass(frozen=True, slots=True)
class SkillRow:
    """One line of the list of skills."""

    path: str
    name: str
    description: str
    badge: Badge
    source: str
    version: str
    changed: Time | None


@dataclass(frozen=True, slots=True)
class SkillList:
    """All skills of a tenant; `can_upload` is whether whoever looks may add one."""

    rows: tuple[SkillRow, ...]
    next: str = ""
    can_upload: bool = False


@dataclass(frozen=True, slots=True)
class DiagnosticRow:
    """One thing that is wrong with a skill."""

    badge: Badge
    message: str
    fix: str
    where: str
    code: str


@dataclass(frozen=True, slots=True)
class VersionRow:
    """One version of an uploaded skill."""

    version: str
    size: str
    files: str
    added: Time
    digest: str


@dataclass(frozen=True, slots=True)
class SkillPage:
    """All that the page of one skill shows."""

    name: str
    badge: Badge
    description: str
    runs_path: str
    facts: Rows
    diagnostics: tuple[DiagnosticRow, ...]
    versions: tuple[VersionRow, ...]


def skill_row(entry: SkillEntry, now: float) -> SkillRow:
    """Returns a skill as one line."""
    version = entry.version
    return SkillRow(
        path=f"/skill?{urlencode({'name': entry.spec.name})}",
        name=page_line(entry.spec.name),
        description=page_line(entry.spec.description),
        badge=diagnostics_badge(diagnostics_of(entry)),
        source=_source(entry.spec),
        version=NOTHING if version is None else str(version.version),
        changed=None if version is None else time_of(version.created_at, now),
    )


def skill_page(entry: SkillEntry, versions: Sequence[SkillVersion], now: float) -> SkillPage:
    """Returns the page of a skill."""
    found = diagnostics_of(entry)
    return SkillPage(
        name=page_line(entry.spec.name),
        badge=diagnostics_badge(found),
        description=page_line(entry.spec.description),
        runs_path=f"/runs?{urlencode({'skill': entry.spec.name})}",
        facts=tuple(_facts(entry)),
        diagnostics=tuple(_diagnostic_row(one) for one in found),
        versions=tuple(_version_row(one, now) for one in versions),
    )


def diagnostics_of(entry: SkillEntry) -> Sequence[Mapping[str, Any]]:
    """Returns what was found when a skill was uploaded; of the server's own, what its text has."""
    if entry.version is not None:
        return entry.version.diagnostics
    return [one.as_dict() for one in entry.spec.diagnostics]


def diagnostics_badge(found: Sequence[Mapping[str, Any]]) -> Badge:
    """Returns the worst of what is wrong, and how often."""
    for severity, tone in _SEVERITIES.items():
        count = sum(one.get("severity") == severity for one in found)
        if count:
            return Badge(counted(count, severity), tone)
    return Badge("fine", Tone.GOOD)


def _source(spec: SkillSpec) -> str:
    return "yours" if spec.uploaded else "server"


def _facts(entry: SkillEntry) -> Iterable[tuple[str, str]]:
    spec, version = entry.spec, entry.version
    yield "From", _source(spec)
    if version is not None:
        yield "Latest version", str(version.version)
        yield "Size", f"{size(version.size)} in {counted(version.files, 'file')}"
    if spec.license:
        yield "License", page_line(spec.license)
    if spec.compatibility:
        yield "Compatibility", page_line(spec.compatibility)
    if spec.allowed_tools:
        yield "Allowed tools", page_line(spec.allowed_tools)


def _diagnostic_row(one: Mapping[str, Any]) -> DiagnosticRow:
    severity = str(one.get("severity", ""))
    # The name of the file alone: where the server keeps it is the server's business.
    file = PurePosixPath(str(one.get("path") or "SKILL.md")).name
    line = f":{one['line']}" if one.get("line") else ""
    return DiagnosticRow(
        Badge(page_line(severity), _SEVERITIES.get(severity, Tone.QUIET)),
        page_line(str(one.get("message", ""))),
        page_line(str(one.get("fix", ""))),
        page_line(f"{file}{line}"),
        page_line(str(one.get("code", ""))),
    )


def _version_row(one: SkillVersion, now: float) -> VersionRow:
    return VersionRow(
        f"{one.version}, latest" if one.latest else str(one.version),
        size(one.size),
        str(one.files),
        time_of(one.created_at, now),
        one.digest[:12],
    )

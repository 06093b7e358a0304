"""What a skill, a version and a report are over the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import ConfigDict, Field

from sandbox_skills.daemon.api.values import Told, rfc3339
from sandbox_skills.daemon.service.skill_upload import MAX_NAME

if TYPE_CHECKING:
    from sandbox_skills.daemon.service.skills import SkillEntry
    from sandbox_skills.daemon.truth.skills import SkillVersion
    from sandbox_skills.install.validate import Report

MAX_TEXT = 1024
"""Characters of a description that a list shows: as many as the specification allows."""


class DiagnosticTold(
    Told,
    json_schema_extra={
        "examples": [
            {
                "file": "csv-report/SKILL.md",
                "line": 3,
                "column": 14,
                "severity": "warning",
                "code": "description-long",
                "field": "description",
                "message": "the description has more than 1024 characters",
                "fix": "shorten it",
            }
        ]
    },
):
    """One thing that is wrong with a skill."""

    file: str = Field(default="", description="Where, by its path in the skill.")
    line: int | None = None
    column: int | None = None
    severity: Literal["error", "warning", "note"]
    code: str = Field(description="Which rule; stable.")
    field: str
    message: str
    fix: str = Field(description="What to do about it.")


class SkillDetails(Told):
    """A skill that runs may use. `latest` is the version that is meant where none is named."""

    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={
            "example": {
                "name": "csv-report",
                "id": "csv-report",
                "description": "Makes a report of a CSV file.",
                "source": "tenant",
                "latest": 2,
                "digest": "3f0a5c7d9b1e2a4c6d8f0b1c3e5a7d9f3f0a5c7d9b1e2a4c6d8f0b1c3e5a7d9f",
                "size": 5120,
                "files": 4,
                "license": "MIT",
                "compatibility": None,
                "model_invocable": True,
                "updated_at": "2026-01-31T09:30:00.000Z",
                "diagnostics": [],
            }
        },
    )

    name: str = Field(description="As its SKILL.md has it.")
    id: str = Field(description="The name as a path may have it; leads to the same skill.")
    description: str
    source: Literal["server", "tenant"] = Field(description="`server`: the same for every tenant, read-only.")
    latest: int | None = Field(description="Null for one of the server's, which has no versions.")
    digest: str = Field(description="SHA-256 over the content; empty where it is not known.")
    size: int | None = Field(description="Bytes of its files.")
    files: int | None
    license: str | None
    compatibility: str | None
    model_invocable: bool = Field(description="Whether models are told of it.")
    updated_at: str | None
    diagnostics: list[DiagnosticTold]


class VersionTold(Told):
    """One version of a skill. Its content never changes."""

    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={
            "example": {
                "name": "csv-report",
                "version": 2,
                "latest": True,
                "description": "Makes a report of a CSV file.",
                "digest": "3f0a5c7d9b1e2a4c6d8f0b1c3e5a7d9f3f0a5c7d9b1e2a4c6d8f0b1c3e5a7d9f",
                "size": 5120,
                "files": 4,
                "created_at": "2026-01-31T09:30:00.000Z",
                "diagnostics": [],
            }
        },
    )

    name: str
    version: int
    latest: bool = Field(description="Whether it is the newest that is left.")
    description: str
    digest: str = Field(description="SHA-256 over paths, modes and bytes.")
    size: int
    files: int
    created_at: str
    diagnostics: list[DiagnosticTold]


class ReportTold(
    Told,
    json_schema_extra={
        "examples": [{"valid": True, "skills": 1, "errors": 0, "warnings": 0, "notes": 0, "findings": []}]
    },
):
    """What is wrong with a skill that was sent; nothing of it was kept."""

    valid: bool = Field(description="Whether it has no errors, so that it could be kept.")
    skills: int
    errors: int
    warnings: int
    notes: int
    findings: list[DiagnosticTold]


def skill_told(entry: SkillEntry) -> SkillDetails:
    """Returns a skill as it is told. Pure."""
    spec, version = entry.spec, entry.version
    found: Any = version.diagnostics if version else [item.as_dict() for item in spec.diagnostics]
    return SkillDetails(
        name=spec.name[:MAX_NAME],
        id=spec.id,
        description=spec.description[:MAX_TEXT],
        source="tenant" if version else "server",
        latest=version.version if version else None,
        digest=version.digest if version else spec.digest or "",
        size=version.size if version else None,
        files=version.files if version else None,
        license=spec.license,
        compatibility=spec.compatibility,
        model_invocable=spec.model_invocable,
        updated_at=rfc3339(version.created_at) if version else None,
        diagnostics=[DiagnosticTold.model_validate(one) for one in found],
    )


def version_told(version: SkillVersion) -> VersionTold:
    """Returns a version as it is told. Pure."""
    return VersionTold(
        name=version.name,
        version=version.version,
        latest=version.latest,
        description=version.description[:MAX_TEXT],
        digest=version.digest,
        size=version.size,
        files=version.files,
        created_at=rfc3339(version.created_at),
        diagnostics=[DiagnosticTold.model_validate(one) for one in version.diagnostics],
    )


def report_told(report: Report) -> ReportTold:
    """Returns a report as it is told. Pure."""
    return ReportTold.model_validate({**report.as_dict(), "valid": not report.counts()["errors"]})

"""What is wrong with the skills at a path: their texts, their tools, their files. Nothing is run. Blocking."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.catalog.catalog import LENIENT
from sandbox_skills.catalog.diagnostics import diagnostic
from sandbox_skills.catalog.manifest import ManifestOptions
from sandbox_skills.catalog.manifest_load import MANIFEST, load_manifest
from sandbox_skills.catalog.rules import Rule, Severity
from sandbox_skills.catalog.scan import MAX_DIRECTORIES, SkillScanner
from sandbox_skills.catalog.skill import SkillRoot
from sandbox_skills.catalog.skill_file import FILENAME
from sandbox_skills.errors import InputError, SkillUnsafeError
from sandbox_skills.workspace.paths import open_root, shown
from sandbox_skills.workspace.skill_tree import StageLimits, scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sandbox_skills.catalog.diagnostics import Diagnostic
    from sandbox_skills.catalog.rules import Mode
    from sandbox_skills.catalog.scan import ScanResult
    from sandbox_skills.catalog.skill import SkillSpec

_RULES = {rule.code: rule for rule in Rule}


@dataclass(frozen=True, slots=True)
class Finding:
    """One diagnostic and the file it is about."""

    path: str
    diagnostic: Diagnostic

    def as_dict(self) -> dict[str, object]:
        """Returns the finding for JSON."""
        return {"file": self.path, **self.diagnostic.as_dict()}


@dataclass(frozen=True, slots=True)
class Report:
    """How many skills were looked at, broken ones included, and what was found, sorted by file and line."""

    skills: int
    findings: tuple[Finding, ...]

    def count(self, severity: Severity) -> int:
        """Returns the number of findings of a severity."""
        return sum(item.diagnostic.severity is severity for item in self.findings)

    def counts(self) -> dict[str, int]:
        """Returns how much there is of each."""
        return {
            "skills": self.skills,
            "errors": self.count(Severity.ERROR),
            "warnings": self.count(Severity.WARNING),
            "notes": self.count(Severity.NOTE),
        }

    def as_dict(self) -> dict[str, object]:
        """Returns the report for JSON."""
        return {**self.counts(), "findings": [finding.as_dict() for finding in self.findings]}


def validate(
    paths: Sequence[Path], *, mode: Mode = "lenient", max_directories: int = MAX_DIRECTORIES
) -> Report:
    """Looks at skills, folders of skills and SKILL.md files; strict makes errors of what breaks the specification.

    Of each path at most `max_directories` are looked at; a rest is a finding. Raises InputError for a path where
    there is neither.
    """
    findings: list[Finding] = []
    options = replace(LENIENT, max_directories=max_directories)
    skills: set[str] = set()
    for path in paths:
        result = SkillScanner([SkillRoot(str(_folder(path)))], options).scan()
        specs = (*result.skills, *(lost.spec for lost in result.shadowed))
        broken = {issue.path for issue in result.issues if _is_broken(issue.diagnostics)}
        if not specs and not broken:
            raise _nothing_in(path, result)
        skills |= {spec.path for spec in specs} | broken
        for issue in result.issues:
            findings += (Finding(issue.path, item) for item in issue.diagnostics)
        for spec in specs:
            findings += _findings_of(spec, mode)
    told = {_restated(finding, mode) for finding in findings}
    return Report(len(skills), tuple(sorted(told, key=_place)))


def _folder(path: Path) -> Path:
    if path.is_dir():
        return path
    if path.is_file() and path.name.casefold() == FILENAME.casefold():
        return path.absolute().parent
    raise InputError(f"there is no skill at {shown(str(path))}", hint="name a folder or a SKILL.md")


def _nothing_in(path: Path, result: ScanResult) -> InputError:
    capped = any(item.code == Rule.SCAN_CAPPED.code for issue in result.issues for item in issue.diagnostics)
    if capped:
        looked = f"no skill was found in {shown(str(path))} before the limit on directories: {result.directories:,}"
        return InputError(looked, hint=Rule.SCAN_CAPPED.fix)
    return InputError(f"there is no skill in {shown(str(path))}", hint="a skill is a folder with a SKILL.md")


def _is_broken(diagnostics: Iterable[Diagnostic]) -> bool:
    return any(item.severity is Severity.ERROR for item in diagnostics)


def _findings_of(spec: SkillSpec, mode: Mode) -> Iterator[Finding]:
    yield from (Finding(spec.path, item) for item in spec.diagnostics)
    manifest = load_manifest(spec, ManifestOptions(mode=mode))
    yield from (Finding(f"{spec.dir}/{MANIFEST}", item) for item in manifest.diagnostics)
    try:
        with open_root(Path(spec.dir).resolve()) as root_fd:
            scan(root_fd, StageLimits())
    except SkillUnsafeError as error:
        yield Finding(spec.path, diagnostic(Rule.SKILL_UNSAFE, error.message))
    except OSError as error:
        yield Finding(spec.path, diagnostic(Rule.FILE_UNREADABLE, error.strerror or ""))


def _restated(finding: Finding, mode: Mode) -> Finding:
    """Returns the finding with the severity that its rule has in this mode."""
    severity = _RULES[finding.diagnostic.code].severity_in(mode)
    return replace(finding, diagnostic=replace(finding.diagnostic, severity=severity))


def _place(finding: Finding) -> tuple[str, int, int, str, str]:
    item = finding.diagnostic
    return finding.path, item.line or 0, item.column or 0, item.code, item.message

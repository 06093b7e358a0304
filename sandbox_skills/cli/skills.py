"""`list` and `show`: what is there, and what one skill is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from sandbox_skills.catalog import (
    ScanOptions,
    SkillRegistry,
    SkillRoot,
    SkillScanner,
    default_roots,
    list_skill_resources,
)
from sandbox_skills.cli.terminal import err, out, print_json
from sandbox_skills.cli.text import aligned, harmless, harmless_line
from sandbox_skills.errors import SettingsError, SkillNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox_skills.catalog import ScanResult, SkillSpec
    from sandbox_skills.cli.options import GlobalOptions
    from sandbox_skills.settings import Settings

DEPTH = 6
"""Directories below a root that are searched: what other clients do (four to six)."""

NO_SKILLS_HINT = "name a folder of skills with --skills DIR"


def find_skill(settings: Settings, name: str) -> SkillSpec:
    """Returns a skill by its name or id; raises SkillNotFoundError, and SettingsError for a root that is none."""
    result = _scan(settings)
    try:
        return SkillRegistry(result.skills, result.shadowed).require(name)
    except SkillNotFoundError as error:
        if error.near:
            raise
        hint = "sandbox-skills list" if result.skills else NO_SKILLS_HINT
        raise SkillNotFoundError(error.message, hint=hint) from error


def list_skills(options: GlobalOptions) -> int:
    """Prints the skills that were found, and of each other folder why it is none."""
    result = _scan(options.settings())
    if options.as_json:
        print_json([_as_dict(spec) for spec in result.skills])
    elif result.skills:
        # In a pipe lines stay whole: whoever reads them there wants the values.
        width = out.width if out.is_terminal else None
        for line in aligned(_rows(result), width=width):
            out.print(line)
    else:
        err.print(f"no skills found; {NO_SKILLS_HINT}")
    for issue in result.issues:
        for found in issue.diagnostics:
            err.print(f"{found.severity}: {harmless_line(_near(issue.path))}: {harmless_line(found.message)}")
    return 0


def show(options: GlobalOptions, name: str) -> int:
    """Prints what a skill says of itself, its files, and what is odd about it."""
    spec = find_skill(options.settings(), name)
    if options.as_json:
        print_json({**_as_dict(spec), **_details(spec), "files": _files(spec), "body": spec.body})
        return 0
    for label, value in _fields(spec):
        out.print(Text.assemble((f"{label}: ", "bold"), harmless_line(value)))
    out.print()
    out.print(Text(harmless(spec.body.strip())))
    return 0


def _scan(settings: Settings) -> ScanResult:
    """Returns the skills of the roots that the user named, else of the usual places."""
    named = settings.skills.roots
    for root in named:
        if not root.is_dir():
            raise SettingsError(f"{root} is no folder of skills")
    roots = [SkillRoot(str(root)) for root in named] if named else default_roots(Path.cwd())
    return SkillScanner(roots, ScanOptions(mode="lenient", max_depth=DEPTH)).scan()


def _rows(result: ScanResult) -> Iterator[tuple[str, str, str]]:
    yield "NAME", "FOLDER", "DESCRIPTION"
    for spec in result.skills:
        name, folder, description = map(harmless_line, (spec.name, _near(spec.dir), spec.description))
        yield name, folder, description


def _fields(spec: SkillSpec) -> Iterator[tuple[str, str]]:
    yield "name", spec.name
    yield "description", spec.description
    yield "folder", spec.dir
    given = {**_details(spec), **{label: ", ".join(names) for label, names in _files(spec).items()}}
    for label, value in given.items():
        if isinstance(value, str) and value:
            yield label.replace("_", " "), value
    for found in spec.diagnostics:
        yield str(found.severity), f"{found.code}: {found.message}"


def _as_dict(spec: SkillSpec) -> dict[str, object]:
    warnings = [{"code": found.code, "message": found.message} for found in spec.diagnostics]
    return {
        "name": spec.name,
        "id": spec.id,
        "description": spec.description,
        "folder": spec.dir,
        "warnings": warnings,
    }


def _details(spec: SkillSpec) -> dict[str, object]:
    return {
        "license": spec.license,
        "compatibility": spec.compatibility,
        "allowed_tools": spec.allowed_tools,
        "metadata": dict(spec.metadata),
    }


def _files(spec: SkillSpec) -> dict[str, tuple[str, ...]]:
    files = list_skill_resources(spec)
    return {
        "scripts": files.scripts,
        "references": files.references,
        "assets": files.assets,
        "other": files.other,
    }


def _near(path: str) -> str:
    """A path below the current directory, as people name it."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path

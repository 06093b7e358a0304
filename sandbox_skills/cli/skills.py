"""`list` and `show`: what is there, and what one skill is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from sandbox_skills.catalog import (
    ScanOptions,
    SkillRegistry,
    SkillRoot,
    SkillScanner,
    default_roots,
    list_skill_resources,
)
from sandbox_skills.cli.terminal import err, harmless, out, print_json

if TYPE_CHECKING:
    from sandbox_skills.catalog import ScanResult, SkillSpec
    from sandbox_skills.cli.context import GlobalOptions
    from sandbox_skills.settings import Settings

DEPTH = 6
"""Directories below a root that are searched: what other clients do (four to six)."""

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def scan(settings: Settings) -> ScanResult:
    """Returns the skills of the roots that the user named, else of the usual places."""
    named = settings.skills.roots
    roots = [SkillRoot(str(root)) for root in named] if named else default_roots(Path.cwd())
    return SkillScanner(roots, ScanOptions(mode="lenient", max_depth=DEPTH)).scan()


def find_skill(settings: Settings, name: str) -> tuple[Path, str]:
    """Returns the folder of a skill, with no link on its way, and its name; raises SkillNotFoundError."""
    spec = _require(settings, name)
    return Path(spec.dir).resolve(), spec.name


def _require(settings: Settings, name: str) -> SkillSpec:
    result = scan(settings)
    return SkillRegistry(result.skills, result.shadowed).require(name)


def list_skills(context: typer.Context, as_json: JsonOption = False) -> None:
    """List the skills that were found, and say of each other folder why it is none."""
    options: GlobalOptions = context.obj
    options.as_json = as_json
    result = scan(options.settings())
    if as_json:
        print_json([_row(spec) for spec in result.skills])
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("NAME", overflow="fold")
    table.add_column("DESCRIPTION", overflow="ellipsis", no_wrap=True)
    table.add_column("FOLDER", overflow="fold")
    for spec in result.skills:
        table.add_row(*(Text(harmless(text)) for text in (spec.name, spec.description, _near(spec.dir))))
    out.print(table if result.skills else "no skills found; name a folder of skills with --skills DIR")
    for issue in result.issues:
        for found in issue.diagnostics:
            err.print(f"{found.severity}: {_near(issue.path)}: {harmless(found.message)}", markup=False)


def show(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A skill by its name or id.")],
    as_json: JsonOption = False,
) -> None:
    """Show one skill: what it says of itself, its files, and what is odd about it."""
    options: GlobalOptions = context.obj
    options.as_json = as_json
    spec = _require(options.settings(), name)
    files = list_skill_resources(spec)
    groups = {
        "scripts": files.scripts,
        "references": files.references,
        "assets": files.assets,
        "other": files.other,
    }
    if as_json:
        extra = {
            "license": spec.license,
            "compatibility": spec.compatibility,
            "allowed_tools": spec.allowed_tools,
        }
        print_json(
            {**_row(spec), **extra, "metadata": dict(spec.metadata), "files": groups, "body": spec.body}
        )
        return
    _print_field("name", spec.name)
    _print_field("description", spec.description)
    _print_field("folder", spec.dir)
    for label in ("license", "compatibility", "allowed_tools"):
        _print_field(label.replace("_", " "), getattr(spec, label) or "")
    for label, names in groups.items():
        _print_field(label, ", ".join(names))
    for found in spec.diagnostics:
        _print_field(str(found.severity), f"{found.code}: {found.message}")
    out.print()
    out.print(Text(harmless(spec.body.strip())))


def _row(spec: SkillSpec) -> dict[str, object]:
    warnings = [{"code": found.code, "message": found.message} for found in spec.diagnostics]
    return {
        "name": spec.name,
        "id": spec.id,
        "description": spec.description,
        "folder": spec.dir,
        "warnings": warnings,
    }


def _print_field(label: str, value: str) -> None:
    if value:
        out.print(Text.assemble((f"{label}: ", "bold"), harmless(value)))


def _near(path: str) -> str:
    """A path below the current directory, as people name it."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path

"""`list` and `show`: what is there, and what a model would be told of it."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from sandbox_skills.catalog import list_skill_resources, render_skill_line
from sandbox_skills.catalog.manifest_load import load_manifest
from sandbox_skills.cli.skill_facts import (
    approximate_tokens,
    counts,
    signature,
    tool_as_dict,
)
from sandbox_skills.cli.terminal import err, out, print_json
from sandbox_skills.cli.text import aligned, harmless, harmless_line
from sandbox_skills.errors import SettingsError, SkillNotFoundError, SkillUnsafeError
from sandbox_skills.wiring import catalog, trust

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sandbox_skills.catalog import SkillSpec, Snapshot
    from sandbox_skills.catalog.tool_spec import ToolManifest
    from sandbox_skills.cli.options import GlobalOptions
    from sandbox_skills.settings import Settings

UNTRUSTED: Mapping[str, str] = MappingProxyType(
    {
        "found": "its root was not named and it is not trusted",
        "unpinned": "it was not accepted as what it is",
        "changed": "it is not what was pinned",
    }
)
"""Why no model is told of a skill, by the user's word on it."""

NO_SKILLS_HINT = "name a folder of skills with --skills DIR"


def find_skill(settings: Settings, name: str) -> SkillSpec:
    """Returns a skill by its name or id; raises SkillNotFoundError, and SettingsError for a root that is none."""
    check_roots(settings)
    live = catalog(settings)
    try:
        return live.require(name)
    except SkillNotFoundError as error:
        if error.near:
            raise
        hint = "sandbox-skills list" if live.list() else NO_SKILLS_HINT
        raise SkillNotFoundError(error.message, hint=hint) from error


def list_skills(options: GlobalOptions, *, every: bool, user: bool) -> int:
    """Prints the skills that were found, and of each other folder why it is none."""
    settings = options.settings({"skills.user_scope": user or None})
    check_roots(settings)
    found = catalog(settings).snapshot()
    hidden = found.registry.shadowed if every else ()
    if options.as_json:
        shadowed = [{**_listed(lost.spec, shadowed=True), "shadowed_by": lost.winner.dir} for lost in hidden]
        print_json([*map(_listed, found.registry.list()), *shadowed])
    elif found.registry.list():
        # In a pipe lines stay whole: whoever reads them there wants the values.
        width = out.width if out.is_terminal else None
        for line in aligned(_rows(found, every=every), width=width):
            out.print(line)
    else:
        err.print(f"no skills found; {NO_SKILLS_HINT}")
    for issue in found.issues:
        for item in issue.diagnostics:
            err.print(harmless_line(f"{item.severity}: {near(issue.path)}: {item}"))
    return 0


def show(options: GlobalOptions, name: str, *, user: bool) -> int:
    """Prints what a skill says of itself, its tools and files, and what is odd about it."""
    settings = options.settings({"skills.user_scope": user or None})
    spec = find_skill(settings, name)
    manifest, digest = load_manifest(spec), _digest(settings, spec)
    if options.as_json:
        tools = {
            "tools": [tool_as_dict(tool) for tool in manifest.tools],
            "manifest_diagnostics": [item.as_dict() for item in manifest.diagnostics],
        }
        print_json(
            {**_as_dict(spec), **digest, **_details(spec), **tools, "files": _files(spec), "body": spec.body}
        )
        return 0
    from rich.text import Text  # noqa: PLC0415  # slow to import, and `list` has no use for it

    for label, value in _fields(spec, manifest, digest):
        out.print(Text.assemble((f"{label}: ", "bold"), harmless_line(value)))
    out.print()
    out.print(harmless(spec.body.strip()))
    return 0


def near(path: str) -> str:
    """Returns a path below the current directory as people name it."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except (ValueError, FileNotFoundError):
        return path


def trust_of(spec: SkillSpec) -> str:
    """Returns the user's word on a skill: named, pinned, changed since it was pinned, not pinned, or only found."""
    if spec.accepted is not None:
        return "pinned" if spec.accepted else "changed"
    if spec.root is not None and spec.root.scope == "installed":
        return "unpinned"
    return "named" if spec.trusted else "found"


def check_roots(settings: Settings) -> None:
    """Raises SettingsError for a root that is no folder."""
    for root in settings.skills.roots:
        if not root.is_dir():
            raise SettingsError(
                f"{root} is no folder of skills", hint="name one that exists with --skills DIR"
            )


def _digest(settings: Settings, spec: SkillSpec) -> dict[str, str | None]:
    """Returns the digest of what the skill holds now, or why it can have none."""
    try:
        return {"digest": trust(settings).content(Path(spec.dir)).digest, "unsafe": None}
    except SkillUnsafeError as error:
        return {"digest": None, "unsafe": error.message}


def _rows(found: Snapshot, *, every: bool) -> Iterator[Sequence[str]]:
    yield ("NAME", "TRUST", "TOKENS", "TOOLS", "FILES", "WARN", "FOLDER", "DESCRIPTION")
    for spec in found.registry.list():
        yield _row(spec, trust_of(spec), _in_prompt(spec))
    for lost in found.registry.shadowed if every else ():
        yield _row(lost.spec, f"hidden by {near(lost.winner.dir)}", _in_prompt(lost.spec, shadowed=True))


def _row(spec: SkillSpec, state: str, in_prompt: str) -> tuple[str, ...]:
    has = counts(spec)
    files = f"{has.resources}{'+' if has.more_resources else ''}"
    figures = (in_prompt, str(has.tools), files, str(has.warnings))
    return tuple(map(harmless_line, (spec.name, state, *figures, near(spec.dir), spec.description)))


def _in_prompt(spec: SkillSpec, *, shadowed: bool = False) -> str:
    """Returns about how many tokens of a prompt the skill takes, or that it asks to be left out of every one."""
    if not spec.model_invocable:
        return "hides"
    tokens = approximate_tokens(spec, shadowed=shadowed)["prompt"]
    return f"~{tokens}" if tokens else "none"


def _fields(
    spec: SkillSpec, manifest: ToolManifest, digest: Mapping[str, str | None]
) -> Iterator[tuple[str, str]]:
    yield "name", spec.name
    yield "description", spec.description
    yield "folder", spec.dir
    yield "trust", trust_of(spec)
    yield "digest", digest["digest"] or f"none: {digest['unsafe']}"
    yield from _told(spec)
    given = {**_details(spec), **{label: ", ".join(names) for label, names in _files(spec).items()}}
    for label, value in given.items():
        if isinstance(value, str) and value:
            yield label.replace("_", " "), value
    for tool in manifest.tools:
        yield "tool", f"{signature(tool)}: {tool.description}"
    for item in (*spec.diagnostics, *manifest.diagnostics):
        yield str(item.severity), f"{item.code}: {item}"


def _told(spec: SkillSpec) -> Iterator[tuple[str, str]]:
    """Yields what a model is told of the skill before it asks, and how much it reads when it does."""
    tokens = approximate_tokens(spec)
    if spec.trusted and spec.model_invocable:
        yield "in a prompt", render_skill_line(spec)
    else:
        why = "it hides from models" if spec.trusted else UNTRUSTED[trust_of(spec)]
        yield "in a prompt", f"nothing: {why}"
    yield "size", f"about {tokens['prompt']:,} tokens in a prompt, {tokens['body']:,} when it is loaded"


def _listed(spec: SkillSpec, *, shadowed: bool = False) -> dict[str, object]:
    return {**_as_dict(spec, shadowed=shadowed), **counts(spec).as_dict()}


def _as_dict(spec: SkillSpec, *, shadowed: bool = False) -> dict[str, object]:
    return {
        "name": spec.name,
        "id": spec.id,
        "description": spec.description,
        "folder": spec.dir,
        "trust": trust_of(spec),
        "model_invocable": spec.model_invocable,
        "approximate_tokens": approximate_tokens(spec, shadowed=shadowed),
        "warnings": [item.as_dict() for item in spec.diagnostics],
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

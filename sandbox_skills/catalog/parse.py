"""SKILL.md → SkillSpec. Pure: whatever the bytes, a spec or a SkillLoadError, in time linear in their number."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.catalog.diagnostics import Findings, Rule, Severity
from sandbox_skills.catalog.fields import Fields
from sandbox_skills.catalog.frontmatter import clean_yaml, decode, split
from sandbox_skills.catalog.repair import join_surrogates, repair
from sandbox_skills.catalog.skill import ParsedSkill, SkillRoot, SkillSpec
from sandbox_skills.catalog.skill_file import FILENAME
from sandbox_skills.catalog.text import slug
from sandbox_skills.catalog.yaml_values import RefusedYamlError, YamlError, read_entries
from sandbox_skills.errors import SkillLoadError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sandbox_skills.catalog.diagnostics import Diagnostic, Mode
    from sandbox_skills.catalog.frontmatter import Document
    from sandbox_skills.catalog.yaml_values import Entry

MAX_BODY_LINES = 500
"""What the specification recommends."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Everything found in one file; `spec` is None where a finding is an error."""

    spec: SkillSpec | None
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class ParseOptions:
    """How a file is read. `filename` is its proper name; `keep_body` False leaves the body on disk."""

    mode: Mode = "strict"
    skip_parent_dir_check: bool = False
    filename: str = FILENAME
    keep_body: bool = True
    root: SkillRoot | None = None


def parse_skill(
    contents: str | bytes,
    filepath: str | os.PathLike[str],
    *,
    mode: Mode = "strict",
    skip_parent_dir_check: bool = False,
) -> ParsedSkill:
    """Reads the contents of a SKILL.md; `filepath` only names it and its directory, nothing is opened.

    Raises SkillLoadError with every violation: of the specification when strict, else what cannot be loaded.
    """
    options = ParseOptions(mode=mode, skip_parent_dir_check=skip_parent_dir_check)
    checked = check_skill(contents, filepath, options)
    if checked.spec is None:
        raise load_error(os.fspath(filepath), checked.diagnostics)
    warnings = tuple(item for item in checked.diagnostics if item.severity is Severity.WARNING)
    return ParsedSkill(checked.spec, warnings)


def parse_skill_file(contents: str | bytes, filepath: str | os.PathLike[str]) -> SkillSpec:
    """Returns the spec of a SKILL.md that follows the specification; raises SkillLoadError for any other."""
    return parse_skill(contents, filepath).spec


def check_skill(contents: str | bytes, filepath: str | os.PathLike[str], options: ParseOptions) -> Checked:
    """Returns the spec, if it loads, with every finding; raises nothing."""
    found = Findings(options.mode)
    path = os.fspath(filepath)
    if path.rpartition("/")[2] != options.filename:
        found.add(Rule.FILE_NAME_CASE)
    text = decode(contents, found)
    document = split(text, found) if text is not None else None
    if document is None:
        return Checked(None, tuple(found))
    document, entries = _entries(document, found)
    if entries is None:
        return Checked(None, tuple(found))
    return _build(Fields(entries, document.first_line, found), document, path, options, found)


def load_error(path: str, diagnostics: Iterable[Diagnostic]) -> SkillLoadError:
    """Returns the error of a skill that does not load: every finding that keeps it from that."""
    errors = [item for item in diagnostics if item.severity is Severity.ERROR]
    return SkillLoadError(path, errors, hint=errors[0].fix if errors else "")


def _entries(document: Document, found: Findings) -> tuple[Document, list[Entry] | None]:
    """Returns the entries, and the document as it was cut to get them."""
    try:
        return _read_or_repair(document, found)
    except YamlError as error:
        found.add(error.rule, error.problem, line=document.first_line + error.line, column=error.column + 1)
        return document, None


def _read_or_repair(document: Document, found: Findings) -> tuple[Document, list[Entry]]:
    text = clean_yaml(document.yaml, document.first_line, found)
    text = join_surrogates(text, document.first_line, found)
    try:
        return document, read_entries(text)
    except RefusedYamlError:
        raise
    except YamlError:
        cut = document.cut_at_glued()
        if cut is None:
            return document, repair(text, document.first_line, found)
    found.add(Rule.GLUED_FENCE, line=document.glued_line)
    return _read_or_repair(cut, found)


def _build(fields: Fields, document: Document, path: str, options: ParseOptions, found: Findings) -> Checked:
    directory = path.rpartition("/")[0]
    base = directory.rpartition("/")[2]
    body = document.body
    _check_body(body, found)
    name = fields.name(base, check_directory=not options.skip_parent_dir_check)
    description = fields.description()
    licence, compatibility = fields.license(), fields.compatibility()
    metadata, metadata_raw = fields.metadata()
    allowed_tools, tokens = fields.allowed_tools()
    extra = fields.extra()
    diagnostics = tuple(found)
    if found.errors:
        return Checked(None, diagnostics)
    spec = SkillSpec(
        id=skill_id(base or name),
        name=name,
        description=description,
        path=path,
        dir=directory,
        license=licence,
        compatibility=compatibility,
        metadata=metadata,
        metadata_raw=metadata_raw,
        allowed_tools=allowed_tools,
        allowed_tool_tokens=tokens,
        extra=extra,
        diagnostics=diagnostics,
        body_chars=len(body),
        root=options.root,
        held_body=body if options.keep_body else None,
    )
    return Checked(spec, diagnostics)


def _check_body(body: str, found: Findings) -> None:
    if not body:
        found.add(Rule.BODY_EMPTY)
    elif (lines := body.count("\n") + 1) > MAX_BODY_LINES:
        found.add(Rule.BODY_LONG, f"{lines:,}")


def skill_id(directory: str) -> str:
    """Returns the id of a skill from the name of its directory: the same on every machine."""
    return (
        slug(directory) or "skill-" + hashlib.sha256(directory.encode(errors="surrogatepass")).hexdigest()[:8]
    )

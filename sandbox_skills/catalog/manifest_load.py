"""Reads the tools.json of a skill from disk, without leaving the skill. Blocking."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.catalog.diagnostics import diagnostic
from sandbox_skills.catalog.manifest import ManifestOptions, parse_manifest
from sandbox_skills.catalog.manifest_json import MAX_BYTES
from sandbox_skills.catalog.resources import open_skill_file
from sandbox_skills.catalog.rules import Rule
from sandbox_skills.catalog.tool_spec import ToolManifest
from sandbox_skills.errors import RequestError

if TYPE_CHECKING:
    from sandbox_skills.catalog.skill import SkillSpec

MANIFEST = "tools.json"
"""The manifest's name, at the top of the skill's directory."""

_DEFAULTS = ManifestOptions()


def load_manifest(spec: SkillSpec, options: ManifestOptions = _DEFAULTS) -> ToolManifest:
    """Returns the tools of a skill; none, and no finding, where it has no tools.json.

    A script must be a file of the skill, whatever `options` say of it. Raises nothing.
    """
    if not os.path.lexists(Path(spec.dir, MANIFEST)):
        return ToolManifest()
    try:
        contents = _read(spec.dir)
    except (RequestError, OSError) as error:
        found = diagnostic(Rule.MANIFEST_UNREADABLE, str(error), mode=options.mode)
        return ToolManifest((), (found,))
    options = replace(options, script_fault=partial(_script_fault, spec.dir))
    return parse_manifest(contents, spec.name, options)


def _read(directory: str) -> bytes:
    with os.fdopen(open_skill_file(directory, MANIFEST), "rb") as file:
        return file.read(MAX_BYTES + 1)


def _script_fault(directory: str, script: str) -> str:
    try:
        os.close(open_skill_file(directory, script))
    except RequestError as error:
        return error.message
    return ""

"""The tools that skills declare in their tools.json, as they are now: only what has changed is read again."""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from sandbox_skills.catalog import load_manifest, merge_manifests, tool_schema
from sandbox_skills.catalog.manifest_load import MANIFEST
from sandbox_skills.catalog.render import safe_line
from sandbox_skills.catalog.skill_file import settled, stamp_of
from sandbox_skills.catalog.tool_spec import MAX_TOOL_DESCRIPTION
from sandbox_skills.toolsets.base import Tool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sandbox_skills.catalog import Diagnostic, SkillSpec, ToolManifest, ToolSpec
    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.catalog.skill_file import Stamp

logger = logging.getLogger(__name__)

ABSENT = (0, 0, 0, 0, 0)
"""The stamp of a manifest where there is none."""


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """One tool of a skill: as declared, the skill as it was found, and as a model is told of it."""

    spec: ToolSpec
    skill: SkillSpec
    tool: Tool


@dataclass(frozen=True, slots=True)
class _Manifest:
    skill: SkillSpec
    stamp: Stamp | None
    """None where the file may change again under the same one."""
    manifest: ToolManifest


class DeclaredTools:
    """Remembers the tools of the skills that it was asked about last. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: dict[str, _Manifest] = {}
        self.known: Mapping[str, DeclaredTool] = MappingProxyType({})
        self.diagnostics: tuple[Diagnostic, ...] = ()

    def of(self, skills: Sequence[SkillSpec]) -> Mapping[str, DeclaredTool]:
        """Returns the tools of these skills by name; of one name, that of the later skill. Blocking.

        The same object comes back as long as nothing has changed. `diagnostics` say which tools lost their name, and
        what is wrong in a manifest; they are logged once.
        """
        with self._lock:
            read = {skill.dir: self._manifest(skill) for skill in skills}
            before, self._read = self._read, read
            if not _same(read, before):
                self.known, self.diagnostics = _merged(list(read.values()))
            return self.known

    def _manifest(self, skill: SkillSpec) -> _Manifest:
        stamp, before = _stamp(skill.dir), self._read.get(skill.dir)
        if before is None or before.skill != skill:
            return _Manifest(skill, stamp, load_manifest(skill))
        if stamp is not None and before.stamp == stamp:
            return before
        manifest = load_manifest(skill)
        # By what is written: 1 and true are equal, and not the same schema.
        same = repr(manifest) == repr(before.manifest)
        return _Manifest(before.skill, stamp, before.manifest if same else manifest)


def _same(read: dict[str, _Manifest], before: dict[str, _Manifest]) -> bool:
    return len(read) == len(before) and all(
        one.skill is other.skill and one.manifest is other.manifest
        for one, other in zip(read.values(), before.values(), strict=True)
    )


def _stamp(directory: str) -> Stamp | None:
    now = time.time_ns()
    try:
        stamp = stamp_of(os.lstat(f"{directory}/{MANIFEST}"))
    except OSError:
        return ABSENT
    return stamp if settled(stamp, now) else None


def _merged(read: Sequence[_Manifest]) -> tuple[Mapping[str, DeclaredTool], tuple[Diagnostic, ...]]:
    merged = merge_manifests(one.manifest for one in read)
    for one in read:
        for found in one.manifest.diagnostics:
            logger.warning("%s/%s: %s", one.skill.dir, MANIFEST, found)
    for found in merged.diagnostics:
        logger.warning("%s: %s", MANIFEST, found)
    said = tuple(found for one in read for found in one.manifest.diagnostics) + merged.diagnostics
    skills = {one.skill.name: one.skill for one in read}
    tools = {spec.name: DeclaredTool(spec, skills[spec.skill], _told(spec)) for spec in merged.tools}
    return MappingProxyType(tools), said


def _told(spec: ToolSpec) -> Tool:
    """Returns what a model is told of a tool, a stranger's texts made safe."""
    return Tool(
        spec.name,
        safe_line(spec.description, MAX_TOOL_DESCRIPTION),
        _safe_schema(tool_schema(spec)),
        effect="read" if spec.script is None else "run",
        skill=spec.skill,
    )


def _safe_schema(schema: JsonObject) -> JsonObject:
    properties = schema["properties"]
    assert isinstance(properties, dict)
    for parameter in properties.values():
        if isinstance(parameter, dict) and isinstance(text := parameter.get("description"), str):
            parameter["description"] = safe_line(text, MAX_TOOL_DESCRIPTION)
    return schema

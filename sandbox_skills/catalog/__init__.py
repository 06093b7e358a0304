"""The catalog: SKILL.md text → SkillSpec, and where skills are found. Never runs anything of a skill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.lazy_names import lazy_names

if TYPE_CHECKING:
    from sandbox_skills.catalog.allowed_tools import parse_allowed_tools
    from sandbox_skills.catalog.catalog import LENIENT, Catalog, Snapshot
    from sandbox_skills.catalog.define import (
        DefinedTool,
        DefinedTools,
        defined_tools,
        made_at_run_time,
        sweep_defined_tools,
    )
    from sandbox_skills.catalog.define_arguments import (
        DEFINE_TOOL,
        REMOVE_TOOL,
        ToolDefinition,
        read_definition,
    )
    from sandbox_skills.catalog.diagnostics import Diagnostic, Mode, Rule, Severity
    from sandbox_skills.catalog.load import load_skill
    from sandbox_skills.catalog.lock_file import LockFile
    from sandbox_skills.catalog.manifest import ManifestOptions, parse_manifest
    from sandbox_skills.catalog.manifest_load import load_manifest
    from sandbox_skills.catalog.parse import Checked, ParseOptions, check_skill, parse_skill, parse_skill_file
    from sandbox_skills.catalog.pins import Changes, Pin
    from sandbox_skills.catalog.registry import Precedence, Shadowed, SkillRegistry, create_skill_registry
    from sandbox_skills.catalog.render import render_skill_line, render_skill_section, render_skills_block
    from sandbox_skills.catalog.resources import (
        ResourcePage,
        SkillResources,
        list_skill_resources,
        read_skill_resource,
    )
    from sandbox_skills.catalog.roots import default_roots, search_order
    from sandbox_skills.catalog.scan import Issue, ScanOptions, ScanResult, SkillScanner, scan_skill_dirs
    from sandbox_skills.catalog.skill import ParsedSkill, SkillRoot, SkillSpec, plain
    from sandbox_skills.catalog.tool_call import check_call, handler_input
    from sandbox_skills.catalog.tool_spec import (
        ToolManifest,
        ToolSpec,
        merge_manifests,
        stub_message,
        tool_schema,
    )

_HOMES = {
    "allowed_tools": ("parse_allowed_tools",),
    "catalog": ("LENIENT", "Catalog", "Snapshot"),
    "define": ("DefinedTool", "DefinedTools", "defined_tools", "made_at_run_time", "sweep_defined_tools"),
    "define_arguments": ("DEFINE_TOOL", "REMOVE_TOOL", "ToolDefinition", "read_definition"),
    "diagnostics": ("Diagnostic", "Mode", "Rule", "Severity"),
    "load": ("load_skill",),
    "lock_file": ("LockFile",),
    "manifest": ("ManifestOptions", "parse_manifest"),
    "manifest_load": ("load_manifest",),
    "parse": ("Checked", "ParseOptions", "check_skill", "parse_skill", "parse_skill_file"),
    "pins": ("Changes", "Pin"),
    "registry": ("Precedence", "Shadowed", "SkillRegistry", "create_skill_registry"),
    "render": ("render_skill_line", "render_skill_section", "render_skills_block"),
    "resources": ("ResourcePage", "SkillResources", "list_skill_resources", "read_skill_resource"),
    "roots": ("default_roots", "search_order"),
    "scan": ("Issue", "ScanOptions", "ScanResult", "SkillScanner", "scan_skill_dirs"),
    "skill": ("ParsedSkill", "SkillRoot", "SkillSpec", "plain"),
    "tool_call": ("check_call", "handler_input"),
    "tool_spec": ("ToolManifest", "ToolSpec", "merge_manifests", "stub_message", "tool_schema"),
}

__all__ = [
    "DEFINE_TOOL",
    "LENIENT",
    "REMOVE_TOOL",
    "Catalog",
    "Changes",
    "Checked",
    "DefinedTool",
    "DefinedTools",
    "Diagnostic",
    "Issue",
    "LockFile",
    "ManifestOptions",
    "Mode",
    "ParseOptions",
    "ParsedSkill",
    "Pin",
    "Precedence",
    "ResourcePage",
    "Rule",
    "ScanOptions",
    "ScanResult",
    "Severity",
    "Shadowed",
    "SkillRegistry",
    "SkillResources",
    "SkillRoot",
    "SkillScanner",
    "SkillSpec",
    "Snapshot",
    "ToolDefinition",
    "ToolManifest",
    "ToolSpec",
    "check_call",
    "check_skill",
    "create_skill_registry",
    "default_roots",
    "defined_tools",
    "handler_input",
    "list_skill_resources",
    "load_manifest",
    "load_skill",
    "made_at_run_time",
    "merge_manifests",
    "parse_allowed_tools",
    "parse_manifest",
    "parse_skill",
    "parse_skill_file",
    "plain",
    "read_definition",
    "read_skill_resource",
    "render_skill_line",
    "render_skill_section",
    "render_skills_block",
    "scan_skill_dirs",
    "search_order",
    "stub_message",
    "sweep_defined_tools",
    "tool_schema",
]

__getattr__ = lazy_names(__name__, _HOMES)

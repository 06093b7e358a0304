"""The catalog: SKILL.md text → SkillSpec, and where skills are found. Never runs anything of a skill."""

from sandbox_skills.catalog.allowed_tools import parse_allowed_tools
from sandbox_skills.catalog.catalog import LENIENT, Catalog, Snapshot
from sandbox_skills.catalog.diagnostics import Diagnostic, Mode, Rule, Severity
from sandbox_skills.catalog.load import load_skill
from sandbox_skills.catalog.lock_file import LockFile
from sandbox_skills.catalog.parse import Checked, ParseOptions, check_skill, parse_skill, parse_skill_file
from sandbox_skills.catalog.pins import Changes, Pin
from sandbox_skills.catalog.registry import Precedence, Shadowed, SkillRegistry, create_skill_registry
from sandbox_skills.catalog.render import render_skill_line, render_skills_block
from sandbox_skills.catalog.resources import (
    ResourcePage,
    SkillResources,
    list_skill_resources,
    read_skill_resource,
)
from sandbox_skills.catalog.roots import default_roots, search_order
from sandbox_skills.catalog.scan import Issue, ScanOptions, ScanResult, SkillScanner, scan_skill_dirs
from sandbox_skills.catalog.skill import ParsedSkill, SkillRoot, SkillSpec, plain

__all__ = [
    "LENIENT",
    "Catalog",
    "Changes",
    "Checked",
    "Diagnostic",
    "Issue",
    "LockFile",
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
    "check_skill",
    "create_skill_registry",
    "default_roots",
    "list_skill_resources",
    "load_skill",
    "parse_allowed_tools",
    "parse_skill",
    "parse_skill_file",
    "plain",
    "read_skill_resource",
    "render_skill_line",
    "render_skills_block",
    "scan_skill_dirs",
    "search_order",
]

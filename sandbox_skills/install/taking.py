"""Takes the one skill out of a place that nobody trusts, and reads what was taken. Nothing is run. Blocking."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.catalog.load import load_skill
from sandbox_skills.catalog.parse import load_error, skill_id
from sandbox_skills.catalog.scan import ScanOptions, SkillScanner
from sandbox_skills.catalog.skill import SkillRoot
from sandbox_skills.catalog.skill_file import FILENAME, pick
from sandbox_skills.errors import SourceError
from sandbox_skills.workspace.paths import inside, open_root, shown
from sandbox_skills.workspace.skill_copy import write_tree
from sandbox_skills.workspace.skill_digest import TreeContent, tree_content
from sandbox_skills.workspace.skill_tree import scan

if TYPE_CHECKING:
    from sandbox_skills.catalog.diagnostics import Diagnostic
    from sandbox_skills.catalog.skill import SkillSpec
    from sandbox_skills.workspace.skill_tree import StageLimits

SEARCH = ScanOptions(
    mode="lenient", max_depth=6, skip_prefixes=(".git", "node_modules"), max_directories=5_000
)
"""How a source without a path is searched: repositories keep skills in folders such as `.claude` as well."""

MAX_CHOICES = 20
"""Paths that are offered where a source holds several skills."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A skill that was copied out of its source, as the copy is.

    `notes` say what was left out, `diagnostics` what is wrong with its text. `files` and `bytes` count regular files.
    """

    spec: SkillSpec
    folder: Path
    content: TreeContent
    diagnostics: tuple[Diagnostic, ...]
    notes: tuple[str, ...]
    files: int
    bytes: int


def take(
    found: Path, target: Path, limits: StageLimits, *, modes: tuple[int, int], told_as: str = ""
) -> Taken:
    """Copies the skill in the folder `found` into the directory `target`, under the id that its name gives.

    `modes` are those of a plain and of an executable file; `told_as` is what an error calls the SKILL.md. Raises
    SkillLoadError for a skill that does not load and SkillUnsafeError for one that cannot be staged.
    """
    partial = target / "skill"
    partial.mkdir()
    with open_root(found) as root_fd:
        tree = scan(root_fd, limits)
        write_tree(root_fd, tree, partial, modes=modes)
    checked = load_skill(partial)
    if checked.spec is None:
        raise load_error(told_as or str(found / FILENAME), checked.diagnostics)
    folder = partial.rename(target / skill_id(checked.spec.name))
    with open_root(folder) as root_fd:
        content = tree_content(root_fd, scan(root_fd, limits))
    loaded = load_skill(folder)
    spec = loaded.spec or checked.spec
    return Taken(spec, folder, content, loaded.diagnostics, tree.notes, tree.files, tree.bytes)


def locate(root: Path, path: str = "", *, choosing: str = "choose one with --path") -> Path:
    """Returns the folder of the one skill at `path` below `root`, or anywhere below it; raises SourceError.

    No link leads to it. `choosing` is how a caller says which of several is meant.
    """
    start = inside(root, path) if path else root
    if start.is_file() and start.name == FILENAME:
        start = start.parent
    if not start.is_dir():
        raise SourceError(f"there is no folder {shown(path)} in the source")
    if pick((entry.name for entry in start.iterdir()), FILENAME, any_case=True):
        return start
    found = _skills_below(start)
    if len(found) == 1:
        return found[0]
    if not found:
        raise SourceError("there is no SKILL.md in the source")
    choices = ", ".join(str(folder.relative_to(root)) for folder in found[:MAX_CHOICES])
    raise SourceError(f"the source holds {len(found)} skills", hint=f"{choosing}: {choices}")


def _skills_below(start: Path) -> list[Path]:
    """Returns the folders with a SKILL.md, those that do not load included: why not is worth telling."""
    result = SkillScanner([SkillRoot(str(start))], SEARCH).scan()
    specs = [*result.skills, *(lost.spec for lost in result.shadowed)]
    broken = [
        Path(issue.path) for issue in result.issues if any(d.severity == "error" for d in issue.diagnostics)
    ]
    files = {Path(spec.path) for spec in specs} | {
        path for path in broken if path.name.casefold() == FILENAME.casefold()
    }
    return sorted({file.parent for file in files})

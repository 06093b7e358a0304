"""The skills that were added: fetched beside their place, moved into it in one step, pinned. One folder for each.

root/               scanned; what is not pinned there is nobody's word
  NAME/             one skill
  .incoming-XXXX/   what is being fetched or removed; scans skip it
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from sandbox_skills.catalog.load import load_skill
from sandbox_skills.catalog.parse import load_error, skill_id
from sandbox_skills.catalog.pins import Pin
from sandbox_skills.catalog.scan import ScanOptions, SkillScanner
from sandbox_skills.catalog.skill import SkillRoot
from sandbox_skills.catalog.skill_file import FILENAME, pick
from sandbox_skills.errors import SkillNotFoundError, SourceError
from sandbox_skills.install.download import download
from sandbox_skills.install.incoming import incoming_directory, sweep
from sandbox_skills.install.limits import FetchLimits
from sandbox_skills.install.repository import export
from sandbox_skills.install.unpack import unpack
from sandbox_skills.workspace.paths import inside, open_root, shown
from sandbox_skills.workspace.skill_copy import write_tree
from sandbox_skills.workspace.skill_digest import TreeContent, tree_content
from sandbox_skills.workspace.skill_tree import scan

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from sandbox_skills.catalog.diagnostics import Diagnostic
    from sandbox_skills.install.source import Source
    from sandbox_skills.install.trust import Trust

MODES = (0o644, 0o755)
"""Of a plain and of an executable file: installed skills are the user's to edit, and then to trust again."""

SEARCH = ScanOptions(
    mode="lenient", max_depth=6, skip_prefixes=(".git", "node_modules"), max_directories=5_000
)
"""How a source without a path is searched: repositories keep skills in folders such as `.claude` as well."""

MAX_CHOICES = 20
"""Paths that are offered where a source holds several skills."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A skill that was fetched and checked, not yet in its place. `notes` say what was left out."""

    name: str
    folder: Path
    content: TreeContent
    source: Source
    diagnostics: tuple[Diagnostic, ...]
    notes: tuple[str, ...]

    @property
    def pin(self) -> Pin:
        """The pin that accepts exactly this content, wherever it lies."""
        return Pin(self.name, self.content.digest, self.content.files, self.source.location, self.source.path)


class Library:
    """The folder of added skills at `root`, which is made when it is first needed."""

    def __init__(self, root: Path, trust: Trust, limits: FetchLimits | None = None) -> None:
        self.root = root
        self._trust = trust
        self._limits = limits or FetchLimits()

    def incoming(self) -> AbstractContextManager[Path]:
        """Gives an empty directory for `fetch`, on the disk of the library; all in it is removed afterwards.

        Raises SettingsError where the library cannot be written, EngineError where its disk is at fault.
        """
        return incoming_directory(self.root)

    def sweep(self) -> list[str]:
        """Removes what fetches that died have left; returns the names. Raises OSError."""
        return sweep(self.root)

    async def fetch(self, source: Source, incoming: Path) -> Fetched:
        """Fetches a skill into `incoming` and checks it; nothing of it is run.

        Raises SourceError where there is not exactly one skill, SkillLoadError for one that does not load and
        SkillUnsafeError for one that cannot be staged.
        """
        packed = await self._packed(source, incoming)
        return await to_thread.run_sync(self._take, source, packed, incoming)

    async def _packed(self, source: Source, incoming: Path) -> Path | None:
        """Returns the archive that holds the skill; None where it lies in a folder."""
        match source.kind:
            case "folder":
                return None
            case "archive":
                return Path(source.location)
            case "address":
                await download(source.location, incoming / "download", self._limits)
                return incoming / "download"
            case "repository":
                return await export(source, incoming, self._limits)

    def _take(self, source: Source, packed: Path | None, incoming: Path) -> Fetched:
        """Copies the skill out of where it lies, and reads what the copy is."""
        place = Path(source.location).resolve() if packed is None else incoming / "unpacked"
        if packed is not None:
            place.mkdir()
            unpack(packed, place, self._limits)
        # Of a repository only the path was exported.
        found = locate(place, "" if source.kind == "repository" else source.path)
        target = incoming / "skill"
        target.mkdir()
        with open_root(found) as root_fd:
            tree = scan(root_fd, self._limits.unpacked)
            write_tree(root_fd, tree, target, modes=MODES)
        checked = load_skill(target)
        if checked.spec is None:
            raise load_error(str(found / FILENAME), checked.diagnostics)
        folder = target.rename(target.parent / skill_id(checked.spec.name))
        with open_root(folder) as root_fd:
            content = tree_content(root_fd, scan(root_fd, self._limits.unpacked))
        return Fetched(checked.spec.name, folder, content, source, load_skill(folder).diagnostics, tree.notes)

    def place(self, fetched: Fetched, *, replacing: str | None = None) -> Path:
        """Moves a fetched skill into its place and pins it; returns the place.

        `replacing` is the name of the skill that it may take the place of. Raises SourceError where another is
        there. A crash in between leaves a skill that is not what is pinned, which is refused.
        """
        target = self.root / fetched.folder.name
        if replacing is not None and replacing != fetched.name:
            raise SourceError(f"the source now holds {fetched.name!r}, not {replacing!r}")
        if target.exists() and replacing is None:
            raise SourceError(
                f"a skill lies at {target} already",
                hint=f"sandbox-skills update {shlex.quote(fetched.folder.name)}, or remove it",
            )
        if target.exists():
            target.rename(fetched.folder.parent / "replaced")
        fetched.folder.rename(target)
        self._trust.put(replace(fetched.pin, folder=str(target)))
        return target

    def installed(self, name: str) -> tuple[Path, Pin | None]:
        """Returns the folder of an added skill and its pin, whatever the skill calls itself now.

        Raises SkillNotFoundError for any other.
        """
        folder = self.root / skill_id(name)
        if not folder.is_dir() or folder.is_symlink():
            raise SkillNotFoundError(
                f"no skill {name!r} was added", hint="sandbox-skills list shows where skills lie"
            )
        return folder, next(iter(self._trust.pins_at(folder)), None)

    def content(self, folder: Path) -> TreeContent:
        """Returns what an added skill holds now; raises SkillUnsafeError for one that cannot be staged."""
        return self._trust.content(folder)

    def remove(self, name: str) -> Path:
        """Removes an added skill and every pin of its folder; returns where it was. Raises SkillNotFoundError."""
        folder, _ = self.installed(name)
        pins = self._trust.pins_at(folder)
        with self.incoming() as incoming:
            folder.rename(incoming / "removed")
        self._trust.drop(pins)
        return folder


def locate(root: Path, path: str = "") -> Path:
    """Returns the folder of the one skill at `path` below `root`, or anywhere below it; raises SourceError.

    No link leads to it.
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
    raise SourceError(f"the source holds {len(found)} skills", hint=f"choose one with --path: {choices}")


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

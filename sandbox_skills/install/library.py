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

from sandbox_skills.catalog.parse import skill_id
from sandbox_skills.catalog.pins import Pin
from sandbox_skills.errors import SkillNotFoundError, SourceError
from sandbox_skills.install.download import download
from sandbox_skills.install.incoming import incoming_directory, sweep
from sandbox_skills.install.limits import FetchLimits
from sandbox_skills.install.repository import export
from sandbox_skills.install.taking import locate, take
from sandbox_skills.install.unpack import unpack

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from sandbox_skills.catalog.diagnostics import Diagnostic
    from sandbox_skills.install.source import Source
    from sandbox_skills.install.trust import Trust
    from sandbox_skills.workspace.skill_digest import TreeContent

MODES = (0o644, 0o755)
"""Of a plain and of an executable file: installed skills are the user's to edit, and then to trust again."""


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
        taken = take(found, incoming, self._limits.unpacked, modes=MODES)
        return Fetched(taken.spec.name, taken.folder, taken.content, source, taken.diagnostics, taken.notes)

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

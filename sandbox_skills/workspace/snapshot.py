"""The files of a workspace as a tar on the host, and back into another box.

`work/` and `out/` are kept, with links that stay in the workspace; special files and private copies of skills are not.
What a tar holds is believed no more than what a box says, since it was made of that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeVar

import anyio.to_thread

from sandbox_skills.engines.wire import plain
from sandbox_skills.errors import OutputError, SnapshotError
from sandbox_skills.spec import KIB, WORKSPACE, CollectLimits
from sandbox_skills.workspace.choices import SnapshotLimits
from sandbox_skills.workspace.grants import BoxGrants
from sandbox_skills.workspace.in_box import change_mode, list_folders_and_links, remove_empty_folders
from sandbox_skills.workspace.inputs import put_inputs
from sandbox_skills.workspace.layout import DIRECTORIES
from sandbox_skills.workspace.memory import WorkspaceMemory
from sandbox_skills.workspace.outputs import FitNames
from sandbox_skills.workspace.paths import MAX_PATH_BYTES, shown
from sandbox_skills.workspace.snapshot_entries import (
    LINK,
    ROOTS,
    USUAL_MODE,
    Folder,
    Left,
    Link,
    read_listing,
)
from sandbox_skills.workspace.snapshot_tar import TarWriter, plan_restore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from sandbox_skills.engines.base import Sandbox
    from sandbox_skills.workspace.snapshot_entries import Entry
    from sandbox_skills.workspace.snapshot_tar import RestorePlan

__all__ = ["Snapshot", "plan_restore", "restore_snapshot", "take_snapshot"]

MAX_TOLD = 100
"""Entries that a snapshot says it lacks: as many as a collection tells."""

_MESSAGE_BYTES = 128 * KIB
"""Characters of names in one message to the box, which JSON may make twelve times as long, and which has 2 MiB."""

_ENTER = 0o100

E = TypeVar("E", Folder, Link)


def _unknown() -> WorkspaceMemory:
    return WorkspaceMemory(grants=BoxGrants.unknown())


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of one tenant's workspace in the tar at `path`, which has `size` bytes itself.

    `skipped` are the files, folders and links that it lacks, and why; of very many only some. `memory` is what the
    host remembers of the workspace: above all, which skills may have left something for the next one in it, and whose
    secrets may be in it. A tar alone tells nothing of that, so that no skill is given secrets beside its files.
    """

    path: Path
    tenant: str
    files: int
    bytes: int
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])
    folders: int = 0
    links: int = 0
    size: int = 0
    memory: WorkspaceMemory = field(default_factory=_unknown, repr=False, compare=False)

    def as_dict(self) -> dict[str, object]:
        """Returns what a snapshot is, for JSON."""
        return {
            "path": str(self.path),
            "files": self.files,
            "folders": self.folders,
            "links": self.links,
            "bytes": self.bytes,
            "size": self.size,
            "skipped": dict(self.skipped),
        }


async def take_snapshot(
    sandbox: Sandbox, path: Path, *, tenant: str, limits: SnapshotLimits | None = None
) -> Snapshot:
    """Writes the files of a workspace to `path`, mode 0600, which appears whole or not at all.

    It has the folders that are empty or of unusual mode, and the links that stay in the workspace. What is over the
    limits is left out and told. Counts as a run. Raises OutputError where the host cannot keep the file.
    """
    limits = limits or SnapshotLimits()
    collect = CollectLimits(files=limits.files, file_bytes=limits.bytes, total_bytes=limits.bytes)
    try:
        with TarWriter(path) as tar:
            fit = FitNames(tar)
            found = await sandbox.collect([f"{root}/**" for root in ROOTS], collect, fit)
            listing = _Listing(tar, limits)
            folders_and_links, whole = await list_folders_and_links(sandbox, ROOTS)
            await anyio.to_thread.run_sync(listing.add, folders_and_links)
            tar.commit()
    except OSError as error:
        raise OutputError(f"snapshot {shown(str(path))} cannot be saved: {error.strerror}") from error
    skipped = {
        **listing.not_kept(found.skipped),
        **fit.skipped,
        **dict.fromkeys(map(str, tar.cut), "collected_bytes"),
        **listing.skipped,
        **({} if whole else dict.fromkeys(ROOTS, "collected_files")),
    }
    return Snapshot(
        path, tenant, tar.files, tar.bytes, skipped, listing.folders, len(listing.links), tar.size
    )


class _Listing:
    """The folders and links of a workspace on their way into a tar."""

    def __init__(self, tar: TarWriter, limits: SnapshotLimits) -> None:
        self.folders = 0
        self.links: set[str] = set()
        self.skipped: dict[str, str] = {}
        self._tar = tar
        self._most = limits.files

    def add(self, listing: bytes) -> None:
        """Adds all of them that a snapshot has; blocks, for a tenth of a second where there are very many."""
        for entry in read_listing(listing):
            self._add(entry)

    def _add(self, entry: Entry | Left) -> None:
        if isinstance(entry, Left):
            self._skip(entry.name, entry.reason)
        elif len(self._tar.places) >= self._most:
            self._skip(str(entry.path), "collected_files")
        elif not self._tar.add(entry):
            self._skip(str(entry.path), "changed")
        elif isinstance(entry, Link):
            self.links.add(_told(str(entry.path)))
        else:
            self.folders += 1

    def not_kept(self, skipped: Mapping[str, str]) -> dict[str, str]:
        """Returns what a collection has skipped, without the links that are kept."""
        return {name: reason for name, reason in skipped.items() if reason != LINK or name not in self.links}

    def _skip(self, name: str, reason: str) -> None:
        if len(self.skipped) < MAX_TOLD:
            self.skipped[_told(name)] = reason


def _told(name: str) -> str:
    """Returns a name as a collection tells it."""
    return plain(name, MAX_PATH_BYTES)


async def restore_snapshot(
    sandbox: Sandbox, snapshot: Snapshot, *, tenant: str, limits: SnapshotLimits | None = None
) -> None:
    """Puts a snapshot into a new workspace; the tar is checked whole before the first file is put.

    Raises SnapshotError, and what `put_inputs` raises.
    """
    if snapshot.tenant != tenant:
        raise SnapshotError("there is no such snapshot")  # whose it is is nobody's business
    plan = await anyio.to_thread.run_sync(plan_restore, snapshot.path, limits or SnapshotLimits())
    await _put(sandbox, plan)


async def _put(sandbox: Sandbox, plan: RestorePlan) -> None:
    leaves = {file.target for file in plan.files} | {WORKSPACE / link.path for link in plan.links}
    # A box begins with folders of its own, in whose place a run may have put something else.
    if in_the_way := leaves.intersection(DIRECTORIES):
        await remove_empty_folders(sandbox, sorted(in_the_way))
    for folders in _batches(plan.folders):
        await sandbox.prepare(dirs=[WORKSPACE / folder.path for folder in folders])
    await put_inputs(sandbox, plan.files)
    for links in _batches(plan.links):
        await sandbox.prepare(links={WORKSPACE / link.path: PurePosixPath(link.target) for link in links})
    unusual = {folder.mode for folder in plan.folders} - {USUAL_MODE}
    # A folder that cannot be entered comes last: nothing below it can be reached any more.
    for mode in sorted(unusual, key=lambda mode: not mode & _ENTER):
        for folders in _batches(folder for folder in plan.folders if folder.mode == mode):
            await change_mode(sandbox, [WORKSPACE / folder.path for folder in folders], mode)


def _batches(entries: Iterable[E]) -> Iterator[list[E]]:
    batch: list[E] = []
    room = _MESSAGE_BYTES
    for entry in entries:
        size = len(repr(entry))
        if batch and size > room:
            yield batch
            batch, room = [], _MESSAGE_BYTES
        batch.append(entry)
        room -= size
    if batch:
        yield batch

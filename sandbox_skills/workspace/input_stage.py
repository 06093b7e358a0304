"""Planned inputs put into a box: host files and artifacts from here, the rest by the box itself."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from sandbox_skills.errors import InputError, PathEscapeError
from sandbox_skills.spec import WORKSPACE, CollectLimits
from sandbox_skills.workspace.in_box import copy_in_box, remove_file
from sandbox_skills.workspace.inputs import put_inputs
from sandbox_skills.workspace.media_types import HEAD_BYTES, media_type
from sandbox_skills.workspace.paths import shown
from sandbox_skills.workspace.patterns import literal_patterns

if TYPE_CHECKING:
    from pathlib import PurePosixPath

    from sandbox_skills.artifacts import ArtifactStore
    from sandbox_skills.engines.base import Sandbox
    from sandbox_skills.spec import Collection, FoundFile
    from sandbox_skills.workspace.input_plan import PlannedArtifact, PlannedMove, RunInputs
    from sandbox_skills.workspace.inputs import Budget, StagedInput

_MOST_FILES = 100_000
"""More than any workspace has inodes for."""


async def stage_inputs(
    sandbox: Sandbox, inputs: RunInputs, artifacts: ArtifactStore | None, *, tenant: str
) -> tuple[StagedInput, ...]:
    """Puts every input in its place; returns one row for each, in the order in which they were asked for.

    Raises InputError for a source that is not there (any more), PathEscapeError where a link is in the way,
    WorkspaceFullError. What was put by then stays.
    """
    staged = list(inputs.host.staged)
    # First what lies in the box: an input that is put may not become another one's source.
    for move in inputs.moves:
        staged[move.row] = await _move(sandbox, move, staged[move.row], inputs.budget)
    if inputs.host.files:
        await put_inputs(sandbox, inputs.host.files)
    for planned in inputs.artifacts:
        assert artifacts is not None
        await _put_artifact(sandbox, planned, artifacts, tenant=tenant)
    return tuple(staged)


async def _put_artifact(
    sandbox: Sandbox, planned: PlannedArtifact, artifacts: ArtifactStore, *, tenant: str
) -> None:
    wanted = planned.artifact
    async with (
        artifacts.open(wanted.name, wanted.version, tenant=tenant) as reader,
        aclosing(reader.chunks()) as chunks,
    ):
        await sandbox.put(planned.target, chunks)


async def _move(sandbox: Sandbox, move: PlannedMove, row: StagedInput, budget: Budget) -> StagedInput:
    if not move.measured:
        row = await _measured(sandbox, move, row, budget)
    await sandbox.prepare(dirs=[move.target.parent] if move.target.parent != WORKSPACE else [])
    removed = await remove_file(sandbox, move.target)
    if not move.link:
        await copy_in_box(sandbox, move.source, move.target)
    elif removed:
        await sandbox.prepare(links={move.target: move.source})
    else:
        raise InputError(f"input target {shown(row.name)} is a folder, and no link can take its place")
    return row


async def _measured(sandbox: Sandbox, move: PlannedMove, row: StagedInput, budget: Budget) -> StagedInput:
    """Returns the row with what the source has, found without following a link; raises InputError for nothing."""
    patterns = literal_patterns(move.source)
    found = await sandbox.collect(patterns, CollectLimits(files=_MOST_FILES, file_bytes=0), _Nothing())
    _check_found(found, move, row.source)
    size = sum(file.size for file in found.files)
    budget.next_input()
    budget.take(0 if move.link else size, files=len(found.files))
    row = replace(row, files=len(found.files), size_bytes=size)
    if [file.path for file in found.files] == [move.source.relative_to(WORKSPACE)]:
        row = replace(row, mime_type=await _media_type(sandbox, move.source))
    return row


async def _media_type(sandbox: Sandbox, source: PurePosixPath) -> str:
    async with sandbox.get(source, max_bytes=HEAD_BYTES) as chunks:
        head = b"".join([chunk async for chunk in chunks])
    return media_type(source.name, head)


def _check_found(found: Collection, move: PlannedMove, source: str) -> None:
    relative = str(move.source.relative_to(WORKSPACE))
    if found.skipped.get(relative) == "link":
        raise PathEscapeError(f"input {shown(source)} is a link", hint="name what it leads to")
    if not found.files:
        raise InputError(
            f"input {shown(source)}: the workspace has no file there",
            hint="files of another session or of a run that removed them are gone; look at out/ and work/",
        )


class _Nothing:
    """Takes files whose bytes nobody asked for."""

    blocking = False

    def begin(self, file: FoundFile) -> None: ...

    def write(self, data: bytes) -> None: ...

    def end(self) -> None: ...

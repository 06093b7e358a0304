"""Every input of a run found and measured before anything starts, whatever its scheme."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import anyio.to_thread

from sandbox_skills.errors import InputError
from sandbox_skills.spec import WORKSPACE
from sandbox_skills.workspace.choices import InputLimits
from sandbox_skills.workspace.input_refs import (
    ArtifactSource,
    HostSource,
    InputRef,
    SkillSource,
    WorkspaceSource,
    parse_source,
    source_name,
    target_path,
)
from sandbox_skills.workspace.inputs import Budget, FilePlan, Input, PlannedInputs, StagedInput
from sandbox_skills.workspace.paths import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sandbox_skills.artifacts import Artifact, ArtifactStore
    from sandbox_skills.workspace.input_refs import Source

AnyInput = Input | InputRef
Pins = dict[tuple[str, PurePosixPath], int]
"""Versions that a session was given, by the artifact's name and the place."""


@dataclass(frozen=True, slots=True)
class SkillPlace:
    """Where a staged skill lies: its box path, and the copy on the host."""

    box: PurePosixPath
    host: Path


@dataclass(frozen=True, slots=True)
class InputRules:
    """What an operator allows: the host folders that `host://` may name, and how much a run is given."""

    host_roots: tuple[Path, ...] = ()
    limits: InputLimits = field(default_factory=InputLimits)


@dataclass(frozen=True, slots=True)
class InputContext:
    """What the sources of one run's inputs may mean: whose artifacts, which skills, which pinned versions."""

    rules: InputRules
    tenant: str
    artifacts: ArtifactStore | None = None
    skills: Mapping[str, SkillPlace] = field(default_factory=dict[str, SkillPlace])
    pins: Pins = field(default_factory=Pins)


@dataclass(frozen=True, slots=True)
class PlannedArtifact:
    """One version of an artifact to put."""

    artifact: Artifact
    target: PurePosixPath


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """A copy or link to be made within the box. `row` is its place among the staged inputs.

    `measured` is False for what only the box can see: it is looked for there before the run.
    """

    source: PurePosixPath
    target: PurePosixPath
    row: int
    link: bool
    measured: bool


@dataclass(frozen=True, slots=True)
class RunInputs:
    """All that a run is given: host files to put, artifacts, and what is copied or linked within the box.

    `budget` is what is left for the sources that only the box can measure.
    """

    host: PlannedInputs = field(default_factory=PlannedInputs)
    artifacts: tuple[PlannedArtifact, ...] = ()
    moves: tuple[PlannedMove, ...] = ()
    budget: Budget = field(default_factory=lambda: Budget(InputLimits()))

    @property
    def notes(self) -> tuple[str, ...]:
        return self.host.notes


NO_INPUTS = RunInputs()
"""As most runs have. Shared: nothing in it is ever counted against its budget."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """One reference, read, with the artifact that it stands for where it is one."""

    ref: InputRef
    source: Source
    target: PurePosixPath
    artifact: Artifact | None = None


async def plan_run_inputs(inputs: Sequence[AnyInput], context: InputContext) -> RunInputs:
    """Returns all that the inputs come to; raises RequestError before anything is started.

    What lies in the workspace is only read here, and looked for when the box is there.
    """
    if not inputs:
        return RunInputs()
    asked = [await _asked(one, context) if isinstance(one, InputRef) else one for one in inputs]
    return await anyio.to_thread.run_sync(_planned, asked, context)


async def _asked(ref: InputRef, context: InputContext) -> _Asked:
    source = parse_source(ref.source)
    target = target_path(ref.to, source_name(source))
    if not isinstance(source, ArtifactSource):
        return _Asked(ref, source, target)
    if context.artifacts is None:
        raise InputError(f"input {shown(ref.source)}: there is no artifact store here")
    version = source.version
    if version is None and ref.pin:
        version = context.pins.get((source.name, target))
    artifact = await context.artifacts.stat(source.name, version, tenant=context.tenant)
    if ref.pin:
        context.pins.setdefault((artifact.name, target), artifact.version)
    return _Asked(ref, source, target, artifact)


def _planned(asked: Sequence[Input | _Asked], context: InputContext) -> RunInputs:
    plan = _Plan(context)
    for one in asked:
        plan.add(one)
    plan.files.check_nesting()
    host = PlannedInputs(tuple(plan.files.files.values()), tuple(plan.files.notes), tuple(plan.staged))
    return RunInputs(host, tuple(plan.artifacts), tuple(plan.moves), plan.files.budget)


class _Plan:
    """The inputs of a run as they are found, one row of `staged` for each."""

    def __init__(self, context: InputContext) -> None:
        self.files = FilePlan(context.rules.limits)
        self.staged: list[StagedInput] = []
        self.artifacts: list[PlannedArtifact] = []
        self.moves: list[PlannedMove] = []
        self._context = context

    def add(self, one: Input | _Asked) -> None:
        self.staged.append(self.files.add(one) if isinstance(one, Input) else self._add(one))

    def _add(self, one: _Asked) -> StagedInput:
        match one.source:
            case ArtifactSource():
                return self._add_artifact(one)
            case HostSource(path):
                root, relative = self._allowed(path)
                if one.ref.mode == "link":
                    self.files.notes.append(
                        f"input {shown(one.ref.source)} is a copy: the host is not linked to"
                    )
                return self.files.add_below(root, relative, one.target, one.ref.source)
            case SkillSource(skill, path):
                return self._add_of_skill(one, skill, path)
            case WorkspaceSource(path):
                return self._add_of_workspace(one, path)

    def _add_artifact(self, one: _Asked) -> StagedInput:
        artifact = one.artifact
        assert artifact is not None
        self.files.claim(one.target)
        self.files.budget.next_input()
        self.files.budget.take(artifact.size)
        self.artifacts.append(PlannedArtifact(artifact, one.target))
        return StagedInput(
            name=str(one.target.relative_to(WORKSPACE)),
            source=one.ref.source,
            size_bytes=artifact.size,
            mime_type=artifact.mime_type,
            version=artifact.version,
        )

    def _allowed(self, path: PurePosixPath) -> tuple[Path, PurePosixPath]:
        """Returns the allowed folder that `path` lies in, and its path from there."""
        for root in self._context.rules.host_roots:
            with suppress(ValueError):
                return root.resolve(), path.relative_to(root)
        raise InputError(
            f"host path {shown(str(path))} is in no folder that inputs may come from",
            hint="whoever runs the host names such folders in inputs.host_roots",
        )

    def _add_of_skill(self, one: _Asked, skill: str, path: PurePosixPath) -> StagedInput:
        place = self._context.skills.get(skill)
        if place is None:
            near = get_close_matches(skill, self._context.skills, n=1)
            raise InputError(
                f"skill {shown(skill)} is not staged in this session",
                hint=f"did you mean {shown(near[0])}?" if near else "run it first",
            )
        if one.ref.mode == "copy":
            return self.files.add_below(place.host, path, one.target, one.ref.source)
        # Looked at as a copy would be, so that a link never leads to nothing; it has no files of its own.
        found = FilePlan(self._context.rules.limits).add_below(place.host, path, one.target, one.ref.source)
        self._move(one, place.box / path, measured=True)
        return found

    def _add_of_workspace(self, one: _Asked, path: PurePosixPath) -> StagedInput:
        if one.target == path or one.target.is_relative_to(path) or path.is_relative_to(one.target):
            raise InputError(f"input {shown(one.ref.source)} and its target lie in one another")
        self._move(one, path, measured=False)
        return StagedInput(str(one.target.relative_to(WORKSPACE)), one.ref.source, files=0)

    def _move(self, one: _Asked, source: PurePosixPath, *, measured: bool) -> None:
        self.files.claim(one.target)
        link = one.ref.mode == "link"
        self.moves.append(PlannedMove(source, one.target, len(self.staged), link, measured))

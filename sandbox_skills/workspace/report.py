"""Collected files made into what a model is told: a type, text where it is text, a reference, the answer among them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from anyio import to_thread

from sandbox_skills.artifacts import ArtifactMetadata
from sandbox_skills.errors import ArtifactStoreError, RequestError
from sandbox_skills.spec import KIB
from sandbox_skills.telemetry import NOTHING, Redaction
from sandbox_skills.workspace.media_types import HEAD_BYTES, inline_text, media_type
from sandbox_skills.workspace.output_rules import primary_output, without_empty, without_truncated
from sandbox_skills.workspace.output_spec import KEPT_IN_WORKSPACE
from sandbox_skills.workspace.paths import safe_file_name, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_skills.artifacts import Artifact, ArtifactStore
    from sandbox_skills.spec import Outcome
    from sandbox_skills.workspace.output_spec import OutputPlan
    from sandbox_skills.workspace.outputs import CollectedFile

WORKSPACE_SCHEME = "workspace://"

THREAD_BYTES = 256 * KIB
"""Of all files: to look at fewer takes less than a millisecond, and handing them to a thread and back a fifth of it."""

NO_STORE = "nothing was saved: there is no artifact store here"
"""The warning where files were to be saved; the run itself did what it was asked."""


@dataclass(frozen=True, slots=True)
class OutputFile:
    """One output as a model is told of it.

    `content` is its text, empty where it is none or was not asked for. `ref` is what a later call of the session
    gives as an input.
    """

    name: str
    content: str
    mime_type: str
    size_bytes: int
    truncated: bool
    ref: str

    def as_dict(self) -> dict[str, object]:
        """Returns the one spelling of an output, for JSON."""
        return {
            "name": self.name,
            "content": self.content,
            "mime_type": self.mime_type,
            "size_bytes": self.size_bytes,
            "truncated": self.truncated,
            "ref": self.ref,
        }


@dataclass(frozen=True, slots=True)
class OutputReport:
    """What was asked for, the file that is the run's answer, what was saved, and what to know of it."""

    output_files: tuple[OutputFile, ...] = ()
    primary_output: OutputFile | None = None
    artifacts: tuple[Artifact, ...] = ()
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, object]:
        """Returns the one spelling of a report, for JSON."""
        primary = self.primary_output
        return {
            "output_files": [file.as_dict() for file in self.output_files],
            "primary_output": None if primary is None else primary.as_dict(),
            "artifact_files": [
                {"name": one.name, "version": one.version, "ref": one.ref} for one in self.artifacts
            ],
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True, slots=True)
class Saving:
    """Where a run's outputs are saved, and what is written beside them."""

    store: ArtifactStore | None
    tenant: str
    skill: str
    digest: str
    run_id: str


def counted(
    files: Sequence[CollectedFile], outcome: Outcome
) -> tuple[tuple[CollectedFile, ...], tuple[str, ...]]:
    """Returns the files that count, and warnings of those that do not and of output that was cut."""
    kept, warnings = without_empty(files, outcome.ending)
    cut = (
        ("stdout", outcome.stdout_truncated, len(outcome.stdout), outcome.stdout_bytes),
        ("stderr", outcome.stderr_truncated, len(outcome.stderr), outcome.stderr_bytes),
    )
    said = tuple(
        f"{name} was cut: the first {_size(shown_bytes)} of {_size(total)} are here"
        for name, is_cut, shown_bytes, total in cut
        if is_cut
    )
    return kept, (*said, *warnings)


def _size(count: int) -> str:
    return f"{count / KIB:.0f} KiB" if count >= 10 * KIB else f"{count} bytes"


async def reported(
    files: Sequence[CollectedFile],
    plan: OutputPlan,
    *,
    warnings: Sequence[str] = (),
    redaction: Redaction = NOTHING,
) -> OutputReport:
    """Returns what `report_of` does; many bytes are looked at in a worker thread, as the loop serves others too."""
    if not files:
        return OutputReport(warnings=(*plan.warnings, *warnings))
    look = partial(report_of, files, plan, warnings=warnings, redaction=redaction)
    if sum(len(file.data or b"") for file in files) < THREAD_BYTES:
        return look()
    return await to_thread.run_sync(look)


def report_of(
    files: Sequence[CollectedFile],
    plan: OutputPlan,
    *,
    warnings: Sequence[str] = (),
    redaction: Redaction = NOTHING,
) -> OutputReport:
    """Returns what is told of files that count; nothing is saved by this.

    What `redaction` takes out is missing from the texts that are shown; the files are saved as they are.
    """
    rows = [
        (file, mime, _shown_text(file, text, redaction)) for file in files for mime, text in [_typed(file)]
    ]
    told = {file.path: _told(file, mime, text if plan.inline else None) for file, mime, text in rows}
    primary = primary_output((file.path, None if file.truncated else text) for file, _, text in rows)
    listed = tuple(told.values()) if plan.listed else ()
    unsaved = (KEPT_IN_WORKSPACE,) if listed and not plan.save else ()
    return OutputReport(
        output_files=listed,
        primary_output=None if primary is None else told[primary],
        warnings=(*plan.warnings, *warnings, *unsaved),
    )


def _typed(file: CollectedFile) -> tuple[str, str | None]:
    mime = _mime_type(file)
    return mime, inline_text(file.data or b"", mime, complete=not file.truncated)


def _mime_type(file: CollectedFile) -> str:
    return media_type(file.path.name, (file.data or b"")[:HEAD_BYTES])


def _shown_text(file: CollectedFile, text: str | None, redaction: Redaction) -> str | None:
    return None if text is None else redaction.text(text, cut=file.truncated)


def _told(file: CollectedFile, mime: str, text: str | None) -> OutputFile:
    return OutputFile(
        name=str(file.path),
        content=text or "",
        mime_type=mime,
        size_bytes=file.size,
        truncated=file.truncated,
        ref=f"{WORKSPACE_SCHEME}{file.path}",
    )


async def save_outputs(
    files: Sequence[CollectedFile], plan: OutputPlan, report: OutputReport, saving: Saving
) -> OutputReport:
    """Returns the report with what was saved of the files, each as the next version of its name.

    What cannot be saved is a warning: the run is over, and its result stays.
    """
    if not plan.save or not files:
        return report
    if saving.store is None:
        return replace(report, warnings=(*report.warnings, NO_STORE))
    whole, warnings = without_truncated(files)
    saved: list[Artifact] = []
    for file in whole:
        name = plan.artifact_name(file.path)
        try:
            saved.append(await _save(file, name, saving, saving.store))
        except (RequestError, ArtifactStoreError) as error:
            warnings = (*warnings, f"{shown(str(file.path))} was not saved: {error.message}")
    return replace(report, artifacts=tuple(saved), warnings=(*report.warnings, *warnings))


async def _save(file: CollectedFile, name: str, saving: Saving, store: ArtifactStore) -> Artifact:
    metadata = ArtifactMetadata(
        mime_type=_mime_type(file),
        # Any text may be a skill's name, but the store takes none that is no name.
        skill=safe_file_name(saving.skill, default="skill") if saving.skill else "",
        skill_digest=saving.digest,
        run_id=saving.run_id,
    )
    return await store.save(name, file.data or b"", metadata, tenant=saving.tenant)

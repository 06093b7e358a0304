"""Artifacts as a list and as pages. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.daemon.ui.views.files import FileView, artifact_path, artifact_view
from sandbox_skills.daemon.ui.views.formatting import Time, counted, size, time_of
from sandbox_skills.daemon.ui.views.log_text import page_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sandbox_skills.artifacts import Artifact
    from sandbox_skills.artifacts.store import Usage


@dataclass(frozen=True, slots=True)
class ArtifactRow:
    """One line of a list: a version of an artifact."""

    path: str
    name: str
    mime_type: str
    version: int
    size: str
    skill: str
    saved: Time


@dataclass(frozen=True, slots=True)
class ArtifactList:
    """Artifacts whose names begin alike."""

    usage: str
    prefix: str
    rows: tuple[ArtifactRow, ...]
    next: str


@dataclass(frozen=True, slots=True)
class ArtifactPage:
    """One version of an artifact, and the others."""

    file: FileView
    version: int
    facts: tuple[tuple[str, str], ...]
    saved: Time
    versions: tuple[ArtifactRow, ...]


def artifact_row(one: Artifact, now: float) -> ArtifactRow:
    """Returns an artifact as one line."""
    return ArtifactRow(
        artifact_path(one.name, one.version),
        page_line(one.name),
        page_line(one.mime_type),
        one.version,
        size(one.size),
        page_line(one.skill),
        time_of(one.created, now),
    )


def artifact_page(
    one: Artifact, text: str | None, versions: Sequence[Artifact], *, base: str, now: float
) -> ArtifactPage:
    """Returns the page of a version; `text` is its beginning where it is text."""
    newest_first = sorted(versions, key=lambda other: -other.version)
    return ArtifactPage(
        file=artifact_view(one, text, base=base),
        version=one.version,
        facts=tuple(_facts(one)),
        saved=time_of(one.created, now),
        versions=tuple(artifact_row(other, now) for other in newest_first) if len(versions) > 1 else (),
    )


def usage_words(usage: Usage) -> str:
    """Returns how much a tenant keeps."""
    return f"{counted(usage.count, 'version')} of {counted(usage.names, 'name')}, {size(usage.bytes)}"


def _facts(one: Artifact) -> Iterable[tuple[str, str]]:
    yield "Type", page_line(one.mime_type)
    yield "Size", size(one.size)
    yield "SHA-256", one.sha256
    if one.skill:
        yield "Skill", page_line(one.skill)
    if one.run_id:
        yield "Run in the workspace", page_line(one.run_id)

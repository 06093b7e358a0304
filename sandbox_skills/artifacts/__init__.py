"""Kept, versioned outputs. `store` says what an artifact store is, `local` keeps one on this host's disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.lazy_names import lazy_names

if TYPE_CHECKING:
    from sandbox_skills.artifacts.local import LocalArtifactStore
    from sandbox_skills.artifacts.names import MAX_NAME_BYTES, check_name, format_ref, parse_ref
    from sandbox_skills.artifacts.store import (
        DAY_SECONDS,
        DEFAULT_PAGE,
        MAX_PAGE,
        Artifact,
        ArtifactMetadata,
        ArtifactQuota,
        ArtifactReader,
        ArtifactStore,
        Content,
        Page,
        Removed,
        RetentionPolicy,
        Usage,
    )

_HOMES = {
    "local": ("LocalArtifactStore",),
    "names": ("MAX_NAME_BYTES", "check_name", "format_ref", "parse_ref"),
    "store": (
        "DAY_SECONDS",
        "DEFAULT_PAGE",
        "MAX_PAGE",
        "Artifact",
        "ArtifactMetadata",
        "ArtifactQuota",
        "ArtifactReader",
        "ArtifactStore",
        "Content",
        "Page",
        "Removed",
        "RetentionPolicy",
        "Usage",
    ),
}

__all__ = [
    "DAY_SECONDS",
    "DEFAULT_PAGE",
    "MAX_NAME_BYTES",
    "MAX_PAGE",
    "Artifact",
    "ArtifactMetadata",
    "ArtifactQuota",
    "ArtifactReader",
    "ArtifactStore",
    "Content",
    "LocalArtifactStore",
    "Page",
    "Removed",
    "RetentionPolicy",
    "Usage",
    "check_name",
    "format_ref",
    "parse_ref",
]

__getattr__ = lazy_names(__name__, _HOMES)

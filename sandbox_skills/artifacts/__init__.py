"""Kept, versioned outputs. `store` says what an artifact store is, `local` keeps one on this host's disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.lazy_names import lazy_names

if TYPE_CHECKING:
    from sandbox_skills.artifacts.choices import DAY_SECONDS, ArtifactQuota, RetentionPolicy
    from sandbox_skills.artifacts.local import LocalArtifactStore
    from sandbox_skills.artifacts.names import MAX_NAME_BYTES, check_name, format_ref, parse_ref
    from sandbox_skills.artifacts.store import (
        DEFAULT_PAGE,
        MAX_PAGE,
        Artifact,
        ArtifactMetadata,
        ArtifactReader,
        ArtifactStore,
        Content,
        Page,
        Removed,
        Usage,
    )

_HOMES = {
    "choices": ("DAY_SECONDS", "ArtifactQuota", "RetentionPolicy"),
    "local": ("LocalArtifactStore",),
    "names": ("MAX_NAME_BYTES", "check_name", "format_ref", "parse_ref"),
    "store": (
        "DEFAULT_PAGE",
        "MAX_PAGE",
        "Artifact",
        "ArtifactMetadata",
        "ArtifactReader",
        "ArtifactStore",
        "Content",
        "Page",
        "Removed",
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

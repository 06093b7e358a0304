"""Kept, versioned outputs. `store` says what an artifact store is, `local` keeps one on this host's disk."""

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

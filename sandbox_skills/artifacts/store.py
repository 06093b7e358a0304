"""What an artifact store is: read this first. Every value can be serialised, so that a remote store fits behind it."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sandbox_skills.artifacts.choices import ArtifactQuota
from sandbox_skills.artifacts.names import format_ref

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from contextlib import AbstractAsyncContextManager

    from sandbox_skills.artifacts.choices import RetentionPolicy

Content = bytes | Path | AsyncIterable[bytes]
"""Bytes to keep: at once, in a host file, or as they come."""

DEFAULT_PAGE = 100
"""Artifacts of a page: about 40 KB of JSON, one answer's worth."""

MAX_PAGE = 1000
"""Most artifacts of a page: bounds what one call holds, and a store of usual size is listed in a few calls."""


@dataclass(frozen=True, slots=True)
class ArtifactMetadata:
    """What the saver says of an artifact; each text at most MAX_NAME_BYTES without control characters."""

    mime_type: str = "application/octet-stream"
    skill: str = ""
    skill_digest: str = ""
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One version of a kept file. `sha256` is hex, `created` seconds since the epoch."""

    name: str
    version: int
    mime_type: str
    size: int
    sha256: str
    skill: str
    skill_digest: str
    run_id: str
    created: float

    @property
    def ref(self) -> str:
        """What later calls give as an input: exactly this version."""
        return format_ref(self.name, self.version)

    def as_dict(self) -> dict[str, object]:
        """Returns the one spelling of an artifact, for JSON; never its bytes."""
        return {"ref": self.ref, **asdict(self)}


@dataclass(frozen=True, slots=True)
class Page:
    """Some artifacts of a listing. `next` is where the following page starts, None at the end."""

    artifacts: tuple[Artifact, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What a tenant keeps. `bytes` counts each version, `stored_bytes` equal contents once."""

    names: int = 0
    count: int = 0
    bytes: int = 0
    stored_bytes: int = 0


QuotaOf = Callable[[str], ArtifactQuota]
"""Tells the quota of a tenant, asked anew at every use."""


@dataclass(frozen=True, slots=True)
class Removed:
    """What went: artifacts, oldest first, and how many files that belonged to no artifact."""

    artifacts: tuple[Artifact, ...] = ()
    leftovers: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of the artifacts; shared contents are free only when their last version went."""
        return sum(artifact.size for artifact in self.artifacts)


class ArtifactReader(Protocol):
    """One artifact that is open. It can be read to its end even if it is deleted meanwhile."""

    @property
    def artifact(self) -> Artifact: ...

    def chunks(self, offset: int = 0, length: int | None = None) -> AsyncGenerator[bytes]:
        """Yields the bytes from `offset`, at most `length` of them; none where they start behind the end.

        Read whole, the bytes are compared with their digest. Raises ArtifactStoreError where they are damaged.
        """
        ...


class ArtifactStore(Protocol):
    """Keeps versioned outputs. Tenants share nothing and cannot tell what others keep.

    Each method raises ArtifactNameError or PathEscapeError for a name that is none, and ArtifactStoreError where
    the store cannot be used. Safe for any number of callers; after a cancel a change is done whole or not at all.
    """

    async def save(
        self, name: str, content: Content, metadata: ArtifactMetadata | None = None, *, tenant: str
    ) -> Artifact:
        """Keeps `content` as the next version of `name`: 0 is the first, and no number is given twice.

        A host file may not be a link. Raises QuotaError before any of it can be seen, and where the size is known
        before any of it is written; InputError for a host file that cannot be read.
        """
        ...

    def open(
        self, name: str, version: int | None = None, *, tenant: str
    ) -> AbstractAsyncContextManager[ArtifactReader]:
        """Opens one version, the latest without a number; raises ArtifactNotFoundError on entering."""
        ...

    async def get(
        self, name: str, version: int | None = None, *, max_bytes: int, tenant: str
    ) -> tuple[Artifact, bytes]:
        """Returns one version and its first `max_bytes`; its `size` tells whether that is all. Raises as `open`."""
        ...

    async def stat(self, name: str, version: int | None = None, *, tenant: str) -> Artifact:
        """Returns what is known of one version; raises ArtifactNotFoundError."""
        ...

    async def list(
        self,
        prefix: str = "",
        *,
        all_versions: bool = False,
        after: str | None = None,
        limit: int = DEFAULT_PAGE,
        tenant: str,
    ) -> Page:
        """Returns artifacts whose names start with `prefix`, by name and version; only the latest unless told.

        `after` is `next` of the page before; at most `limit` and MAX_PAGE come. What is saved between two pages
        may be missed, nothing comes twice.
        """
        ...

    async def delete(self, name: str, version: int | None = None, *, tenant: str) -> Removed:
        """Removes one version, or every one without a number; raises ArtifactNotFoundError where there is none."""
        ...

    async def retain(self, policy: RetentionPolicy, *, tenant: str) -> Removed:
        """Removes what the policy does not leave, and what writers that died have left."""
        ...

    async def usage(self, *, tenant: str) -> Usage:
        """Returns how much a tenant keeps."""
        ...

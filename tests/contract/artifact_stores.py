"""The implementations of `ArtifactStore` that the suite puts through it, each opened by one function.

Another one is added to OPENERS; the suite knows nothing of directories.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.artifacts import ArtifactQuota, LocalArtifactStore
from tests.daemon_host import opened_host

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from sandbox_skills.artifacts import ArtifactStore


@dataclass(frozen=True)
class Keeping:
    """A store, and what it takes to try it: `new_tenant` returns the id of one that may keep so many versions."""

    store: ArtifactStore
    new_tenant: Callable[[str, int], Awaitable[str]]


Opener = Callable[[Path], AbstractAsyncContextManager[Keeping]]


@asynccontextmanager
async def _local(folder: Path) -> AsyncGenerator[Keeping]:
    counts: dict[str, int] = {}

    async def new_tenant(name: str, count: int) -> str:
        counts[name] = count
        return name

    yield Keeping(
        LocalArtifactStore(folder, quota=lambda tenant: ArtifactQuota(count=counts[tenant])), new_tenant
    )


@asynccontextmanager
async def _daemon(folder: Path) -> AsyncGenerator[Keeping]:
    """The one that a daemon's runs and routes share, by the limits of its tenants."""
    async with opened_host(folder) as host:

        async def new_tenant(name: str, count: int) -> str:
            key = await host.tenant(name, limits={"artifact_count": count})
            return (await host.daemon.keys.identify(key)).tenant.id

        yield Keeping(host.daemon.artifacts, new_tenant)


OPENERS: dict[str, Opener] = {"local": _local, "daemon": _daemon}

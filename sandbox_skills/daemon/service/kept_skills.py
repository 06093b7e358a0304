"""What is kept of tenants' skills, in memory and on disk: always what the database says, and never less."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from anyio import to_thread

from sandbox_skills.daemon.service.tenant_skills import TenantSkills, uploaded_spec
from sandbox_skills.daemon.service.while_used import WhileUsed
from sandbox_skills.daemon.truth.skills import kept_digests, latest_versions
from sandbox_skills.engines.cancellation import finish
from sandbox_skills.errors import EngineError, SkillNotFoundError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from sandbox_skills.catalog import SkillSpec
    from sandbox_skills.daemon.service.skill_folders import SkillFolders
    from sandbox_skills.daemon.service.tenant_skills import ServerSkills
    from sandbox_skills.daemon.truth.database import Database
    from sandbox_skills.daemon.truth.skills import SkillVersion
    from sandbox_skills.install.taking import Taken


T = TypeVar("T")

REMEMBERED = 256
"""Contents whose text is not read again: each run asks for its own, and no more of them are busy at a time."""


class KeptSkills:
    """The contents of uploaded skills and what is read of them. Only this process may change the folders."""

    def __init__(self, database: Database, folders: SkillFolders, server: ServerSkills) -> None:
        self.folders = folders
        self.server = server
        self._database = database
        self._known: dict[str, TenantSkills] = {}
        self._read: OrderedDict[tuple[str, str], SkillSpec] = OrderedDict()
        self._held: Counter[tuple[str, str]] = Counter()
        self._left: set[tuple[str, str]] = set()
        self._locks = WhileUsed(asyncio.Lock)

    async def skills(self, *, tenant: str) -> TenantSkills:
        """Returns the tenant's skills as runs and models see them; the same object every time, always current."""
        if (known := self._known.get(tenant)) is not None:
            return known
        async with self._locks.of(tenant):
            return self._known.get(tenant) or await self._load(tenant)

    @asynccontextmanager
    async def changing(self, *, tenant: str) -> AsyncGenerator[None]:
        """Lets one change of a tenant's skills happen at a time; when it has, or has failed, all is as the rows say."""
        async with self._locks.of(tenant):
            try:
                yield
            finally:
                await finish(self._settle(tenant))

    async def place(self, taken: Taken, *, tenant: str) -> None:
        """Puts a content where it stays, within `changing`; raises EngineError."""
        await _disk(partial(self.folders.add, taken, tenant=tenant))
        self._read.pop((tenant, taken.content.digest), None)  # its folder may have another name

    @asynccontextmanager
    async def opened(self, digest: str, *, tenant: str) -> AsyncGenerator[SkillSpec]:
        """Gives a content whose folder is not removed meanwhile, whoever deletes it; raises SkillNotFoundError."""
        key = (tenant, digest)
        self._held[key] += 1
        try:
            spec = self._read.get(key) or await to_thread.run_sync(self._spec, digest, tenant)
            if spec is None:
                raise SkillNotFoundError("the files of this version of the skill are gone")
            yield spec
        finally:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]
                if key in self._left:  # by a collection meanwhile: else there is nothing to be removed
                    await finish(self.collect(tenant=tenant))

    async def collect(self, *, tenant: str) -> None:
        """Removes contents that neither a version nor a run needs any more; raises EngineError."""
        async with self._locks.of(tenant):
            await self._collect(tenant)

    async def collect_all(self) -> None:
        """Removes them of every tenant, with what uploads of dead processes have left."""
        for tenant in await to_thread.run_sync(self.folders.tenants):
            await self.collect(tenant=tenant)

    async def _settle(self, tenant: str) -> None:
        await self._load(tenant)
        await self._collect(tenant)

    async def _collect(self, tenant: str) -> None:
        kept = await self._database.read(partial(kept_digests, tenant_id=tenant))
        held = {digest for owner, digest in self._held if owner == tenant}
        self._left = {one for one in self._left if one[0] != tenant} | {(tenant, one) for one in held - kept}
        for gone in await _disk(partial(self.folders.sweep, kept | held, tenant=tenant)):
            self._read.pop((tenant, gone), None)

    async def _load(self, tenant: str) -> TenantSkills:
        versions = await self._database.read(partial(latest_versions, tenant_id=tenant))
        specs = await to_thread.run_sync(self._specs, versions, tenant)
        known = self._known.setdefault(tenant, TenantSkills(self.server))
        known.replace(specs, {version.name: version for version in versions})
        return known

    def _specs(self, versions: Sequence[SkillVersion], tenant: str) -> list[SkillSpec]:
        found = (self._spec(version.digest, tenant) for version in versions)
        return [spec for spec in found if spec is not None]

    def _spec(self, digest: str, tenant: str) -> SkillSpec | None:
        """Returns what a content says, which never changes; None where it is not there. Blocking."""
        folder = self.folders.find(digest, tenant=tenant)
        spec = None if folder is None else uploaded_spec(folder.resolve(), digest)
        if spec is not None:
            self._read[tenant, digest] = spec
            while len(self._read) > REMEMBERED:
                self._read.popitem(last=False)
        return spec


async def _disk(work: Callable[[], T]) -> T:
    """Does blocking work on the disk of the skills; raises EngineError where that is at fault."""
    try:
        return await to_thread.run_sync(work)
    except OSError as error:
        raise EngineError(f"the folders of skills cannot be written: {error.strerror}") from error

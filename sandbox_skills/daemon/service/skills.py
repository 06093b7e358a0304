"""Skills over the API: received, checked, kept as versions, found by runs, and deleted without harm to any of them."""

from __future__ import annotations

import asyncio
import sys
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from anyio import CapacityLimiter, to_thread

from sandbox_skills.catalog import create_skill_registry
from sandbox_skills.daemon.access.limits import tenant_limits
from sandbox_skills.daemon.errors import SkillReadOnlyError
from sandbox_skills.daemon.service.brief_memory import BriefMemory
from sandbox_skills.daemon.service.skill_upload import judged, report_on, taken_from
from sandbox_skills.daemon.service.while_used import WhileUsed
from sandbox_skills.daemon.truth import audit
from sandbox_skills.daemon.truth.audit import Deed
from sandbox_skills.daemon.truth.changes import Change
from sandbox_skills.daemon.truth.skills import (
    NewVersion,
    SkillQuota,
    add_version,
    delete_version,
    latest_versions,
    version_of,
    versions_of,
)
from sandbox_skills.daemon.truth.tenants import found as row_of
from sandbox_skills.engines.cancellation import finish
from sandbox_skills.errors import SandboxSkillsError, SkillNotFoundError
from sandbox_skills.install.limits import FetchLimits

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from sqlalchemy.orm import Session

    from sandbox_skills.catalog import Pin, SkillRegistry, SkillSpec
    from sandbox_skills.daemon.service.kept_skills import KeptSkills
    from sandbox_skills.daemon.service.skill_upload import Upload
    from sandbox_skills.daemon.service.tenant_skills import TenantSkills
    from sandbox_skills.daemon.truth.database import Database
    from sandbox_skills.daemon.truth.run import SkillRef
    from sandbox_skills.daemon.truth.skills import SkillVersion
    from sandbox_skills.install.taking import Taken
    from sandbox_skills.install.validate import Report

T = TypeVar("T")

if TYPE_CHECKING:
    Pinned = Callable[[SkillSpec], Pin | None]
    """Returns what a copy of a skill must meet. Blocking, but for one that was uploaded: its content is the pin."""

UPLOADS_OF_TENANT = 2
"""Uploads that one tenant has under way: each may fill the disk with three times the largest skill for a moment."""

UPLOADS = 4
"""Uploads that are unpacked and read at once, of all tenants: each keeps a thread and the disk busy."""


LOOK_SECONDS = 0.05
"""Between two looks at the server's folders for runs of one skill: what people do to a folder takes them longer."""

MOST_SEEN = 256
"""Skills of tenants that are remembered so: as many runs as begin in that time."""


@dataclass(frozen=True, slots=True)
class SkillEntry:
    """A skill of a tenant: what its text says, and the version that counts; None for one of the server's."""

    spec: SkillSpec
    version: SkillVersion | None


@dataclass(frozen=True, slots=True)
class OpenedSkill:
    """A skill whose folder stays as long as it is open. `pin` is what a copy of it must meet."""

    spec: SkillSpec
    folder: Path
    version: SkillVersion | None
    pin: Pin | None = None


class SkillService:
    """The skills of all tenants. Names are the skills' own, or the ids that these give."""

    def __init__(
        self,
        database: Database,
        kept: KeptSkills,
        *,
        limits: FetchLimits | None = None,
        quota: SkillQuota | None = None,
    ) -> None:
        self.limits = limits or FetchLimits()
        self._database = database
        self.kept = kept
        self._quota = quota
        self._receiving = WhileUsed(partial(asyncio.Semaphore, UPLOADS_OF_TENANT))
        self._unpacking = CapacityLimiter(UPLOADS)
        self._seen: BriefMemory[tuple[str, str, SkillRegistry], tuple[SkillSpec, OpenedSkill | None]] = (
            BriefMemory(LOOK_SECONDS, MOST_SEEN)
        )

    @asynccontextmanager
    async def receiving(self, *, tenant: str) -> AsyncGenerator[Path]:
        """Gives an empty directory for an upload, once others of the tenant leave room; all in it is removed after.

        Raises EngineError where the disk is at fault.
        """
        async with self._receiving.of(tenant):
            stack = ExitStack()
            opened = self.kept.folders.incoming(tenant=tenant)
            try:
                yield await finish(asyncio.to_thread(stack.enter_context, opened))
            finally:
                # In a thread, as there may be ten thousand files, and to its end, whoever is cancelled.
                await finish(asyncio.to_thread(stack.__exit__, *sys.exc_info()))

    async def add(
        self, upload: Upload, incoming: Path, *, tenant: str, actor: str
    ) -> tuple[SkillVersion, bool]:
        """Makes an upload the latest version of its skill; returns it, and whether it is new.

        What the latest version holds already is not added again. Raises as `taken_from` does, SkillReadOnlyError for a
        name of the server's, QuotaError.
        """
        taken = await self._done(partial(taken_from, upload, incoming, self.limits))
        name = taken.spec.name
        if any(spec.name == name for spec in await to_thread.run_sync(self.kept.server.list)):
            raise SkillReadOnlyError(
                f"{name!r} is a skill of the server", hint="give your skill another name"
            )
        report = await self._done(partial(report_on, taken))
        new = _new_version(taken, report)
        add = partial(self._added, new, tenant, actor)
        async with self.kept.changing(tenant=tenant):
            # First the content, then the word that it is there: what a crash leaves in between is swept.
            await self.kept.place(taken, tenant=tenant)
            return await finish(self._database.write(Change.SKILL_ADD, add))

    async def validate(self, upload: Upload, incoming: Path, *, strict: bool = False) -> Report:
        """Returns what is wrong with the skill that an upload holds, and keeps nothing of it; raises SourceError."""
        look = partial(judged, upload, incoming, self.limits, mode="strict" if strict else "lenient")
        return await self._done(look)

    async def entries(self, *, tenant: str) -> Sequence[SkillEntry]:
        """Returns every skill that the tenant has, the server's included, by name."""
        skills = await self.kept.skills(tenant=tenant)
        versions = await self._database.read(partial(latest_versions, tenant_id=tenant))
        by_name = {one.name: one for one in versions}
        found = await to_thread.run_sync(skills.list)
        entries = (SkillEntry(spec, by_name.get(spec.name) if spec.uploaded else None) for spec in found)
        return sorted(entries, key=lambda entry: entry.spec.name)

    async def get(self, name: str, *, tenant: str) -> SkillEntry:
        """Returns one skill; raises SkillNotFoundError with near names."""
        skills = await self.kept.skills(tenant=tenant)
        return _entry(skills, await to_thread.run_sync(_required, skills, name))

    async def asked_for(
        self, name: str, *, tenant: str, pinned: Pinned
    ) -> tuple[SkillEntry, OpenedSkill | None]:
        """Returns what `get` does, and one of the server's also as `opened` gives it, on one visit to a thread.

        That is None where it may not run as it is: who opens it hears why. The server's are as they were LOOK_SECONDS
        ago at most: to look at the disk takes longer than all else that happens before a run is accepted.
        """
        skills = await self.kept.skills(tenant=tenant)
        key = (tenant, name, skills.uploaded)  # an upload changes what a name means, and is known at once
        found = self._seen.get(key)
        if found is None:
            found = await to_thread.run_sync(_asked_for, skills, name, pinned)
            if found[1] is not None or found[0].uploaded:
                self._seen.keep(key, found)
        return _entry(skills, found[0]), found[1]

    async def versions(self, name: str, *, tenant: str) -> Sequence[SkillVersion]:
        """Returns the versions of an uploaded skill, the newest first; one of the server's has none."""
        entry = await self.get(name, tenant=tenant)
        if entry.version is None:
            return []
        return await self._database.read(partial(versions_of, name=entry.spec.name, tenant_id=tenant))

    async def version(self, name: str, version: int | None, *, tenant: str) -> SkillVersion:
        """Returns one version of an uploaded skill, None for the latest; raises SkillNotFoundError."""
        own = await self._own_name(name, tenant=tenant)
        return await self._database.read(partial(version_of, name=own, version=version, tenant_id=tenant))

    @asynccontextmanager
    async def opened(
        self, name: str, version: int | None, *, tenant: str, pinned: Pinned | None = None
    ) -> AsyncGenerator[OpenedSkill]:
        """Gives a skill whose folder is not removed meanwhile, whoever deletes it; None for the latest version.

        Raises SkillNotFoundError, and what `pinned` does.
        """
        pinned = pinned or _unpinned
        skills = await self.kept.skills(tenant=tenant)
        found = await to_thread.run_sync(_server_skill, skills, name, pinned)
        if isinstance(found, OpenedSkill):
            if version is not None:
                raise SkillNotFoundError(
                    f"the server's skill {found.spec.name!r} has no versions", hint="leave the version out"
                )
            yield found
            return
        kept = await self.version(name, version, tenant=tenant)
        async with self.kept.opened(kept.digest, tenant=tenant) as spec:
            yield OpenedSkill(spec, Path(spec.dir), kept, pinned(spec))

    @asynccontextmanager
    async def accepted(self, skill: SkillRef, *, tenant: str, pinned: Pinned) -> AsyncGenerator[OpenedSkill]:
        """Gives the skill of a run that was accepted, in the version that it was accepted with: also a deleted one.

        Raises SkillNotFoundError, and what `pinned` does.
        """
        if skill.digest and skill.version:
            async with self.kept.opened(skill.digest, tenant=tenant) as spec:
                yield OpenedSkill(spec, Path(spec.dir), None, pinned(spec))
        else:
            async with self.opened(skill.name, None, tenant=tenant, pinned=pinned) as opened:
                yield opened

    async def delete(self, name: str, version: int | None = None, *, tenant: str, actor: str) -> None:
        """Deletes a version of an uploaded skill, or all of it. Runs that were accepted before still find it.

        Raises SkillNotFoundError, SkillReadOnlyError for one of the server's.
        """
        own = await self._own_name(name, tenant=tenant)
        delete = partial(self._deleted, own, version, tenant, actor)
        async with self.kept.changing(tenant=tenant):
            await finish(self._database.write(Change.SKILL_DELETE, delete))

    def _added(self, new: NewVersion, tenant: str, actor: str, session: Session) -> tuple[SkillVersion, bool]:
        now = self._database.clock()
        quota = self._quota or _quota(session, tenant)
        version, is_new = add_version(session, new, tenant_id=tenant, now=now, quota=quota)
        if is_new:
            told = {"version": version.version, "digest": version.digest}
            deed = Deed(actor, "skill.add", f"skill:{version.name}", tenant, told)
            audit.append(session.connection(), deed, at=now)
        return version, is_new

    def _deleted(self, name: str, version: int | None, tenant: str, actor: str, session: Session) -> None:
        now = self._database.clock()
        delete_version(session, name, version, tenant_id=tenant, now=now)
        deed = Deed(actor, "skill.delete", f"skill:{name}", tenant, {"version": version})
        audit.append(session.connection(), deed, at=now)

    async def _done(self, work: Callable[[], T]) -> T:
        """Does blocking work on an upload, to its end: nothing is to write where files are being removed."""
        return await finish(to_thread.run_sync(work, limiter=self._unpacking))

    async def _own_name(self, name: str, *, tenant: str) -> str:
        skills = await self.kept.skills(tenant=tenant)
        spec = await to_thread.run_sync(_required, skills, name)
        if not spec.uploaded:
            raise SkillReadOnlyError(f"{spec.name!r} is a skill of the server", hint="its operator keeps it")
        return spec.name


def _new_version(taken: Taken, report: Report) -> NewVersion:
    return NewVersion(
        name=taken.spec.name,
        description=taken.spec.description,
        digest=taken.content.digest,
        size=taken.bytes,
        files=taken.files,
        diagnostics=[finding.as_dict() for finding in report.findings],
    )


def _quota(session: Session, tenant: str) -> SkillQuota:
    return SkillQuota(bytes=tenant_limits(row_of(session, tenant).limits).skill_bytes)


def _required(skills: TenantSkills, name: str) -> SkillSpec:
    """Returns a tenant's skill; raises SkillNotFoundError with near names. Blocking."""
    found = skills.get(name)
    return found if found is not None else create_skill_registry(skills.list()).require(name)


def _asked_for(skills: TenantSkills, name: str, pinned: Pinned) -> tuple[SkillSpec, OpenedSkill | None]:
    """Returns a tenant's skill, opened if it is one of the server's; raises SkillNotFoundError. Blocking."""
    spec = _required(skills, name)
    try:
        return spec, None if spec.uploaded else _opened(spec, pinned)
    except SandboxSkillsError:
        return spec, None


def _server_skill(skills: TenantSkills, name: str, pinned: Pinned) -> OpenedSkill | None:
    """Returns a skill that is one of the server's; raises SkillNotFoundError where there is none at all. Blocking."""
    spec = _required(skills, name)
    return None if spec.uploaded else _opened(spec, pinned)


def _opened(spec: SkillSpec, pinned: Pinned) -> OpenedSkill:
    """Looks at where a skill of the server's lies and what it must meet, on one visit to a thread. Blocking."""
    return OpenedSkill(spec, Path(spec.dir).resolve(), None, pinned(spec))


def _entry(skills: TenantSkills, spec: SkillSpec) -> SkillEntry:
    if not spec.uploaded:
        return SkillEntry(spec, None)
    version = skills.version(spec.name)
    if version is None:  # it was deleted since it was found
        raise SkillNotFoundError(f"no skill is named {spec.name!r}")
    return SkillEntry(spec, version)


def _unpinned(spec: SkillSpec) -> Pin | None:  # noqa: ARG001  # as a Pinned takes it
    return None

"""Skills as a tenant has them: versions that count up, contents that stay while they are needed, nothing of others."""

from __future__ import annotations

import asyncio
import zipfile
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import anyio
import pytest

from sandbox_skills.catalog import LENIENT, Catalog, SkillRoot
from sandbox_skills.daemon.errors import SkillReadOnlyError
from sandbox_skills.daemon.service.kept_skills import KeptSkills
from sandbox_skills.daemon.service.skill_folders import SkillFolders
from sandbox_skills.daemon.service.skill_upload import Upload
from sandbox_skills.daemon.service.skills import LOOK_SECONDS, SkillService
from sandbox_skills.daemon.service.tenant_skills import ServerSkills
from sandbox_skills.daemon.truth.changes import Change
from sandbox_skills.daemon.truth.database import opened_database
from sandbox_skills.daemon.truth.ids import new_id
from sandbox_skills.daemon.truth.run import SkillRef
from sandbox_skills.daemon.truth.skills import SkillQuota
from sandbox_skills.daemon.truth.tables import RunRow, TenantRow
from sandbox_skills.errors import (
    QuotaError,
    SkillChangedError,
    SkillLoadError,
    SkillNotFoundError,
    SourceError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection
    from pathlib import Path

    from sqlalchemy.orm import Session

    from sandbox_skills.daemon.truth.database import Database
    from sandbox_skills.daemon.truth.skills import SkillVersion

pytestmark = pytest.mark.anyio

A, B = "01JDZ6V7Z3M9QHTR4W8YB2C5KA", "01JDZ6V7Z3M9QHTR4W8YB2C5KB"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def skill_text(name: str = "sums", words: str = "Run it.") -> str:
    return f"---\nname: {name}\ndescription: Adds numbers.\n---\n{words}\n"


@asynccontextmanager
async def opened_service(
    tmp_path: Path, quota: SkillQuota | None = None
) -> AsyncGenerator[tuple[SkillService, Database]]:
    server = tmp_path / "server" / "pdf"
    server.mkdir(parents=True, exist_ok=True)
    (server / "SKILL.md").write_text(skill_text("pdf"), encoding="utf-8")
    catalog = Catalog([SkillRoot(str(server.parent))], LENIENT)
    async with opened_database(tmp_path / "daemon.db") as database:
        kept = KeptSkills(database, SkillFolders(tmp_path / "tenants"), ServerSkills(catalog))
        for number, tenant in enumerate((A, B)):
            await database.write(Change.TENANT_CREATE, partial(_tenant, tenant=tenant, name=str(number)))
        yield SkillService(database, kept, quota=quota), database


def _tenant(session: Session, *, tenant: str, name: str) -> None:
    if session.get(TenantRow, tenant) is None:
        session.add(TenantRow(id=tenant, name=name, limits={}, policy={}, created_at=0.0))


async def sent(service: SkillService, tenant: str = A, **files: str) -> tuple[SkillVersion, bool]:
    async with service.receiving(tenant=tenant) as incoming:
        upload = Upload(archive=packed(incoming / "sent.zip", files))
        upload = Upload(archive=packed(incoming / "sent.zip", files))
        return await service.add(upload, incoming, tenant=tenant, actor="test")


def packed(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"top/{name.replace('__', '.')}", text)
    return path


def lying(tmp_path: Path, tenant: str = A) -> set[str]:
    root = tmp_path / "tenants" / tenant
    return {path.name for path in root.iterdir()} if root.exists() else set()


async def test_versions_count_up_and_the_same_content_is_none(tmp_path: Path) -> None:
    async with opened_service(tmp_path) as (service, _):
        first, new = await sent(service, SKILL__md=skill_text())
        assert (first.version, first.latest, new) == (1, True, True)
        assert await sent(service, SKILL__md=skill_text()) == (first, False)
        second, _ = await sent(service, SKILL__md=skill_text(words="Run that."))
        assert second.version == 2
        back, new = await sent(service, SKILL__md=skill_text())
        assert (back.version, back.digest, new) == (3, first.digest, True)
        assert [one.version for one in await service.versions("sums", tenant=A)] == [3, 2, 1]
        assert (await service.version("sums", 1, tenant=A)).latest is False
        assert lying(tmp_path) == {first.digest, second.digest}


async def test_a_tenant_has_its_own_skills_and_those_of_the_server(tmp_path: Path) -> None:
    async with opened_service(tmp_path) as (service, _):
        await sent(service, SKILL__md=skill_text())
        assert [entry.spec.name for entry in await service.entries(tenant=A)] == ["pdf", "sums"]
        assert [entry.spec.name for entry in await service.entries(tenant=B)] == ["pdf"]
        with pytest.raises(SkillNotFoundError, match="no skill is named 'sums'"):
            await service.get("sums", tenant=B)
        with pytest.raises(SkillNotFoundError):
            await service.version("sums", 1, tenant=B)
        with pytest.raises(SkillNotFoundError):
            await service.delete("sums", tenant=B, actor="test")
        with pytest.raises(SkillNotFoundError) as near:
            await service.get("sms", tenant=A)
        assert near.value.near == ("sums",)


async def test_the_server_s_skills_keep_their_names_and_stay(tmp_path: Path) -> None:
    async with opened_service(tmp_path) as (service, _):
        with pytest.raises(SkillReadOnlyError):
            await sent(service, SKILL__md=skill_text("pdf"))
        with pytest.raises(SkillReadOnlyError):
            await service.delete("pdf", tenant=A, actor="test")
        assert await service.versions("pdf", tenant=A) == []
        async with service.opened("pdf", None, tenant=A) as opened:
            assert (opened.folder / "SKILL.md").exists()
        with pytest.raises(SkillNotFoundError, match="no versions"):
            async with service.opened("pdf", 1, tenant=A):
                pass


async def test_a_name_that_became_the_server_s_means_the_server_s(tmp_path: Path) -> None:
    async with opened_service(tmp_path) as (service, _):
        await sent(service, SKILL__md=skill_text("later"))
        own = tmp_path / "server" / "later"
        own.mkdir()
        (own / "SKILL.md").write_text(skill_text("later"), encoding="utf-8")
        assert (await service.get("later", tenant=A)).version is None
        assert [entry.version for entry in await service.entries(tenant=A)] == [None, None]


async def test_a_run_s_skill_of_the_server_is_looked_at_again_after_a_moment(tmp_path: Path) -> None:
    async with opened_service(tmp_path) as (service, _):
        entry, opened = await service.asked_for("pdf", tenant=A, pinned=no_pin)
        assert (entry.version, opened and opened.folder) == (None, tmp_path / "server" / "pdf")
        (tmp_path / "server" / "pdf" / "SKILL.md").unlink()
        await anyio.sleep(2 * LOOK_SECONDS)
        with pytest.raises(SkillNotFoundError):
            await service.asked_for("pdf", tenant=A, pinned=no_pin)


async def test_a_run_s_skill_that_was_uploaded_is_the_newest(tmp_path: Path) -> None:
    async with opened_service(tmp_path) as (service, _):
        for number in (1, 2):
            await sent(service, SKILL__md=skill_text(words=str(number)))
            entry, opened = await service.asked_for("sums", tenant=A, pinned=no_pin)
            assert (entry.version and entry.version.version, opened) == (number, None)


async def test_a_run_s_skill_that_is_not_what_was_pinned_is_not_opened_before_its_turn(
    tmp_path: Path,
) -> None:
    def changed(_: object) -> None:
        raise SkillChangedError("changed")

    async with opened_service(tmp_path) as (service, _):
        entry, opened = await service.asked_for("pdf", tenant=A, pinned=changed)
        assert (entry.spec.name, opened) == ("pdf", None)
        _, opened = await service.asked_for("pdf", tenant=A, pinned=no_pin)
        assert opened is not None


def no_pin(_: object) -> None:
    return None


async def test_deleted_versions_are_gone_and_their_numbers_are_not_given_again(tmp_path: Path) -> None:
    async with opened_service(tmp_path) as (service, _):
        first, _ = await sent(service, SKILL__md=skill_text())
        second, _ = await sent(service, SKILL__md=skill_text(words="2"))
        await service.delete("sums", 2, tenant=A, actor="test")
        assert (await service.version("sums", None, tenant=A)).version == 1
        assert lying(tmp_path) == {first.digest}
        with pytest.raises(SkillNotFoundError, match="in version 2"):
            await service.delete("sums", 2, tenant=A, actor="test")
        await service.delete("sums", tenant=A, actor="test")
        assert lying(tmp_path) == set()
        with pytest.raises(SkillNotFoundError):
            await service.get("sums", tenant=A)
        again, _ = await sent(service, SKILL__md=skill_text(words="2"))
        assert (again.version, again.digest) == (3, second.digest)


async def test_a_content_stays_while_somebody_reads_it_and_while_a_run_waits_for_it(tmp_path: Path) -> None:
    async with opened_service(tmp_path) as (service, database):
        version, _ = await sent(service, SKILL__md=skill_text())
        async with service.opened("sums", 1, tenant=A) as opened:
            await service.delete("sums", tenant=A, actor="test")
            assert (opened.folder / "SKILL.md").read_text() == skill_text()
        assert lying(tmp_path) == set()
        version, _ = await sent(service, SKILL__md=skill_text())
        run = run_of(version)
        await database.write(Change.RUN_SUBMIT, lambda session: session.add(run))
        await service.delete("sums", tenant=A, actor="test")
        assert lying(tmp_path) == {version.digest}
        ref = SkillRef(version.name, str(version.version), version.digest, "tenant")
        async with service.accepted(ref, tenant=A, pinned=lambda _: None) as opened:
            assert (opened.folder / "SKILL.md").read_text() == skill_text()
        assert lying(tmp_path) == {version.digest}
        await database.write(Change.RUN_COMPLETE, lambda session: _finish(session, run.id))
        await service.kept.collect_all()
        assert lying(tmp_path) == set()


class SeenFolders(SkillFolders):
    """Counts how often somebody looks for folders."""

    looks = 0

    def find(self, digest: str, *, tenant: str) -> Path | None:
        self.looks += 1
        return super().find(digest, tenant=tenant)

    def sweep(self, kept: Collection[str], *, tenant: str) -> list[str]:
        self.looks += 1
        return super().sweep(kept, tenant=tenant)


async def test_a_content_that_stays_is_read_once_and_nobody_looks_for_others_behind_those_who_read_it(
    tmp_path: Path,
) -> None:
    async with opened_service(tmp_path) as (service, _):
        version, _ = await sent(service, SKILL__md=skill_text())
        ref = SkillRef(version.name, str(version.version), version.digest, "tenant")
        service.kept.folders = folders = SeenFolders(tmp_path / "tenants")
        for _ in range(3):
            async with service.accepted(ref, tenant=A, pinned=no_pin) as opened:
                assert (opened.folder / "SKILL.md").read_text() == skill_text()
            async with service.opened("sums", 1, tenant=A):
                pass
        assert folders.looks == 0
        async with service.opened("sums", 1, tenant=A), service.opened("sums", 1, tenant=A):
            await service.delete("sums", tenant=A, actor="test")
            assert lying(tmp_path) == {version.digest}
        assert lying(tmp_path) == set()
        with pytest.raises(SkillNotFoundError):
            async with service.accepted(ref, tenant=A, pinned=no_pin):
                pass


async def test_a_content_that_comes_back_in_a_folder_of_another_name_is_found(tmp_path: Path) -> None:
    async with opened_service(tmp_path) as (service, _):
        for top in ("one", "two"):
            async with service.receiving(tenant=A) as incoming:
                archive = incoming / "sent.zip"
                with zipfile.ZipFile(archive, "w") as file:
                    file.writestr(f"{top}/SKILL.md", skill_text())
                version, new = await service.add(Upload(archive=archive), incoming, tenant=A, actor="test")
            assert new
            async with service.opened("sums", None, tenant=A) as opened:
                assert (opened.folder / "SKILL.md").is_file()
                assert opened.version == version
            await service.delete("sums", tenant=A, actor="test")


def run_of(version: SkillVersion) -> RunRow:
    return RunRow(
        id=new_id(),
        tenant_id=A,
        kind="skill",
        skill_name=version.name,
        skill_version=str(version.version),
        skill_digest=version.digest,
        skill_source="tenant",
        state="queued",
        request={},
        needs="",
        limits_hit=[],
        created_at=0.0,
    )


def _finish(session: Session, run_id: str) -> None:
    session.get_one(RunRow, run_id).state = "finished"


async def test_two_uploads_of_one_name_at_once_become_two_versions(tmp_path: Path) -> None:
    async with opened_service(tmp_path) as (service, _):
        made = await asyncio.gather(
            *(sent(service, SKILL__md=skill_text(words=str(number))) for number in range(6))
        )
        assert sorted(version.version for version, _ in made) == [1, 2, 3, 4, 5, 6]
        assert lying(tmp_path) == {version.digest for version, _ in made}
        same = await asyncio.gather(*(sent(service, SKILL__md=skill_text(words="same")) for _ in range(4)))
        assert {version.version for version, _ in same} == {7}
        assert sum(new for _, new in same) == 1


@pytest.mark.parametrize(
    ("files", "error"),
    [
        ({"notes": "x"}, SourceError),
        ({"SKILL__md": "no frontmatter"}, SkillLoadError),
        ({"SKILL__md": skill_text("x" * 200)}, SourceError),
        ({"a/SKILL__md": skill_text("a"), "b/SKILL__md": skill_text("b")}, SourceError),
    ],
)
async def test_what_is_refused_leaves_nothing(
    tmp_path: Path, files: dict[str, str], error: type[Exception]
) -> None:
    async with opened_service(tmp_path) as (service, _):
        with pytest.raises(error):
            await sent(service, **files)
        assert lying(tmp_path) == set()
        assert await service.entries(tenant=A) == await service.entries(tenant=B)


async def test_a_cancel_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    async with opened_service(tmp_path) as (service, _):
        for delay in (0.0, 0.002, 0.01, 0.03):
            with anyio.move_on_after(delay):
                await sent(
                    service, SKILL__md=skill_text(words=str(delay)), **{f"f{n}": "x" for n in range(50)}
                )
            left = {entry.version.digest for entry in await service.entries(tenant=A) if entry.version}
            versions = await service.versions("sums", tenant=A) if left else []
            assert lying(tmp_path) == {one.digest for one in versions}


async def test_more_than_a_tenant_may_keep_is_refused_and_the_rest_stays(tmp_path: Path) -> None:
    quota = SkillQuota(skills=1, versions=2, bytes=1_000)
    async with opened_service(tmp_path, quota) as (service, _):
        first, _ = await sent(service, SKILL__md=skill_text())
        with pytest.raises(QuotaError, match="1 skills"):
            await sent(service, SKILL__md=skill_text("other"))
        with pytest.raises(QuotaError, match="1000 bytes"):
            await sent(service, SKILL__md=skill_text(words="x" * 990))
        await sent(service, SKILL__md=skill_text(words="2"))
        with pytest.raises(QuotaError, match="2 versions"):
            await sent(service, SKILL__md=skill_text(words="3"))
        await sent(service, tenant=B, SKILL__md=skill_text(words="3"))
        assert len(lying(tmp_path)) == 2
        assert first.digest in lying(tmp_path)


async def test_after_a_restart_all_is_there_and_what_a_crash_left_is_not(tmp_path: Path) -> None:
    async with opened_service(tmp_path) as (service, _):
        version, _ = await sent(service, SKILL__md=skill_text())
    (tmp_path / "tenants" / A / ("0" * 64)).mkdir()
    (tmp_path / "tenants" / A / ".incoming-dead").mkdir()
    async with opened_service(tmp_path) as (service, _):
        await service.kept.collect_all()
        assert lying(tmp_path) == {version.digest}
        assert (await service.get("sums", tenant=A)).version == version


async def test_validate_says_what_is_wrong_and_keeps_nothing(tmp_path: Path) -> None:
    async with opened_service(tmp_path) as (service, _):
        for files, codes in (
            ({"SKILL__md": "no frontmatter"}, True),
            ({"SKILL__md": skill_text()}, False),
        ):
            async with service.receiving(tenant=A) as incoming:
                upload = Upload(archive=packed(incoming / "sent.zip", files))
                report = await service.validate(upload, incoming)
            assert bool(report.counts()["errors"]) is codes
            assert all(not finding.path.startswith("/") for finding in report.findings)
        assert lying(tmp_path) == set()

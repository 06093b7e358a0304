"""Skills: the list, and one of them with everything that is wrong with it."""

from __future__ import annotations

from http import HTTPStatus
from shutil import copyfileobj
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from anyio import to_thread
from starlette.exceptions import HTTPException

from sandbox_skills.daemon.access.scopes import Scope
from sandbox_skills.daemon.service.skill_upload import Upload
from sandbox_skills.daemon.ui.views.skills import SkillList, skill_page, skill_row

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

    from starlette.responses import Response

    from sandbox_skills.daemon.ui.visits import Visit


async def skills(visit: Visit) -> Response:
    """Shows every skill that the tenant can run."""
    entries = await visit.daemon.skills.entries(tenant=visit.tenant)
    rows = tuple(skill_row(entry, visit.now) for entry in entries)
    view = SkillList(rows, can_upload=visit.may(Scope.SKILLS_WRITE))
    return visit.page("skills.html", here="/skills", title="Skills", view=view)


async def upload(visit: Visit) -> Response:
    """Makes an archive that was chosen the latest version of its skill, after it was checked."""
    if (file := visit.form.file) is None:
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, "Choose a zip of a skill's folder.")
    async with visit.daemon.skills.receiving(tenant=visit.tenant) as incoming:
        archive = incoming / "received"
        await to_thread.run_sync(_written, file.file, archive)
        version, _ = await visit.daemon.skills.add(
            Upload(archive=archive), incoming, tenant=visit.tenant, actor=visit.who.actor
        )
    return visit.to(f"/skill?{urlencode({'name': version.name})}")


def _written(file: BinaryIO, path: Path) -> None:
    with path.open("xb") as target:
        copyfileobj(file, target)


async def skill(visit: Visit) -> Response:
    """Shows one skill, by its name in the query: authors write names that no path could hold."""
    name = visit.text("name")
    entry = await visit.daemon.skills.get(name, tenant=visit.tenant)
    versions = await visit.daemon.skills.versions(name, tenant=visit.tenant)
    view = skill_page(entry, versions, visit.now)
    return visit.page("skill.html", here="/skills", title=view.name, view=view)

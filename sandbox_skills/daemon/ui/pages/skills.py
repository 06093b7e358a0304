"""Skills: the list, and one of them with everything that is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.daemon.ui.views.skills import SkillList, skill_page, skill_row

if TYPE_CHECKING:
    from starlette.responses import Response

    from sandbox_skills.daemon.ui.visits import Visit


async def skills(visit: Visit) -> Response:
    """Shows every skill that the tenant can run."""
    entries = await visit.daemon.skills.entries(tenant=visit.tenant)
    view = SkillList(tuple(skill_row(entry, visit.now) for entry in entries))
    return visit.page("skills.html", here="/skills", title="Skills", view=view)


async def skill(visit: Visit) -> Response:
    """Shows one skill, by its name in the query: authors write names that no path could hold."""
    name = visit.text("name")
    entry = await visit.daemon.skills.get(name, tenant=visit.tenant)
    versions = await visit.daemon.skills.versions(name, tenant=visit.tenant)
    view = skill_page(entry, versions, visit.now)
    return visit.page("skill.html", here="/skills", title=view.name, view=view)

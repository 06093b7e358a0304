"""What another tenant has is on no page, and nothing is done to it: every page and action is tried, a new one too."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from sandbox_skills.artifacts import ArtifactMetadata
from sandbox_skills.daemon.access.scopes import ALL_SCOPES, Scope
from sandbox_skills.daemon.dispatch.base import Accepted
from sandbox_skills.daemon.truth.agents import Agents, Beginning, LegRequest
from sandbox_skills.daemon.truth.ids import new_id
from sandbox_skills.daemon.truth.run import NewRun, RunKind
from sandbox_skills.daemon.ui.pages.routes import ACTIONS, PAGES
from tests.unit.daemon.ui.conftest import new_browser

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.daemon_host import Host
    from tests.unit.daemon.ui.conftest import Browser

pytestmark = pytest.mark.anyio

SECRET = "victims-own"

LISTS = {"/", "/runs", "/skills", "/sessions", "/artifacts", "/playground"}
"""What everybody may open, and finds nothing of another in."""

OWN = {"/skills", "/playground"}
"""What makes something of whoever sends it, whatever it names."""

REQUEST = {"model": SECRET, "toolsets": [], "instructions": SECRET, "session_id": "", "approvals": "ask"}


@dataclass(frozen=True, slots=True)
class Owned:
    """What the victim has, by the name of the path's parameter, and what it had before anybody came."""

    tenant: str
    parts: dict[str, str]


@pytest.fixture
async def victim(host: Host) -> Owned:
    """A tenant with one of everything."""
    key = await host.tenant(SECRET)
    tenant = (await host.daemon.tenants.named(SECRET)).id
    await host.daemon.artifacts.save(f"{SECRET}.txt", b"x", ArtifactMetadata(skill=SECRET), tenant=tenant)
    async with host.client(key) as client:
        order = {"skill": "greeter", "argv": ["cat", SECRET], "interactive": True}
        run = (await client.post("/v1/runs", json=order)).json()["id"]
        session = (await client.post("/v1/sessions", json={"name": SECRET})).json()["id"]
        text = f"---\nname: {SECRET}\ndescription: Theirs.\n---\nx\n"
        sent = await client.post("/v1/skills", files=[("files[]", ("SKILL.md", text))])
        assert sent.status_code == 201
    # One that nobody works on: it waits for a node with what no node has.
    leg = LegRequest(new_id(), begin=Beginning(REQUEST, SECRET, "test"))
    new = NewRun(tenant, leg.kept(), kind=RunKind.AGENT, needs=frozenset({"nothing"}))
    accepted = await host.daemon.queue.submit(new)
    assert isinstance(accepted, Accepted)
    talk = (await Agents(host.daemon.database).of_run(accepted.run)).id
    parts = {
        "run_id": run,
        "session_id": session,
        "talk_id": talk,
        "tenant_id": tenant,
        "key_id": (await host.daemon.keys.identify(key)).key_id,
    }
    return Owned(tenant, parts)


@pytest.fixture
async def attacker(host: Host) -> AsyncIterator[Browser]:
    async with new_browser(host) as browser:
        await browser.sign_in(await host.tenant("attacker", scopes=ALL_SCOPES - {Scope.ADMIN}))
        await browser.look("/")
        yield browser


def filled(path: str, parts: dict[str, str]) -> str:
    """Returns a path with ids in it, and a query that names the rest; a parameter that is not known here fails."""
    query = urlencode({"name": f"{SECRET}.txt" if "artifact" in path else SECRET, "path": "work/x"})
    path = re.sub(r"{(\w+)}", lambda found: parts[found[1]], path)
    return f"{path}?{query}"


async def test_no_page_shows_what_another_tenant_has(victim: Owned, attacker: Browser) -> None:
    for path, _, scope in PAGES:
        answer = await attacker.look(filled(path, victim.parts))
        told = (path, answer.status_code, answer.text[-600:])
        if scope is Scope.ADMIN:
            assert answer.status_code == 403, told
        else:
            assert answer.status_code == (200 if path in LISTS else 404), told
        shown = answer.text if path in LISTS else ""
        assert SECRET not in shown, told
        assert not [one for one in victim.parts.values() if one in shown], told


async def test_nothing_is_done_to_what_another_tenant_has(
    host: Host, victim: Owned, attacker: Browser
) -> None:
    before = await state_of(host, victim)
    fields = {"call_id": "c1", "decision": "approve", "input": "x", "disabled": "yes", "may:admin": "yes"}
    for path, _, scope in ACTIONS:
        answer = await attacker.send(filled(path, victim.parts), **fields)
        told = (path, answer.status_code, answer.text[-600:])
        if path in OWN:
            assert answer.status_code in {303, 400, 422}, told
        else:
            assert answer.status_code == (403 if scope is Scope.ADMIN else 404), told
    assert await state_of(host, victim) == before


async def state_of(host: Host, victim: Owned) -> list[object]:
    daemon, tenant = host.daemon, victim.tenant
    return [
        (await daemon.runs.get(victim.parts["run_id"], tenant=tenant)).cancel_requested_at,
        (await daemon.sessions.get(victim.parts["session_id"], tenant=tenant)).state,
        (await daemon.agents.get(victim.parts["talk_id"], tenant=tenant)).state,
        len(await daemon.admin.keys(tenant)),
        (await daemon.admin.keys(tenant))[0].revoked_at,
        (await daemon.tenants.get(tenant)).disabled_at,
        [one.spec.name for one in await daemon.skills.entries(tenant=tenant)],
        (await daemon.artifacts.usage(tenant=tenant)).count,
    ]


async def test_a_foreign_id_and_none_look_alike(victim: Owned, attacker: Browser) -> None:
    """Else whoever asks learns which ids there are."""
    none = {name: new_id() for name in victim.parts}
    for path, _, _ in PAGES:
        if "{" not in path:
            continue
        mine = (await attacker.look(filled(path, victim.parts))).text
        other = (await attacker.look(filled(path, none))).text
        for name, value in victim.parts.items():
            mine, other = mine.replace(value, "ID"), other.replace(none[name], "ID")
        assert mine == other, path

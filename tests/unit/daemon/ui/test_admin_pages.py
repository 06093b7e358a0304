"""What an admin does in the dashboard, and a skill that somebody uploads there."""

from __future__ import annotations

import io
import re
import zipfile
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.daemon.access.scopes import Scope
from sandbox_skills.daemon.ui.dashboard import add_dashboard
from tests.daemon_host import opened_host
from tests.unit.daemon.ui.conftest import new_browser

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from tests.daemon_host import Host
    from tests.unit.daemon.ui.conftest import Browser

pytestmark = pytest.mark.anyio

KEY = re.compile(r"ssk_[0-9a-f]{16}_[0-9a-zA-Z]+")


def zip_of(**files: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"counter/{name}", text)
    return packed.getvalue()


def skill_text(description: str = "Counts.") -> str:
    return f"---\nname: counter\ndescription: {description}\n---\nRun it.\n"


async def send(browser: Browser, content: bytes, name: str = "counter.zip") -> httpx.Response:
    """Sends the form of the page of skills with a file."""
    await browser.look("/skills")
    return await browser.client.post(
        "/ui/skills", data={"csrf": browser.token}, files={"file": (name, content)}
    )


async def test_an_admin_makes_a_tenant_and_a_key_that_is_shown_once(host: Host, acme: Browser) -> None:
    await acme.look("/tenants")
    made = await acme.send("/tenants", name="newcomers")
    assert made.status_code == 303
    page = made.headers["location"].removeprefix("/ui")
    await acme.look(page)
    fields = {"name": "laptop", "days": "30", "may:run": "yes", "may:skills:write": "yes"}
    answer = await acme.send(f"{page}/keys", **fields)
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    (token,) = KEY.findall(answer.text)
    who = await host.daemon.keys.identify(token)
    assert (who.tenant.name, who.scopes) == ("newcomers", frozenset({Scope.RUN, Scope.SKILLS_WRITE}))
    (key,) = await host.daemon.admin.keys(who.tenant.id)
    assert key.name == "laptop"
    assert key.expires_at is not None
    assert 29 < (key.expires_at - key.created_at) / 86_400 < 31
    again = await acme.look(page)
    assert not KEY.search(again.text)
    assert "laptop" in again.text
    assert (await acme.send(f"{page}/keys/{key.id}/revoke")).status_code == 303
    assert "revoked" in (await acme.look(page)).text
    deeds = [one.action for one in await host.daemon.admin.audit(tenant_id=who.tenant.id)]
    assert {"tenant.create", "key.create", "key.revoke"} <= set(deeds)


async def test_an_admin_disables_a_tenant_and_lets_it_in_again(host: Host, acme: Browser) -> None:
    key = await host.tenant("other")
    page = f"/tenants/{(await host.daemon.tenants.named('other')).id}"
    for fields, words, status in (({"disabled": "yes"}, "disabled", 401), ({}, "active", 200)):
        await acme.look(page)
        assert (await acme.send(f"{page}/switch", **fields)).status_code == 303
        assert words in (await acme.look(page)).text
        async with host.client(key) as client:
            assert (await client.get("/v1/runs")).status_code == status


@pytest.mark.parametrize(
    ("path", "fields", "words"),
    [
        ("/tenants", {"name": "No Such Name"}, "a-z"),
        ("/tenants", {"name": "acme"}, "acme"),
        ("/tenants/{id}/keys", {"name": "x"}, "Say what the key may do"),
        ("/tenants/{id}/keys", {"may:run": "yes", "days": "0"}, "1 to"),
        ("/tenants/{id}/keys", {"may:run": "yes", "days": "-1"}, "1 to"),
        ("/tenants/{id}/keys", {"may:run": "yes", "days": "99999"}, "1 to"),
    ],
)
async def test_what_cannot_be_is_told_and_nothing_is_made(
    host: Host, acme: Browser, path: str, fields: dict[str, str], words: str
) -> None:
    tenant = (await host.daemon.tenants.named("acme")).id
    await acme.look("/tenants")
    answer = await acme.send(path.format(id=tenant), **fields)
    assert answer.status_code in {400, 409, 422}
    assert words in answer.text
    assert len(await host.daemon.tenants.list()) == 1
    assert len(await host.daemon.admin.keys(tenant)) == 1


async def test_a_key_for_nobody_is_not_made(acme: Browser) -> None:
    await acme.look("/tenants")
    answer = await acme.send("/tenants/01JDZ6V7Z3M9QHTR4W8YB2C5KD/keys", **{"may:run": "yes"})
    assert answer.status_code == 404


async def test_a_zip_becomes_a_skill_and_the_next_its_next_version(host: Host, acme: Browser) -> None:
    for version in (1, 2):
        answer = await send(acme, zip_of(**{"SKILL.md": skill_text(f"Counts {version}.")}))
        assert (answer.status_code, answer.headers["location"]) == (303, "/ui/skill?name=counter")
    page = (await acme.look("/skill?name=counter")).text
    assert "Counts 2." in page
    owner = (await host.daemon.tenants.named("acme")).id
    assert [one.version for one in await host.daemon.skills.versions("counter", tenant=owner)] == [2, 1]


@pytest.mark.parametrize(
    "content",
    [b"", b"no zip", zip_of(other="x"), zip_of(**{"SKILL.md": "no frontmatter"}), zip_of(**{"../../x": "y"})],
    ids=["empty", "text", "no skill", "broken", "slip"],
)
async def test_what_is_no_skill_is_told_and_leaves_nothing(
    host: Host, acme: Browser, content: bytes, tmp_path: Path
) -> None:
    answer = await send(acme, content)
    assert answer.status_code in {400, 413, 422}, answer.text
    owner = (await host.daemon.tenants.named("acme")).id
    assert [one.spec.name for one in await host.daemon.skills.entries(tenant=owner)] == ["greeter"]
    assert not list((tmp_path / "data").rglob("received*"))


async def test_a_form_without_a_file_says_what_to_choose(acme: Browser) -> None:
    await acme.look("/skills")
    answer = await acme.send("/skills")
    assert answer.status_code == 422
    assert "Choose a zip" in answer.text


async def test_who_may_not_add_skills_sees_no_form_for_it(host: Host, browser: Browser) -> None:
    await browser.sign_in(await host.tenant("reader", scopes={Scope.RUN}))
    assert "Upload a skill" not in (await browser.look("/skills")).text
    assert (await send(browser, zip_of(**{"SKILL.md": skill_text()}))).status_code == 403


async def test_a_file_whose_form_is_not_ours_is_not_kept(host: Host, acme: Browser) -> None:
    content = zip_of(**{"SKILL.md": skill_text()})
    for form in ({}, {"csrf": "forged"}):
        answer = await acme.client.post("/ui/skills", data=form, files={"file": ("x.zip", content)})
        assert answer.status_code == 403
    owner = (await host.daemon.tenants.named("acme")).id
    assert len(await host.daemon.skills.entries(tenant=owner)) == 1


async def test_limits_are_the_tenant_s_over_the_server_s(tmp_path: Path) -> None:
    async with opened_host(tmp_path, artifacts={"max_bytes": 5 * 1024 * 1024, "max_count": 7}) as host:
        add_dashboard(host.app, host.daemon)
        async with new_browser(host) as browser:
            await browser.sign_in(await host.tenant("acme"))
            await host.tenant("own", limits={"artifact_count": 3})
            for name, words in (("acme", "7, 5.0 MiB"), ("own", "3, 5.0 MiB")):
                found = await host.daemon.tenants.named(name)
                assert words in (await browser.look(f"/tenants/{found.id}")).text

"""The door of the dashboard: who gets in, for how long, and what nobody can make a browser do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox_skills.daemon.access.scopes import Scope
from sandbox_skills.daemon.truth.keys import Keys
from sandbox_skills.daemon.ui.pages.routes import ACTIONS, PAGES
from tests.unit.daemon.ui.conftest import Browser, new_browser

if TYPE_CHECKING:
    from tests.daemon_host import Host

pytestmark = pytest.mark.anyio


def filled(path: str) -> str:
    return (
        path.replace("{run_id}", "01JDZ6V7Z3M9QHTR4W8YB2C5KD")
        .replace("{tenant_id}", "x")
        .replace("{key_id}", "x")
        .replace("{session_id}", "x")
        .replace("{talk_id}", "01JDZ6V7Z3M9QHTR4W8YB2C5KE")
    )


async def test_every_page_asks_who_is_there_and_leads_back(browser: Browser) -> None:
    for path in [*(filled(path) for path, _, _ in PAGES), "/no-such-page"]:
        answer = await browser.client.get(f"/ui{path}")
        assert answer.status_code == 303
        wanted = "" if path == "/" else f"?next={path}"
        assert answer.headers["Location"] == f"/ui/sign-in{wanted}"


async def test_nothing_is_done_for_nobody(browser: Browser) -> None:
    for path, _, _ in ACTIONS:
        answer = await browser.client.post(f"/ui{filled(path)}", data={"csrf": "x"})
        assert (answer.status_code, answer.headers["Location"]) == (303, "/ui/sign-in")


async def test_a_key_signs_in_and_its_cookie_tells_no_script_and_no_other_site(
    host: Host, browser: Browser
) -> None:
    answer = await browser.sign_in(await host.tenant("acme"), "/runs?state=queued")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/ui/runs?state=queued")
    cookie = next(one for one in answer.headers.get_list("set-cookie") if "dashboard" in one)
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Path=/ui" in cookie
    assert "Secure" not in cookie
    page = await browser.look("/")
    assert page.status_code == 200
    assert "acme" in page.text


async def test_over_https_the_cookie_stays_there(host: Host) -> None:
    async with new_browser(host, "https://daemon.test") as browser:
        answer = await browser.sign_in(await host.tenant("acme"))
    assert all("Secure" in one for one in answer.headers.get_list("set-cookie") if "dashboard" in one)


async def test_a_wrong_key_is_told_and_not_repeated(browser: Browser) -> None:
    for key in ["", "ssk_wrong", "ssk_" + "0" * 16 + "_" + "0" * 64, "<script>alert(1)</script>"]:
        answer = await browser.sign_in(key)
        assert answer.status_code == 401
        assert "does not count" in answer.text
        assert not key or key not in answer.text


async def test_a_key_that_may_run_nothing_is_told_so(host: Host, browser: Browser) -> None:
    answer = await browser.sign_in(await host.tenant("acme", scopes={Scope.SKILLS_WRITE}))
    assert answer.status_code == 401
    assert "may not run" in answer.text


async def test_signing_in_leads_nowhere_else(host: Host) -> None:
    key = await host.tenant("acme")
    for target in ["//evil.test", "https://evil.test", "/\\evil.test", "/../v1", "javascript:1"]:
        async with new_browser(host) as browser:
            answer = await browser.sign_in(key, target)
        assert answer.headers["Location"] == "/ui/"


@pytest.mark.parametrize("path", ["/", "/ui"])
async def test_the_way_to_the_dashboard_leads_to_no_host_that_the_request_names(
    browser: Browser, path: str
) -> None:
    answer = await browser.client.get(path, headers={"Host": "evil.test"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/ui/")


async def test_a_form_of_another_browser_signs_nobody_in(host: Host, browser: Browser) -> None:
    await browser.look("/sign-in")
    foreign = browser.token
    async with new_browser(host) as other:
        other.token = foreign
        answer = await other.send("/sign-in", key=await host.tenant("acme"))
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


async def test_signing_in_gives_a_new_cookie_whatever_was_there(host: Host, browser: Browser) -> None:
    browser.client.cookies.set("sandbox_skills_dashboard", "chosen-by-somebody", path="/ui")
    answer = await browser.sign_in(await host.tenant("acme"))
    assert "chosen-by-somebody" not in answer.headers["Set-Cookie"]
    browser.client.cookies.clear()
    browser.client.cookies.set("sandbox_skills_dashboard", "chosen-by-somebody", path="/ui")
    assert (await browser.client.get("/ui/")).status_code == 303


async def test_who_signed_out_is_out(acme: Browser) -> None:
    answer = await acme.send("/sign-out")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/ui/sign-in")
    assert (await acme.client.get("/ui/")).status_code == 303


async def test_nobody_is_signed_out_by_another_site(acme: Browser) -> None:
    acme.token = "forged"
    assert (await acme.send("/sign-out")).status_code == 403
    assert (await acme.look("/")).status_code == 200


async def test_a_key_that_is_revoked_opens_nothing_from_then_on(host: Host, acme: Browser) -> None:
    key = (await Keys(host.daemon.database).list())[0]
    await Keys(host.daemon.database).revoke(key.id, actor="test")
    assert (await acme.client.get("/ui/")).status_code == 303


async def test_a_tenant_that_is_disabled_is_out(host: Host, acme: Browser) -> None:
    tenant = await host.daemon.tenants.named("acme")
    await host.daemon.tenants.update(tenant.id, disabled=True, actor="test")
    assert (await acme.client.get("/ui/")).status_code == 303


async def test_what_is_an_admins_is_shown_to_no_other(host: Host, browser: Browser) -> None:
    await browser.sign_in(await host.tenant("acme", scopes={Scope.RUN}))
    for path in [filled(path) for path, _, scope in PAGES if scope is Scope.ADMIN]:
        answer = await browser.look(path)
        assert answer.status_code == 403
        assert "lacks the scope admin" in answer.text


async def test_what_is_an_admins_is_done_for_no_other(host: Host, browser: Browser) -> None:
    await browser.sign_in(await host.tenant("acme", scopes={Scope.RUN}))
    await browser.look("/")
    for path in [filled(path) for path, _, scope in ACTIONS if scope not in {None, Scope.RUN}]:
        answer = await browser.send(path, name="mine", disabled="yes", **{"may:admin": "yes"})
        assert answer.status_code == 403, path
        assert "lacks the scope" in answer.text
    assert {one.name for one in await host.daemon.tenants.list()} == {"acme"}


async def test_no_action_is_done_without_its_token(host: Host, acme: Browser) -> None:
    acme.token = "forged"
    for path, _, _ in ACTIONS:
        assert (await acme.send(filled(path), name="mine")).status_code == 403, path
    assert {one.name for one in await host.daemon.tenants.list()} == {"acme"}


async def test_a_form_without_its_token_does_nothing(acme: Browser) -> None:
    for forged in ("", "forged"):
        acme.token = forged
        answer = await acme.send("/runs/01JDZ6V7Z3M9QHTR4W8YB2C5KD/cancel")
        assert answer.status_code == 403
        assert "form is too old" in answer.text


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_form_that_another_site_sent_does_nothing_even_with_the_token(
    acme: Browser, site: str
) -> None:
    acme.client.headers["Sec-Fetch-Site"] = site
    assert (await acme.send("/runs/01JDZ6V7Z3M9QHTR4W8YB2C5KD/cancel")).status_code == 403


async def test_every_answer_has_the_headers_that_protect_it(acme: Browser) -> None:
    for path in ["/sign-in", "/", "/static/dashboard.js", "/no-such-page", "/static/none"]:
        headers = (await acme.look(path)).headers
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"


async def test_no_page_stays_in_a_cache_and_static_files_do(acme: Browser) -> None:
    assert (await acme.look("/")).headers["Cache-Control"] == "no-store"
    assert "immutable" in (await acme.look("/static/dashboard.css")).headers["Cache-Control"]
    assert (await acme.look("/static/..%2frendering.py")).status_code == 404

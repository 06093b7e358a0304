"""Tenants, keys, the audit log and usage over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.daemon.access.scopes import Scope
from sandbox_skills.daemon.truth.audit import AuditEntry, entry_hash
from tests.daemon_host import opened_host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import httpx

    from tests.daemon_host import Host

pytestmark = pytest.mark.anyio

ROUTES = [
    ("POST", "/v1/admin/tenants"),
    ("GET", "/v1/admin/tenants"),
    ("GET", "/v1/admin/tenants/x"),
    ("PATCH", "/v1/admin/tenants/x"),
    ("POST", "/v1/admin/tenants/x/keys"),
    ("GET", "/v1/admin/tenants/x/keys"),
    ("DELETE", "/v1/admin/tenants/x/keys/y"),
    ("GET", "/v1/admin/audit"),
    ("GET", "/v1/admin/usage"),
]


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with opened_host(tmp_path) as host:
        yield host


@pytest.fixture
async def admin(host: Host) -> AsyncIterator[httpx.AsyncClient]:
    async with host.client(await host.tenant("root")) as client:
        yield client


async def made(admin: httpx.AsyncClient, **given: object) -> dict[str, Any]:
    answer = await admin.post("/v1/admin/tenants", json={"name": "acme", **given})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    assert answer.headers["Location"] == f"/v1/admin/tenants/{found['id']}"
    return found


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_other_keys_may_nothing_of_it(host: Host, method: str, path: str) -> None:
    body: dict[str, Any] | None = {} if method in {"POST", "PATCH"} else None
    async with host.client() as nobody:
        assert (await nobody.request(method, path, json=body)).status_code == 401
    plain = await host.tenant("plain", scopes=[Scope.RUN, Scope.SKILLS_WRITE])
    async with host.client(plain) as client:
        answer = await client.request(method, path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")


async def test_a_tenant_is_made_found_and_changed(admin: httpx.AsyncClient) -> None:
    tenant = await made(admin, limits={"concurrency": 2})
    assert (tenant["object"], tenant["limits"]) == ("tenant", {"concurrency": 2})
    assert tenant["effective_limits"]["concurrency"] == 2
    assert tenant["effective_limits"]["queue"] == 1000
    for name in (tenant["id"], "acme"):
        assert (await admin.get(f"/v1/admin/tenants/{name}")).json() == tenant
    changed = await admin.patch(f"/v1/admin/tenants/{tenant['id']}", json={"limits": {"queue": 3}})
    assert changed.json() == {
        **tenant,
        "limits": {"queue": 3},
        "effective_limits": {**tenant["effective_limits"], "concurrency": 4, "queue": 3},
    }


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"name": "root"}, 409, "tenant_exists"),
        ({"name": "Not a name"}, 422, "tenant_invalid"),
        ({"name": "acme", "limits": {"concurrency": 0}}, 422, "tenant_invalid"),
        ({"name": "acme", "limits": {"memory": 1}}, 422, "tenant_invalid"),
        ({"name": "acme", "policy": {"skils": {}}}, 422, "tenant_invalid"),
        ({"name": "acme", "colour": "red"}, 422, "request_body_invalid"),
        ({}, 422, "request_body_invalid"),
    ],
)
async def test_what_no_tenant_can_be_is_refused_and_leaves_nothing(
    admin: httpx.AsyncClient, body: dict[str, Any], status: int, code: str
) -> None:
    answer = await admin.post("/v1/admin/tenants", json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert [one["name"] for one in (await admin.get("/v1/admin/tenants")).json()["items"]] == ["root"]


async def test_what_is_not_there_is_told(admin: httpx.AsyncClient) -> None:
    tenant = await made(admin)
    for method, path in (
        ("GET", "/v1/admin/tenants/nobody"),
        ("PATCH", "/v1/admin/tenants/nobody"),
        ("POST", "/v1/admin/tenants/nobody/keys"),
        ("GET", "/v1/admin/tenants/nobody/keys"),
        ("DELETE", f"/v1/admin/tenants/{tenant['id']}/keys/nothing"),
    ):
        body: dict[str, Any] | None = {} if method in {"POST", "PATCH"} else None
        assert (await admin.request(method, path, json=body)).status_code == 404


async def test_tenants_are_listed_by_pages(admin: httpx.AsyncClient) -> None:
    for name in ("a", "b"):
        await made(admin, name=name)
    first = (await admin.get("/v1/admin/tenants", params={"limit": 2})).json()
    rest = (await admin.get("/v1/admin/tenants", params={"limit": 2, "after": first["next_cursor"]})).json()
    assert [one["name"] for one in first["items"] + rest["items"]] == ["root", "a", "b"]
    assert rest["next_cursor"] is None


async def test_a_key_works_from_when_it_is_made_until_it_is_revoked(
    host: Host, admin: httpx.AsyncClient
) -> None:
    tenant = await made(admin)
    path = f"/v1/admin/tenants/{tenant['id']}/keys"
    answer = await admin.post(path, json={"name": "laptop", "scopes": ["run"], "expires_in_seconds": 60})
    assert answer.status_code == 201
    key = answer.json()
    async with host.client(key["key"]) as client:
        assert (await client.get("/v1/runs")).status_code == 200
        listed = (await admin.get(path)).json()["items"]
        assert [one["last_used_at"] is not None for one in listed] == [True]
        assert "key" not in listed[0]
        assert key["key"] not in (await admin.get(path)).text
        assert (await admin.delete(f"{path}/{key['id']}")).status_code == 204
        assert (await client.get("/v1/runs")).status_code == 401
    assert (await admin.get(path)).json()["items"][0]["revoked_at"] is not None


async def test_a_key_is_revoked_only_below_its_own_tenant(host: Host, admin: httpx.AsyncClient) -> None:
    tenant, other = await made(admin), await made(admin, name="other")
    key = (await admin.post(f"/v1/admin/tenants/{tenant['id']}/keys", json={})).json()
    assert key["scopes"] == ["run"]
    answer = await admin.delete(f"/v1/admin/tenants/{other['id']}/keys/{key['id']}")
    assert answer.status_code == 404
    async with host.client(key["key"]) as client:
        assert (await client.get("/v1/runs")).status_code == 200


@pytest.mark.parametrize(
    "body", [{"scopes": []}, {"scopes": ["all"]}, {"expires_in_seconds": 0}, {"expires_in_seconds": "inf"}]
)
async def test_what_no_key_can_be_is_refused(admin: httpx.AsyncClient, body: dict[str, Any]) -> None:
    tenant = await made(admin)
    assert (await admin.post(f"/v1/admin/tenants/{tenant['id']}/keys", json=body)).status_code == 422


async def test_keys_of_a_disabled_tenant_do_not_count(host: Host, admin: httpx.AsyncClient) -> None:
    tenant = await made(admin)
    key = (await admin.post(f"/v1/admin/tenants/{tenant['id']}/keys", json={})).json()["key"]
    async with host.client(key) as client:
        for disabled, status in ((True, 401), (False, 200)):
            await admin.patch(f"/v1/admin/tenants/{tenant['id']}", json={"disabled": disabled})
            assert (await client.get("/v1/runs")).status_code == status


async def test_what_was_done_is_in_the_audit_log_and_fits_together(admin: httpx.AsyncClient) -> None:
    tenant = await made(admin)
    key = (await admin.post(f"/v1/admin/tenants/{tenant['id']}/keys", json={})).json()
    await admin.delete(f"/v1/admin/tenants/{tenant['id']}/keys/{key['id']}")
    entries: list[dict[str, Any]] = []
    after: dict[str, str] = {}
    while True:
        page = (await admin.get("/v1/admin/audit", params={"limit": 2, **after})).json()
        entries += page["items"]
        if page["next_cursor"] is None:
            break
        after = {"after": page["next_cursor"]}
    assert [one["action"] for one in entries[-3:]] == ["tenant.create", "key.create", "key.revoke"]
    assert all(entry_hash(AuditEntry(**one)) == one["hash"] for one in entries)
    assert key["key"] not in str(entries)
    mine = (await admin.get("/v1/admin/audit", params={"tenant_id": tenant["id"]})).json()["items"]
    assert len(mine) == 3
    assert {one["actor"] for one in mine} == {entries[-1]["actor"]}


@pytest.mark.parametrize("cursor", ["x", "LTE", "OTk5OTk5OTk5OTk5OTk5OTk5OTk5OQ"])
async def test_a_cursor_of_another_list_is_told(admin: httpx.AsyncClient, cursor: str) -> None:
    answer = await admin.get("/v1/admin/audit", params={"after": cursor})
    assert (answer.status_code, answer.json()["code"]) == (422, "cursor_invalid")


async def test_usage_tells_what_each_tenant_has(host: Host, admin: httpx.AsyncClient) -> None:
    async with host.client(await host.tenant("acme", limits={"queue": 7})) as client:
        order = {"skill": "greeter", "argv": ["echo", "hello"]}
        assert (await client.post("/v1/runs", json=order, params={"wait": 10})).status_code == 200
    rows = {one["name"]: one for one in (await admin.get("/v1/admin/usage")).json()["items"]}
    assert set(rows) == {"root", "acme"}
    mine = rows["acme"]
    assert (mine["runs_kept"], mine["runs_of_day"], mine["queued"], mine["running"]) == (1, 1, 0, 0)
    assert (mine["limits"]["queue"], mine["artifacts"]["count"]) == (7, 0)
    assert rows["root"]["runs_kept"] == 0

"""No key, no answer; a foreign key, nothing there. Every route of the application is tried: a new one is, too."""

from __future__ import annotations

import json
import re
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import APIRouter
from fastapi.routing import APIWebSocketRoute
from starlette.routing import Mount, Route

from sandbox_skills.artifacts import ArtifactMetadata
from sandbox_skills.daemon.access.scopes import ALL_SCOPES, Scope
from tests.daemon_host import opened_host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.daemon_host import Host

pytestmark = pytest.mark.anyio

OPEN = {("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/v1/openapi.json")}
"""What needs no key: what supervisors ask, and the document that everybody has with the package."""

MOUNTED = {"/mcp": "test_over_mcp_a_key_is_needed", "/ui": "tests/unit/daemon/ui/test_tenancy_pages.py"}
"""Applications of their own, and what shows the same of them."""

LISTS = {
    ("GET", "/v1/runs"),
    ("GET", "/v1/sessions"),
    ("GET", "/v1/artifacts"),
    ("GET", "/v1/capabilities"),
    ("GET", "/v1/skills"),
    ("GET", "/v1/tools"),
    ("GET", "/v1/agents/runs"),
}
"""What a foreign tenant may read, and must find nothing of another in."""

MAKES = {
    ("POST", "/v1/runs"),
    ("POST", "/v1/sessions"),
    ("POST", "/v1/skills"),
    ("POST", "/v1/skills/validate"),
    ("POST", "/v1/tool-calls"),
    ("POST", "/v1/agents/runs"),
}
"""What names nobody else's: a tenant makes its own. What a body may name is tried below."""

BODIES: dict[str, dict[str, Any]] = {
    "/extend": {"seconds": 5},
    "/approvals": {"call_id": "x", "decision": "approve"},
}


@dataclass(frozen=True, slots=True)
class Owned:
    """What the victim has, by the name of the path's parameter."""

    key: str
    tenant: str
    values: dict[str, str] = field(default_factory=dict[str, str])


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with opened_host(tmp_path) as host:
        yield host


@pytest.fixture
async def victim(host: Host) -> Owned:
    """A tenant with one of everything."""
    key = await host.tenant("victim")
    tenant = (await host.daemon.tenants.named("victim")).id
    await host.daemon.artifacts.save("secret.txt", b"secret", ArtifactMetadata(), tenant=tenant)
    async with host.client(key) as client:
        order = {"skill": "greeter", "argv": ["cat"], "interactive": True}
        run = (await client.post("/v1/runs", json=order)).json()["id"]
        session = (await client.post("/v1/sessions", json={"name": "secret"})).json()["id"]
        await client.put(f"/v1/sessions/{session}/files/work/secret.txt", content=b"secret")
    values = {
        "run_id": run,
        "session_id": session,
        "path": "work/secret.txt",
        "name": "secret.txt",
        "version": "0",
        "tenant_id": tenant,
        "key_id": (await host.daemon.keys.identify(key)).key_id,
    }
    return Owned(key, tenant, values)


def routes(host: Host) -> list[tuple[str, str]]:
    """Returns method and path of every route that answers requests."""
    return [pair for route in host.app.routes for pair in told_by(route)]


def told_by(route: object) -> Iterator[tuple[str, str]]:
    """Yields method and path of a route, or of every route of a router that was included."""
    if isinstance(included := getattr(route, "original_router", None), APIRouter):
        for one in included.routes:
            yield from told_by(one)
    elif isinstance(route, APIWebSocketRoute):
        yield "WEBSOCKET", route.path
    elif isinstance(route, Route):
        yield from ((method, route.path) for method in sorted(route.methods or ()) if method != "HEAD")
    else:
        assert isinstance(route, Mount), route
        assert route.path in MOUNTED, f"{route.path} needs a test of its own"


def filled(path: str, values: dict[str, str]) -> str:
    """Returns a path with the victim's ids in it; a parameter that is not known here fails."""
    return re.sub(r"{(\w+)(?::path)?}", lambda found: values[found[1]], path)


def body_of(path: str) -> dict[str, Any]:
    return next((body for end, body in BODIES.items() if path.endswith(end)), {})


async def answers(host: Host, victim: Owned, key: str | None) -> dict[tuple[str, str], tuple[int, str]]:
    """Returns what every route answers to a request for the victim's things."""
    told: dict[tuple[str, str], tuple[int, str]] = {}
    async with host.client(key) as client:
        for method, path in routes(host):
            if method != "WEBSOCKET":
                answer = await client.request(method, filled(path, victim.values), json=body_of(path))
                told[method, path] = (answer.status_code, answer.text)
    return told


async def test_the_routes_of_this_test_are_all_there_are(host: Host) -> None:
    paths = routes(host)
    assert len(paths) > 20
    assert {pair for pair in paths if pair[0] == "WEBSOCKET"} == {("WEBSOCKET", "/v1/runs/{run_id}/io")}


async def test_without_a_key_nothing_is_answered(host: Host, victim: Owned) -> None:
    for key in (None, "nonsense", "ssk_" + "0" * 16 + "_" + "0" * 64):
        for pair, (status, _) in (await answers(host, victim, key)).items():
            assert status == (200 if pair in OPEN else 401), (pair, key)


async def test_what_another_tenant_has_is_not_there(host: Host, victim: Owned) -> None:
    key = await host.tenant("attacker", scopes=ALL_SCOPES - {Scope.ADMIN})
    for pair, (status, text) in (await answers(host, victim, key)).items():
        told = (pair, status, text[:300])
        if pair in OPEN | LISTS:
            assert status == 200, told
        elif pair in MAKES:
            assert status in {201, 408, 415, 422}, told
        else:
            assert status in {403, 404}, told
        ids = {victim.tenant, victim.values["run_id"], victim.values["session_id"]}
        spoken = {one for one in ids if one in text}
        assert status in {403, 404} or not spoken, told
        assert "secret" not in text or status in {403, 404}, told


async def test_the_victim_still_has_all_of_it(host: Host, victim: Owned) -> None:
    key = await host.tenant("attacker", scopes=ALL_SCOPES - {Scope.ADMIN})
    await answers(host, victim, key)
    async with host.client(victim.key) as client:
        run = (await client.get(f"/v1/runs/{victim.values['run_id']}")).json()
        assert run["state"] != "finished"
        files = f"/v1/sessions/{victim.values['session_id']}/files/work/secret.txt"
        assert (await client.get(files)).content == b"secret"
        content = await client.get("/v1/artifacts/secret.txt/versions/0/content")
        assert content.content == b"secret"


async def test_a_foreign_id_and_none_are_answered_alike(host: Host, victim: Owned) -> None:
    """Else whoever asks learns which ids there are."""
    key = await host.tenant("attacker", scopes=ALL_SCOPES - {Scope.ADMIN})
    nobody = {
        **victim.values,
        "run_id": "01JDZ6V7Z3M9QHTR4W8YB2C5KD",
        "session_id": "01JDZ6V7Z3M9QHTR4W8YB2C5KE",
    }
    mine = await answers(host, victim, key)
    none = await answers(host, Owned(victim.key, victim.tenant, nobody), key)
    for pair, (status, text) in mine.items():
        if "run_id" in pair[1] or "session_id" in pair[1]:
            assert _shape(status, text, victim.values) == _shape(*none[pair], nobody), pair


def _shape(status: int, text: str, values: dict[str, str]) -> tuple[int, object]:
    """Returns an answer without the ids that were asked for and the request's own."""
    for name in ("run_id", "session_id"):
        text = text.replace(values[name], "ID")
    problem = json.loads(text)
    problem.pop("request_id", None)
    return status, problem


async def test_a_body_cannot_name_what_another_tenant_has(host: Host, victim: Owned) -> None:
    order = {"skill": "greeter", "argv": ["echo", "x"]}
    cases: list[tuple[dict[str, Any], str]] = [
        ({**order, "session_id": victim.values["session_id"]}, "session_not_found"),
        ({**order, "inputs": [{"from": "artifact://secret.txt"}]}, "artifact_not_found"),
    ]
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(host.client(await host.tenant("attacker")))
        for body, code in cases:
            answer = (await client.post("/v1/runs", json=body, params={"wait": 10})).json()
            assert (answer.get("outcome") or answer)["code"] == code
        same = {"Idempotency-Key": "k"}
        mine = (await client.post("/v1/runs", json=order, headers=same)).json()
        other = await stack.enter_async_context(host.client(victim.key))
        theirs = (await other.post("/v1/runs", json=order, headers=same)).json()
    assert mine["id"] != theirs["id"]


async def test_a_key_that_was_revoked_or_disabled_counts_no_more(host: Host, victim: Owned) -> None:
    async with host.client(victim.key) as client:
        assert (await client.get("/v1/runs")).status_code == 200
        await host.daemon.tenants.update(victim.tenant, disabled=True, actor="test")
        assert (await client.get("/v1/runs")).status_code == 401


async def test_each_scope_gives_what_it_is_for_and_no_more(host: Host, victim: Owned) -> None:
    """Of its own tenant's things, a key without a scope gets none."""
    made = await host.daemon.keys.create(victim.tenant, scopes=set(), actor="test")
    for pair, (status, text) in (await answers(host, victim, made.token)).items():
        expected = {200} if pair in OPEN | {("GET", "/v1/capabilities")} else {403}
        assert status in expected, (pair, status, text[:300])


def rpc(method: str, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def test_over_mcp_a_key_is_needed_and_what_another_tenant_has_is_not_there(
    host: Host, victim: Owned
) -> None:
    begin = rpc(
        "initialize",
        protocolVersion="2025-06-18",
        capabilities={},
        clientInfo={"name": "test", "version": "1"},
    )
    accept = {"accept": "application/json, text/event-stream"}
    session = victim.values["session_id"]
    read = rpc("resources/read", uri="artifact://secret.txt")
    use = rpc("tools/call", name="load_skill", arguments={"skill": "secret"})
    told: dict[str, list[str]] = {}
    async with host.serving() as address, AsyncExitStack() as stack:
        keys = {"victim": victim.key, "attacker": await host.tenant("attacker")}
        for who, key in keys.items():
            client = await stack.enter_async_context(host.client(key))
            web = httpx.AsyncClient(base_url=f"http://{address}", headers={**client.headers, **accept})
            await stack.enter_async_context(web)
            begun = await web.post("/mcp", json=begin)
            assert begun.status_code == 200, begun.text
            web.headers["mcp-session-id"] = begun.headers["mcp-session-id"]
            # Whoever knows the id of another's session has a name of its own with it, and no more.
            web.headers["x-conversation"] = session
            asked = (rpc("resources/list"), read, use)
            told[who] = [(await web.post("/mcp", json=one)).text for one in asked]
        for method in ("GET", "POST", "DELETE"):
            for key_headers in ({}, {"authorization": "Bearer ssk_nonsense"}):
                async with httpx.AsyncClient(base_url=f"http://{address}") as nobody:
                    answer = await nobody.request(
                        method, "/mcp", headers={**accept, **key_headers}, json=begin
                    )
                    assert answer.status_code == 401
    assert '"result"' in told["victim"][1], told["victim"][1]
    assert "secret.txt" not in told["attacker"][0]
    assert "error" in told["attacker"][1]
    assert victim.tenant not in "".join(told["attacker"])

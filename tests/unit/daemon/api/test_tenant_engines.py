"""A tenant whose limits name engines has sandboxes of no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.daemon_host import opened_host

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

RUN = {"skill": "greeter", "argv": ["echo", "hello"]}
CALL = {"id": "1", "type": "function", "function": {"name": "use_skill", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/runs", RUN),
        ("/v1/sessions", {}),
        ("/v1/tool-calls", {"call": CALL}),
        ("/v1/agents/runs", {"input": "Say hello."}),
        ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}),
    ],
)
async def test_what_needs_a_sandbox_is_refused(tmp_path: Path, path: str, body: dict[str, Any]) -> None:
    async with opened_host(tmp_path) as host:
        key = await host.tenant("acme", limits={"engines": ["docker"]})
        async with host.client(key) as client:
            answer = await client.post(path, json=body)
            assert (answer.status_code, answer.json()["code"]) == (403, "policy_denied")
            assert (await client.get("/v1/runs")).json()["items"] == []


async def test_with_the_servers_engine_among_them_it_runs(tmp_path: Path) -> None:
    async with opened_host(tmp_path) as host:
        key = await host.tenant("acme", limits={"engines": ["docker", "fake"]})
        async with host.client(key) as client:
            run = (await client.post("/v1/runs", json=RUN, params={"wait": 10})).json()
            assert run["outcome"] == {"type": "exited", "code": 0}


async def test_a_run_that_waited_is_judged_by_what_holds_when_its_turn_has_come(tmp_path: Path) -> None:
    async with opened_host(tmp_path, daemon={"slots": 1}) as host:
        key = await host.tenant("acme")
        (acme,) = await host.daemon.tenants.list()
        async with host.client(key) as client:
            first = (await client.post("/v1/runs", json={**RUN, "argv": ["sleep", "30"]})).json()
            second = (await client.post("/v1/runs", json=RUN)).json()
            await host.daemon.tenants.update(acme.id, limits={"engines": []}, actor="test")
            await client.post(f"/v1/runs/{first['id']}/cancel")
            run = (await client.get(f"/v1/runs/{second['id']}", params={"wait": 10})).json()
            assert (run["outcome"]["type"], run["outcome"]["code"]) == ("rejected", "policy_denied")

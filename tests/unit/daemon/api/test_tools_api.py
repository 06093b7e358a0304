"""Tools and MCP over HTTP: two requests make an agent, and a key leads to its tenant's tools alone."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import httpx
import httpx2
import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

from sandbox_skills.daemon.access.scopes import Scope
from sandbox_skills.daemon.api import streams
from sandbox_skills.toolsets.skill_runs import EMPTIED as GONE
from tests.daemon_host import opened_host
from tests.http_server import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.daemon_host import Host

pytestmark = pytest.mark.anyio

LOAD = {"type": "tool_use", "id": "t1", "name": "load_skill", "input": {"skill": "greeter"}}
TEXT = "---\nname: sums\ndescription: Adds numbers.\n---\nAdd them up.\n"


CHAT_CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "load_skill", "arguments": '{"skill": "greeter"}'},
}


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with opened_host(tmp_path) as host:
        yield host


@pytest.fixture
async def client(host: Host) -> AsyncIterator[httpx.AsyncClient]:
    async with host.client(await host.tenant("acme")) as client:
        yield client


async def test_two_requests_make_an_agent(client: httpx.AsyncClient) -> None:
    offer = (await client.get("/v1/tools", params={"format": "anthropic"})).json()
    assert [tool["name"] for tool in offer["tools"]] == ["load_skill", "use_skill"]
    assert "greeter" in offer["prompt"]
    answer = (await client.post("/v1/tool-calls", json={"format": "anthropic", "call": LOAD})).json()
    assert answer["result"]["type"] == "tool_result"
    assert answer["result"]["tool_use_id"] == "t1"
    assert "echo hello" in answer["result"]["content"]
    assert answer["results"] == [answer["result"]]
    again = {"format": "anthropic", "session_id": answer["session_id"], "calls": [LOAD]}
    second = (await client.post("/v1/tool-calls", json=again)).json()
    assert "unchanged" in second["results"][0]["content"]


async def test_calls_in_a_session_of_the_server_share_its_workspace(client: httpx.AsyncClient) -> None:
    session = (await client.post("/v1/sessions", json={})).json()["id"]
    asked = {"format": "anthropic", "session_id": session, "call": LOAD}
    assert (await client.post("/v1/tool-calls", json=asked)).status_code == 200
    foreign = {**asked, "session_id": "01JDZ6V7Z3M9QHTR4W8YB2C5KD"}
    assert (await client.post("/v1/tool-calls", json=foreign)).status_code == 404
    query = {"session_id": foreign["session_id"]}
    assert (await client.get("/v1/tools", params=query)).status_code == 404


async def test_text_beside_calls_is_passed_over_and_no_calls_have_no_answers(
    client: httpx.AsyncClient,
) -> None:
    for given, answers in (([{"type": "text", "text": "x"}, LOAD], 1), ([], 0)):
        body = {"format": "anthropic", "calls": given}
        assert len((await client.post("/v1/tool-calls", json=body)).json()["results"]) == answers
    chat = (await client.post("/v1/tool-calls", json={"format": "chat", "call": CHAT_CALL})).json()
    assert chat["result"]["tool_call_id"] == "c1"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"call": LOAD, "calls": [LOAD]}, 422),
        ({"call": LOAD, "format": "morse"}, 422),
        ({"call": {"type": "text", "text": "x"}, "format": "anthropic"}, 422),
        ({"calls": [{"type": "text", "text": "x"}], "format": "anthropic"}, 422),
        ({"calls": [CHAT_CALL], "format": "openai"}, 422),
        ({"calls": [LOAD] * 33, "format": "anthropic"}, 422),
        ({"call": LOAD, "session_id": ""}, 422),
        ({"call": LOAD, "toolset": "nope"}, 400),
        ({"call": LOAD, "more": 1}, 422),
    ],
)
async def test_what_is_no_call_is_refused(
    client: httpx.AsyncClient, body: dict[str, object], status: int
) -> None:
    assert (await client.post("/v1/tool-calls", json=body)).status_code == status


async def test_a_tenants_ceiling_holds_for_its_calls_as_for_its_runs(host: Host) -> None:
    load = {"type": "tool_use", "id": "t1", "name": "skill_load", "input": {"skill": "greeter"}}
    asked = {"skill": "greeter", "command": "echo hello"}
    call = {"type": "tool_use", "id": "t2", "name": "skill_run", "input": asked}
    shown: list[object] = []  # the fake box has no bash, and says so
    for name, ceiling in (("wide", None), ("narrow", 4)):
        key = await host.tenant(name, limits={"sandbox": {"output_bytes": ceiling}})
        async with host.client(key) as client:
            body = {"format": "anthropic", "toolset": "workspace", "session_id": "mine"}
            await client.post("/v1/tool-calls", json={**body, "call": load})
            answer = (await client.post("/v1/tool-calls", json={**body, "call": call})).json()
            shown.append(json.loads(answer["result"]["content"])["stderr"])
    assert shown == ["bash: command not found\n", "bash"]


async def test_calls_count_as_runs_of_a_minute(host: Host) -> None:
    async with host.client(await host.tenant("few", limits={"runs_per_minute": 2})) as client:
        body = {"format": "anthropic", "call": LOAD}
        answers = [await client.post("/v1/tool-calls", json=body) for _ in range(3)]
        assert [one.status_code for one in answers] == [200, 200, 429]
        assert [one.headers["ratelimit-remaining"] for one in answers] == ["1", "0", "0"]
        assert int(answers[2].headers["retry-after"]) > 0


async def test_a_key_is_needed_and_the_scope_with_it(host: Host) -> None:
    async with host.client() as nobody:
        assert (await nobody.get("/v1/tools")).status_code == 401
        assert (await nobody.post("/mcp", json={})).status_code == 401
    async with host.client(await host.tenant("w", scopes={Scope.SKILLS_WRITE})) as writer:
        assert (await writer.get("/v1/tools")).status_code == 403
        assert (await writer.post("/mcp", json={})).status_code == 403


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_an_mcp_client_sees_its_tenant_s_skills_and_no_other_s(host: Host, mode: str) -> None:
    keys = [await host.tenant(name) for name in ("a", "b")]
    async with host.client(keys[0]) as client:
        sent = await client.post("/v1/skills", files=[("files[]", ("SKILL.md", TEXT))])
        assert sent.status_code == 201
    async with serving(host.app) as port:
        for key, names in zip(keys, ("sums", ""), strict=True):
            async with (
                httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as web,
                Client(
                    streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=web), mode=mode
                ) as mcp,
            ):
                assert ("sums" in (mcp.instructions or "")) is bool(names)
                called = await mcp.call_tool("load_skill", {"skill": "sums"})
                (block,) = called.content
                assert isinstance(block, types.TextContent)
                assert ("Add them up." in block.text) is bool(names)
                found = (await mcp.list_resources()).resources
                assert any("sums" in str(one.uri) for one in found) is bool(names)


async def ran(client: httpx.AsyncClient, session_id: str | None = None) -> tuple[str, str]:
    """Runs a command in a conversation's workspace; returns the conversation and what the model is told."""
    call = {"name": "workspace_exec", "arguments": {"command": "true"}}
    body = {"format": "mcp", "toolset": "workspace", "session_id": session_id, "call": call}
    answer = await client.post("/v1/tool-calls", json=body)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["session_id"]), answer.text


async def test_files_that_went_with_an_earlier_server_are_told_once(tmp_path: Path) -> None:
    async with opened_host(tmp_path) as host:
        key = await host.tenant("acme")
        async with host.client(key) as client:
            _, first = await ran(client, "mine")
            made, _ = await ran(client)
            assert GONE not in first + (await ran(client, "mine"))[1]
    async with opened_host(tmp_path) as host, host.client(key) as client:
        for name in ("mine", made):
            assert GONE in (await ran(client, name))[1]
            assert GONE not in (await ran(client, name))[1]
        assert GONE not in (await ran(client, "new"))[1]
        assert GONE not in (await ran(client))[1]
        async with host.client(await host.tenant("other")) as other:
            assert GONE not in (await ran(other, "mine"))[1]


BEGIN = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}


def headers(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}", "accept": "application/json, text/event-stream"}


async def begun(web: httpx.AsyncClient, key: str) -> dict[str, str]:
    """Begins a session of MCP and returns the headers of whatever is asked in it."""
    answer = await web.post("/mcp", json=BEGIN, headers=headers(key))
    assert answer.status_code == 200, answer.text
    return {**headers(key), "mcp-session-id": answer.headers["mcp-session-id"]}


async def test_calls_over_mcp_count_as_runs(host: Host) -> None:
    key = await host.tenant("a", limits={"runs_per_minute": 1})
    calling = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "load_skill", "arguments": {"skill": "x"}},
    }
    async with serving(host.app) as port, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as web:
        own = await begun(web, key)
        first, second = [(await web.post("/mcp", json=calling, headers=own)).text for _ in range(2)]
    assert "runs a minute" not in first
    assert "runs a minute" in second
    assert "rate_limited" in second


async def test_a_server_of_mcp_that_nobody_asks_ends_and_another_is_made(host: Host) -> None:
    key = await host.tenant("a")
    async with serving(host.app) as port, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as web:
        own = await begun(web, key)
        async with web.stream("GET", "/mcp", headers=own) as listening:
            assert listening.status_code == 200
            await host.daemon.mcp.tidy(idle_seconds=0)
            assert host.daemon.mcp.count() == 1
        async with asyncio.timeout(10):
            while host.daemon.mcp.count():  # nobody is told
                await asyncio.sleep(0.01)
                await host.daemon.mcp.tidy(idle_seconds=0)
        ended = await web.post("/mcp", json={**BEGIN, "method": "ping"}, headers=own)
        assert ended.status_code == 404
        await begun(web, key)
        await host.daemon.mcp.tidy()
        assert host.daemon.mcp.count() == 1


async def test_a_session_of_mcp_is_its_tenant_s_alone(host: Host) -> None:
    keys = [await host.tenant(name) for name in ("a", "b")]
    async with serving(host.app) as port, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as web:
        own = headers(keys[0])
        answer = await web.post("/mcp", json=BEGIN, headers=own)
        assert answer.status_code == 200, answer.text
        session = {"mcp-session-id": answer.headers["mcp-session-id"]}
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        foreign = headers(keys[1])
        assert (await web.post("/mcp", json=listing, headers={**own, **session})).status_code == 200
        assert (await web.post("/mcp", json=listing, headers={**foreign, **session})).status_code == 404


LISTEN = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "subscriptions/listen",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
        "notifications": {"toolsListChanged": True},
    },
}


@pytest.mark.parametrize("way", ["GET", "POST"])
async def test_a_key_that_counts_no_more_listens_no_longer_over_mcp(
    host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    monkeypatch.setattr(streams, "LOOK_SECONDS", 0.05)
    key = await host.tenant("one")
    tenant = (await host.daemon.tenants.named("one")).id
    (kept,) = await host.daemon.admin.keys(tenant)
    async with serving(host.app) as port, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as web:
        if way == "GET":
            listening = web.stream("GET", "/mcp", headers=await begun(web, key))
        else:
            modern = {"mcp-protocol-version": "2026-07-28", "mcp-method": "subscriptions/listen"}
            listening = web.stream("POST", "/mcp", headers={**headers(key), **modern}, json=LISTEN)
        async with listening as stream, asyncio.timeout(10):
            assert stream.status_code == 200
            reading = asyncio.ensure_future(stream.aread())
            await asyncio.wait([reading], timeout=0.3)
            assert not reading.done(), "a key that counts is listened to"
            await host.daemon.admin.revoke_key(kept.id, tenant_id=tenant, actor="test")
            await reading
        assert (await web.post("/mcp", json=BEGIN, headers=headers(key))).status_code == 401
    assert not [one for one in caplog.records if one.levelname == "ERROR"]

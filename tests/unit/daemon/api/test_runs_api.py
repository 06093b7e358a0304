"""Runs over HTTP: asked for, waited for, listed, cancelled, followed. The engine is the fake one, the rest is real."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.daemon.access.scopes import Scope
from sandbox_skills.daemon.api.paging import cursor_of
from tests.daemon_host import opened_host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import httpx

    from tests.daemon_host import Host

pytestmark = pytest.mark.anyio

ECHO = {"skill": "greeter", "argv": ["echo", "hello"]}
SLEEP = {"skill": "greeter", "argv": ["sleep", "30"]}


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with opened_host(tmp_path) as host:
        yield host


@pytest.fixture
async def client(host: Host) -> AsyncIterator[httpx.AsyncClient]:
    async with host.client(await host.tenant("acme")) as client:
        yield client


async def started(host: Host, client: httpx.AsyncClient, order: dict[str, Any]) -> str:
    """Returns the id of a run that is under way."""
    run_id = str((await client.post("/v1/runs", json=order)).json()["id"])
    async with asyncio.timeout(10), aclosing(host.daemon.events.follow(run_id)) as events:
        async for event in events:
            if event.kind == "started":
                break
    return run_id


async def test_a_run_is_accepted_and_found_where_the_answer_says(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/runs", json=ECHO)
    assert answer.status_code == 202
    found = await client.get(answer.headers["Location"], params={"wait": 10})
    run = found.json()
    assert run["id"] == answer.json()["id"]
    assert run["state"] == "finished"
    assert run["outcome"] == {"type": "exited", "code": 0}
    assert run["result"]["stdout"] == "hello\n"
    assert run["skill"] == {**run["skill"], "name": "greeter", "source": "server"}
    assert len(run["skill"]["digest"]) == 64
    assert run["request"] == ECHO


async def test_a_request_may_wait_for_the_end(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/runs", json=ECHO, params={"wait": 10})
    assert answer.status_code == 200
    assert answer.json()["state"] == "finished"


async def test_whoever_waits_too_short_is_told_how_far_it_is(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/runs", json=SLEEP, params={"wait": 0.05})
    assert answer.status_code == 202
    assert answer.json()["state"] in {"queued", "running"}
    assert (await client.post(f"{answer.headers['Location']}/cancel")).status_code == 202


@pytest.mark.parametrize(
    "order",
    [
        {},
        {"skill": "greeter"},
        {"skill": "greeter", "command": "x", "argv": ["x"]},
        {"skill": "greeter", "argv": ["x"], "args": ["y"]},
        {"skill": "greeter", "argv": ["x"], "nonsense": 1},
        {"skill": "greeter", "argv": ["x"], "timeout": -1},
        {"skill": "greeter", "argv": ["x"], "engine": "docker"},
    ],
)
async def test_an_order_that_cannot_be_is_refused_and_leaves_nothing(
    client: httpx.AsyncClient, order: dict[str, Any]
) -> None:
    answer = await client.post("/v1/runs", json=order)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert (await client.get("/v1/runs")).json() == {"items": [], "next_cursor": None}


async def test_an_unknown_skill_is_not_there(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/runs", json={**ECHO, "skill": "greeting"})
    assert answer.status_code == 404
    assert answer.json()["code"] == "skill_not_found"
    assert "greeter" in answer.json()["hint"]


async def test_what_cannot_be_run_is_rejected_with_the_reason(client: httpx.AsyncClient) -> None:
    order = {"skill": "greeter", "script": "scripts/none.py"}
    run = (await client.post("/v1/runs", json=order, params={"wait": 10})).json()
    assert run["outcome"]["type"] == "rejected"
    assert run["outcome"]["code"] == "script_not_found"
    assert run["result"] is None


async def test_a_program_that_fails_is_a_result(client: httpx.AsyncClient) -> None:
    order = {"skill": "greeter", "argv": ["false"]}
    run = (await client.post("/v1/runs", json=order, params={"wait": 10})).json()
    assert run["outcome"] == {"type": "exited", "code": 1}


async def test_a_limit_of_the_order_lowers_the_usual_one(client: httpx.AsyncClient) -> None:
    order = {**SLEEP, "limits": {"wall_seconds": 0.05}, "timeout": 20}
    run = (await client.post("/v1/runs", json=order, params={"wait": 10})).json()
    assert run["outcome"] == {"type": "stopped", "reason": "wall_time"}


async def test_a_tenants_ceiling_holds_whatever_is_asked_for(host: Host) -> None:
    key = await host.tenant("small", limits={"sandbox": {"wall_seconds": 0.05}})
    async with host.client(key) as client:
        run = (await client.post("/v1/runs", json={**SLEEP, "timeout": 20}, params={"wait": 10})).json()
    assert run["outcome"] == {"type": "stopped", "reason": "wall_time"}


async def test_a_run_under_way_is_cancelled(host: Host, client: httpx.AsyncClient) -> None:
    run_id = await started(host, client, SLEEP)
    assert (await client.post(f"/v1/runs/{run_id}/cancel")).status_code == 202
    run = (await client.get(f"/v1/runs/{run_id}", params={"wait": 10})).json()
    assert run["outcome"] == {"type": "stopped", "reason": "cancelled"}


async def test_a_run_that_has_finished_stays_as_it_is(client: httpx.AsyncClient) -> None:
    run = (await client.post("/v1/runs", json=ECHO, params={"wait": 10})).json()
    assert (await client.post(f"/v1/runs/{run['id']}/cancel")).json() == run


async def test_the_same_key_and_body_are_the_same_run(client: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "order-1"}
    first, again = [await client.post("/v1/runs", json=ECHO, headers=key) for _ in range(2)]
    assert again.json()["id"] == first.json()["id"]
    other = await client.post("/v1/runs", json={**ECHO, "stdin": "x"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")


async def test_runs_are_listed_in_pages_newest_first(client: httpx.AsyncClient) -> None:
    ids = [(await client.post("/v1/runs", json=ECHO)).json()["id"] for _ in range(5)]
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await client.get("/v1/runs", params={"limit": 2, **cursor})).json()
        seen += [run["id"] for run in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = {"after": page["next_cursor"]}
    assert seen == ids[::-1]


@pytest.mark.parametrize("cursor", ["nonsense", "AAAA", "-", "💥"])
async def test_a_cursor_that_is_none_is_refused(client: httpx.AsyncClient, cursor: str) -> None:
    answer = await client.get("/v1/runs", params={"after": cursor})
    assert (answer.status_code, answer.json()["code"]) == (422, "cursor_invalid")


LISTS = [
    "runs",
    "sessions",
    "artifacts",
    "skills/greeter/versions",
    "agents/runs",
    "admin/tenants",
    "admin/audit",
]


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("text", ["..", "x", "' OR 1=1", "-1", "\0", "9" * 30])
async def test_a_cursor_of_no_list_is_refused_by_each(
    client: httpx.AsyncClient, path: str, text: str
) -> None:
    answer = await client.get(f"/v1/{path}", params={"after": cursor_of(text)})
    assert (answer.status_code, answer.json()["code"]) == (422, "cursor_invalid")


async def test_events_are_numbered_and_go_on_behind_any_of_them(client: httpx.AsyncClient) -> None:
    run = (await client.post("/v1/runs", json=ECHO, params={"wait": 10})).json()
    lines = {"Accept": "application/x-ndjson"}
    answer = await client.get(f"/v1/runs/{run['id']}/events", headers=lines)
    events = [json.loads(line) for line in answer.text.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert [event["type"] for event in events] == ["queued", "started", "output", "finished"]
    assert events[2] == {**events[2], "stream": "stdout", "text": "hello\n", "run_id": run["id"]}
    assert events[-1]["outcome"] == run["outcome"]
    later = await client.get(f"/v1/runs/{run['id']}/events", headers=lines, params={"after": 2})
    assert [json.loads(line) for line in later.text.splitlines()] == events[2:]


async def test_an_event_stream_has_the_numbers_as_ids(client: httpx.AsyncClient) -> None:
    run = (await client.post("/v1/runs", json=ECHO, params={"wait": 10})).json()
    answer = await client.get(f"/v1/runs/{run['id']}/events", headers={"Last-Event-ID": "2"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    first, second, *_ = answer.text.split("\n\n")
    assert first.startswith("id: 3\nevent: output\ndata: {")
    assert second.startswith("id: 4\nevent: finished\n")


async def test_events_that_are_gone_are_told_by_the_status(tmp_path: Path) -> None:
    order = {"skill": "greeter", "argv": ["echo", "x" * 1000]}
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(opened_host(tmp_path, daemon={"event_bytes": 100}))
        client = await stack.enter_async_context(host.client(await host.tenant("acme")))
        run = (await client.post("/v1/runs", json=order, params={"wait": 10})).json()
        answer = await client.get(f"/v1/runs/{run['id']}/events")
    assert (answer.status_code, answer.json()["code"]) == (410, "events_lost")


async def test_a_key_without_the_scope_may_not(host: Host) -> None:
    async with host.client(await host.tenant("reader", scopes={Scope.SKILLS_WRITE})) as client:
        answer = await client.get("/v1/runs")
    assert (answer.status_code, answer.json()["code"]) == (403, "scope_missing")


async def test_a_clients_own_request_id_is_kept_where_it_is_decent(host: Host) -> None:
    async with host.client() as client:
        kept = await client.get("/healthz", headers={"X-Request-ID": "trace-1"})
        made = await client.get("/healthz", headers={"X-Request-ID": "no good\tone"})
    assert kept.headers["X-Request-ID"] == "trace-1"
    assert len(made.headers["X-Request-ID"]) == 26


async def test_a_request_with_two_lengths_ends_its_connection(host: Host) -> None:
    """A proxy may believe the one and we the other: what is between them would be somebody else's request."""
    key = await host.tenant("acme")
    inner = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    head = (
        f"POST /v1/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    async with host.serving() as address:
        name, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(name, int(port))
        writer.write(head.encode() + b"0\r\n\r\n" + inner)
        answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("path", ["/v1/runs/", "/v1/sessions/", "//evil.test/", "/v1/openapi.json/"])
async def test_no_address_is_mended_into_another(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path, headers={"Host": "evil.test"})
    assert answer.status_code == 404
    assert "location" not in answer.headers


async def test_a_request_that_is_too_long_is_refused(tmp_path: Path) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * 10

    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(opened_host(tmp_path, daemon={"body_bytes": 100}))
        client = await stack.enter_async_context(host.client(await host.tenant("acme")))
        told = await client.post("/v1/runs", json={**ECHO, "stdin": "x" * 200})
        untold = await client.post("/v1/runs", content=pieces())
    for answer in (told, untold):
        assert (answer.status_code, answer.json()["code"]) == (413, "request_too_large")


async def test_a_path_that_is_none_is_a_problem_too(host: Host) -> None:
    async with host.client() as client:
        nowhere = await client.get("/v1/nothing")
        wrong = await client.delete("/healthz")
    assert (nowhere.status_code, nowhere.json()["code"]) == (404, "not_found")
    assert (wrong.status_code, wrong.json()["code"]) == (405, "method_not_allowed")


async def test_a_tenant_runs_no_more_in_a_minute_than_it_may(host: Host) -> None:
    async with host.client(await host.tenant("small", limits={"runs_per_minute": 2})) as client:
        answers = [await client.post("/v1/runs", json=ECHO) for _ in range(3)]
    assert [one.status_code for one in answers] == [202, 202, 429]
    assert [one.headers["RateLimit-Remaining"] for one in answers] == ["1", "0", "0"]
    assert answers[2].json()["code"] == "rate_limited"
    assert 0 < int(answers[2].headers["Retry-After"]) <= 30


async def test_a_full_queue_says_whose_it_is(tmp_path: Path) -> None:
    async with opened_host(tmp_path, daemon={"queue_runs": 3, "slots": 1}) as host:
        async with host.client(await host.tenant("busy")) as client:
            await started(host, client, SLEEP)
        codes: list[list[str]] = []
        for name in ("one", "two"):
            async with host.client(await host.tenant(name, limits={"queue": 2})) as client:
                answers = [await client.post("/v1/runs", json=SLEEP) for _ in range(3)]
            codes.append([one.json().get("code", "") for one in answers])
    assert codes == [["", "", "rate_limited"], ["", "queue_full", "queue_full"]]

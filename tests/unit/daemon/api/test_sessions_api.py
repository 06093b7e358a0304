"""Sessions and their files over HTTP: made, used, kept when their box goes, closed for good."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.errors import EngineUnavailableError
from tests.daemon_host import opened_host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import httpx

    from tests.daemon_host import Host

pytestmark = pytest.mark.anyio

ECHO = {"skill": "greeter", "argv": ["echo", "hello"]}


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with opened_host(tmp_path) as host:
        yield host


@pytest.fixture
async def client(host: Host) -> AsyncIterator[httpx.AsyncClient]:
    async with host.client(await host.tenant("acme")) as client:
        yield client


async def made(client: httpx.AsyncClient, **given: object) -> str:
    """Returns the id of a new session."""
    answer = await client.post("/v1/sessions", json=given)
    assert answer.status_code == 201
    assert answer.headers["Location"] == f"/v1/sessions/{answer.json()['id']}"
    return str(answer.json()["id"])


async def test_a_session_gets_its_box_with_the_first_use(client: httpx.AsyncClient) -> None:
    session = await made(client, name="report", ttl_seconds=60)
    path = f"/v1/sessions/{session}"
    assert (await client.get(path)).json()["state"] == "idle"
    run = await client.post("/v1/runs", json={**ECHO, "session_id": session}, params={"wait": 10})
    assert run.json()["outcome"] == {"type": "exited", "code": 0}
    assert (await client.get(path)).json()["state"] == "active"
    listed = (await client.get("/v1/runs", params={"session_id": session})).json()["items"]
    assert [one["id"] for one in listed] == [run.json()["id"]]


async def test_files_are_put_listed_and_taken_whole_or_in_part(client: httpx.AsyncClient) -> None:
    files = f"/v1/sessions/{await made(client)}/files"
    put = await client.put(f"{files}/work/a%20b.txt", content=b"0123456789")
    assert put.json() == {"path": "work/a b.txt", "size": 10}
    assert (await client.get(files)).json() == {"items": [put.json()], "truncated": False}
    whole = await client.get(f"{files}/work/a%20b.txt")
    assert (whole.status_code, whole.content) == (200, b"0123456789")
    assert whole.headers["content-disposition"].startswith('attachment; filename="a_b.txt"')
    assert whole.headers["x-content-type-options"] == "nosniff"
    part = await client.get(f"{files}/work/a%20b.txt", headers={"Range": "bytes=2-4"})
    assert (part.status_code, part.content) == (206, b"234")
    assert part.headers["content-range"] == "bytes 2-4/10"
    beyond = await client.get(f"{files}/work/a%20b.txt", headers={"Range": "bytes=10-"})
    assert (beyond.status_code, beyond.headers["content-range"]) == (416, "bytes */10")


@pytest.mark.parametrize(
    ("path", "status"),
    [("work/none.txt", 404), ("skills/x", 422), ("../x", 404), ("work/%2e%2e/%2e%2e/x", 422)],
)
async def test_a_path_that_is_no_file_of_the_session_is_refused(
    client: httpx.AsyncClient, path: str, status: int
) -> None:
    session = await made(client)
    answer = await client.get(f"/v1/sessions/{session}/files/{path}")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("name", ["a\0b", "a\nb", "a\x1b[2Jb"])
async def test_a_name_is_a_line_that_people_can_read(client: httpx.AsyncClient, name: str) -> None:
    answer = await client.post("/v1/sessions", json={"name": name})
    assert (answer.status_code, answer.json()["code"]) == (422, "request_body_invalid")
    assert (await client.get("/v1/sessions")).json()["items"] == []


async def test_a_file_that_is_too_long_is_not_taken(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(opened_host(tmp_path, daemon={"file_bytes": 100}))
        client = await stack.enter_async_context(host.client(await host.tenant("acme")))
        answer = await client.put(f"/v1/sessions/{await made(client)}/files/work/x", content=b"x" * 101)
    assert answer.status_code == 413


async def test_an_idle_session_frees_its_box_and_wakes_with_its_files(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(opened_host(tmp_path))
        client = await stack.enter_async_context(host.client(await host.tenant("acme")))
        session = await made(client)
        files = f"/v1/sessions/{session}/files/work/kept.txt"
        await client.put(files, content=b"kept")
        tenant = (await host.daemon.tenants.named("acme")).id
        # As when its time is over: a short one would be over again, on a busy machine, before the file below is read.
        async with asyncio.timeout(15):
            while not await host.daemon.live.sessions.make_room(tenant=tenant):  # noqa: ASYNC110  # until it rests
                await asyncio.sleep(0.05)
        assert host.daemon.live.sessions.sessions(tenant=tenant) == ()
        assert (await client.get(f"/v1/sessions/{session}")).json()["state"] == "idle"
        await host.daemon.sessions.tidy()
        assert (await client.get(files)).content == b"kept"
        assert (await client.get(f"/v1/sessions/{session}")).json()["state"] == "active"


@pytest.mark.parametrize("used", [False, True])
async def test_a_session_that_could_not_be_woken_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, used: bool
) -> None:
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(opened_host(tmp_path))
        client = await stack.enter_async_context(host.client(await host.tenant("acme")))
        session = await made(client)
        files = f"/v1/sessions/{session}/files/work/kept.txt"
        if used:
            await client.put(files, content=b"kept")
            await host.daemon.sessions.park()

        async def away(*_: object, **__: object) -> None:
            raise EngineUnavailableError("away")

        with monkeypatch.context() as patched:
            patched.setattr(host.daemon.live.sessions, "open", away)
            refused = await client.put(files, content=b"new")
            assert (refused.status_code, refused.json()["code"]) == (503, "engine_unavailable")
            await host.daemon.sessions.tidy()
        assert (await client.get(f"/v1/sessions/{session}")).json()["state"] == "idle"
        if used:
            assert (await client.get(files)).content == b"kept"
        assert (await client.put(files, content=b"new")).status_code in {200, 201, 204}


async def test_a_session_outlives_the_process_that_had_its_box(tmp_path: Path) -> None:
    async with opened_host(tmp_path) as host:
        key = await host.tenant("acme")
        async with host.client(key) as client:
            session = await made(client)
            await client.put(f"/v1/sessions/{session}/files/work/kept.txt", content=b"kept")
        await host.daemon.drain(1)
    async with opened_host(tmp_path) as host, host.client(key) as client:
        assert (await client.get(f"/v1/sessions/{session}")).json()["state"] == "idle"
        assert (await client.get(f"/v1/sessions/{session}/files/work/kept.txt")).content == b"kept"


async def test_a_snapshot_is_what_a_lost_session_goes_on_from(tmp_path: Path) -> None:
    async with opened_host(tmp_path) as host:
        key = await host.tenant("acme")
        async with host.client(key) as client:
            kept, lost = await made(client), await made(client)
            for session in (kept, lost):
                await client.put(f"/v1/sessions/{session}/files/work/x", content=b"x")
            taken = await client.post(f"/v1/sessions/{kept}/snapshot")
            assert (taken.status_code, taken.json()["files"]) == (200, 1)
    async with opened_host(tmp_path) as host, host.client(key) as client:
        assert (await client.get(f"/v1/sessions/{kept}/files/work/x")).content == b"x"
        gone = await client.get(f"/v1/sessions/{lost}/files/work/x")
        assert (gone.status_code, gone.json()["code"]) == (409, "session_closed")
        assert (await client.get(f"/v1/sessions/{lost}")).json()["end"] == "lost"


async def test_a_closed_session_takes_nothing_and_leaves_no_file(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        host = await stack.enter_async_context(opened_host(tmp_path))
        client = await stack.enter_async_context(host.client(await host.tenant("acme")))
        session = await made(client)
        await client.put(f"/v1/sessions/{session}/files/work/x", content=b"x")
        await client.post(f"/v1/sessions/{session}/snapshot")
        for _ in range(2):
            closed = (await client.delete(f"/v1/sessions/{session}")).json()
            assert (closed["state"], closed["end"]) == ("closed", "closed")
        refused = await client.post("/v1/runs", json={**ECHO, "session_id": session})
        assert (refused.status_code, refused.json()["code"]) == (409, "session_closed")
        late = await client.post(f"/v1/sessions/{session}/extend", json={"seconds": 5})
        assert late.status_code == 409
    assert list((tmp_path / "data" / "sessions").iterdir()) == []


async def test_a_session_whose_time_is_over_closes(host: Host, client: httpx.AsyncClient) -> None:
    short, long = await made(client, ttl_seconds=0.05), await made(client, ttl_seconds=0.05)
    await client.post(f"/v1/sessions/{long}/extend", json={"seconds": 60})
    await asyncio.sleep(0.1)
    await host.daemon.sessions.tidy()
    states = {one["id"]: one["end"] for one in (await client.get("/v1/sessions")).json()["items"]}
    assert states == {short: "expired", long: None}


async def test_a_tenant_has_no_more_sessions_than_it_may(host: Host) -> None:
    async with host.client(await host.tenant("small", limits={"sessions": 1})) as client:
        await made(client)
        answer = await client.post("/v1/sessions", json={})
    assert (answer.status_code, answer.json()["code"]) == (429, "quota_exceeded")
    assert answer.headers["Retry-After"]


async def test_sessions_that_have_come_and_gone_leave_nothing_in_memory(
    host: Host, client: httpx.AsyncClient
) -> None:
    for _ in range(3):
        session = await made(client)
        order = {**ECHO, "session_id": session}
        assert (await client.post("/v1/runs", json=order, params={"wait": 10})).json()["outcome"]["code"] == 0
        assert (await client.post(f"/v1/sessions/{session}/snapshot")).status_code == 200
        assert (await client.delete(f"/v1/sessions/{session}")).status_code == 200
    service = host.daemon.sessions
    assert (len(service._locks), len(service._mine), len(service._parked)) == (0, 0, 0)

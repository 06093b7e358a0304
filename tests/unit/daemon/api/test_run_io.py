"""Programs that are talked to over a WebSocket, on a real socket."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from sandbox_skills.daemon.api import run_io, streams
from tests.daemon_host import opened_host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.daemon_host import Host

pytestmark = pytest.mark.anyio

CAT = {"skill": "greeter", "argv": ["cat"], "interactive": True}


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with opened_host(tmp_path) as host:
        yield host


@pytest.fixture
async def key(host: Host) -> str:
    return await host.tenant("acme")


@pytest.fixture
async def client(host: Host, key: str) -> AsyncIterator[httpx.AsyncClient]:
    async with host.client(key) as client:
        yield client


@pytest.fixture
async def address(host: Host) -> AsyncIterator[str]:
    async with host.serving() as address:
        yield address


def talk(address: str, run_id: str, key: str) -> Any:  # noqa: ANN401  # websockets' own awaitable
    headers = {"Authorization": f"Bearer {key}"}
    return connect(f"ws://{address}/v1/runs/{run_id}/io", additional_headers=headers, proxy=None)


async def run_id_of(client: httpx.AsyncClient, order: dict[str, Any]) -> str:
    return str((await client.post("/v1/runs", json=order)).json()["id"])


async def test_input_goes_in_and_output_comes_out_until_the_end(
    client: httpx.AsyncClient, address: str, key: str
) -> None:
    run_id = await run_id_of(client, CAT)
    async with talk(address, run_id, key) as socket:
        await socket.send(b"hello\n")
        assert await socket.recv() == b"hello\n"
        await socket.send(json.dumps({"eof": True}))
        assert json.loads(await socket.recv()) == {"outcome": {"type": "exited", "code": 0}}
    run = (await client.get(f"/v1/runs/{run_id}", params={"wait": 10})).json()
    assert run["result"]["stdout"] == "hello\n"


async def test_hanging_up_ends_nothing(client: httpx.AsyncClient, address: str, key: str) -> None:
    run_id = await run_id_of(client, CAT)
    async with talk(address, run_id, key) as socket:
        await socket.send(b"one\n")
        assert await socket.recv() == b"one\n"
    async with talk(address, run_id, key) as socket:
        assert await socket.recv() == b"one\n"
        await socket.send(b"two\n")
        assert await socket.recv() == b"two\n"
        await socket.send(json.dumps({"eof": True}))
        await socket.recv()


async def test_a_terminal_has_the_size_it_is_given(client: httpx.AsyncClient, address: str, key: str) -> None:
    run_id = await run_id_of(client, {**CAT, "tty": {"rows": 10, "cols": 20}})
    async with talk(address, run_id, key) as socket:
        await socket.send(json.dumps({"resize": [100, 40]}))
        await socket.send(b"x\x04")
        while isinstance(frame := await socket.recv(), bytes):
            pass
        assert json.loads(frame)["outcome"]["type"] == "exited"


async def test_a_frame_that_is_not_understood_is_told(
    client: httpx.AsyncClient, address: str, key: str
) -> None:
    run_id = await run_id_of(client, CAT)
    async with talk(address, run_id, key) as socket:
        await socket.send('{"nonsense": 1}')
        assert json.loads(await socket.recv())["error"]["code"] == "command_invalid"
    await client.post(f"/v1/runs/{run_id}/cancel")
    run = (await client.get(f"/v1/runs/{run_id}", params={"wait": 10})).json()
    assert run["outcome"] == {"type": "stopped", "reason": "cancelled"}


async def test_a_run_that_ends_before_its_program_begins_is_told(host: Host) -> None:
    key = await host.tenant("one", limits={"concurrency": 1})
    async with host.client(key) as client, host.serving() as address:
        running = await run_id_of(client, CAT)
        waiting = await run_id_of(client, CAT)
        async with talk(address, waiting, key) as socket:
            await client.post(f"/v1/runs/{waiting}/cancel")
            frame = json.loads(await socket.recv())
        assert frame == {"outcome": {"type": "stopped", "reason": "cancelled"}}
        refused = await run_id_of(client, {**CAT, "cwd": "/etc"})
        async with talk(address, refused, key) as socket:
            await client.post(f"/v1/runs/{running}/cancel")
            assert json.loads(await socket.recv())["outcome"]["type"] == "rejected"


async def test_a_client_that_is_gone_when_its_turn_would_have_come_is_no_fault_of_ours(
    host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(run_io, "TURN_SECONDS", 0.5)
    key = await host.tenant("one", limits={"concurrency": 1})
    async with host.client(key) as client, host.serving() as address:
        await run_id_of(client, CAT)
        waiting = await run_id_of(client, CAT)
        async with talk(address, waiting, key) as socket:
            assert json.loads(await socket.recv())["error"]["code"] == "run_not_interactive"
        async with talk(address, waiting, key) as socket:
            socket.transport.abort()
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("way", ["revoked", "disabled"])
async def test_a_key_that_counts_no_more_neither_types_nor_reads_on(
    host: Host, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(streams, "LOOK_SECONDS", 0.05)
    daemon, key = host.daemon, await host.tenant("one")
    tenant = (await daemon.tenants.named("one")).id
    (kept,) = await daemon.admin.keys(tenant)
    async with host.client(key) as client, host.serving() as address:
        run_id = await run_id_of(client, CAT)
        async with talk(address, run_id, key) as socket, httpx.AsyncClient(trust_env=False) as reader:
            headers = {"Authorization": f"Bearer {key}"}
            events = reader.stream("GET", f"http://{address}/v1/runs/{run_id}/events", headers=headers)
            async with events as stream:
                lines = stream.aiter_lines()
                await anext(lines)
                if way == "revoked":
                    await daemon.admin.revoke_key(kept.id, tenant_id=tenant, actor="test")
                else:
                    await daemon.tenants.update(tenant, disabled=True, actor="test")
                assert json.loads(await socket.recv())["error"]["code"] == "key_invalid"
                # From now on before every event: how long ago the last look was goes by the machine.
                monkeypatch.setattr(streams, "LOOK_SECONDS", 0.0)
                await daemon.runs.cancel(run_id, tenant=tenant)
                assert not any("finished" in line for line in [line async for line in lines])
        run = await daemon.runs.wait(run_id, tenant=tenant, seconds=10)
        assert run.outcome == {"type": "stopped", "reason": "cancelled"}


async def test_who_may_not_talk_hears_why(
    host: Host, client: httpx.AsyncClient, address: str, key: str
) -> None:
    run_id = await run_id_of(client, CAT)
    done = await run_id_of(client, {**CAT, "interactive": False})
    other = await host.tenant("other")
    cases = (
        (run_id, "ssk_no", 401),
        (run_id, other, 404),
        ("01JDZ6V7Z3M9QHTR4W8YB2C5KD", key, 404),
        (done, key, 409),
    )
    for run, token, status in cases:
        with pytest.raises(InvalidStatus) as caught:
            async with talk(address, run, token):
                pass
        assert caught.value.response.status_code == status
        assert json.loads(caught.value.response.body or b"")["status"] == status


async def test_a_refusal_is_no_fault_of_ours(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    async with host.serving() as address:
        with pytest.raises(InvalidStatus):
            await talk(address, "none", "ssk_none")
    assert [one.getMessage() for one in caplog.records if one.levelname == "ERROR"] == []

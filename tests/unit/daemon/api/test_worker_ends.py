"""A daemon ends whatever it is doing just then: what it claimed is written down, and nothing waits for ever."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.daemon.dispatch.bell import Bell, heard_within
from tests.daemon_host import opened_host

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

ECHO = {"skill": "greeter", "argv": ["echo", "hello"]}


async def test_a_cancel_that_comes_with_a_ring_is_a_cancel() -> None:
    bell = Bell()
    with bell.listening("x") as heard:
        waiting = asyncio.create_task(heard_within(heard, 60))
        await asyncio.sleep(0)
        bell.ring("x")
        waiting.cancel()
        await asyncio.wait([waiting])
    assert waiting.cancelled()


async def test_a_daemon_that_ends_right_after_it_took_runs_leaves_none_under_way(tmp_path: Path) -> None:
    for steps in range(0, 12, 3):
        async with opened_host(tmp_path / str(steps)) as host:
            async with host.client(await host.tenant("acme")) as client:
                for _ in range(3):
                    assert (await client.post("/v1/runs", json=ECHO)).status_code == 202
            for _ in range(steps):
                await asyncio.sleep(0)
        async with opened_host(tmp_path / str(steps)) as host:
            tenant = (await host.daemon.tenants.named("acme")).id
            for run in await host.daemon.runs.kept.list(tenant_id=tenant):
                assert (run.outcome or {}).get("reason") != "restarted"

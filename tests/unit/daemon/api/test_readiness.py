"""Whether the server is ready goes by what it can do, not by whether it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import update

from sandbox_skills.daemon.truth.changes import Change
from sandbox_skills.daemon.truth.tables import NodeRow
from tests.daemon_host import opened_host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.daemon_host import Host

pytestmark = pytest.mark.anyio


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with opened_host(tmp_path) as host:
        yield host


async def test_a_server_that_works_is_ready(host: Host) -> None:
    async with host.client() as client:
        answer = await client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ready", "checks": {"engine": "ok", "store": "ok", "database": "ok"}}


async def test_one_whose_workers_can_write_nothing_is_not(host: Host) -> None:
    long_ago = update(NodeRow).values(heartbeat_at=host.daemon.database.clock() - 3600)
    await host.daemon.database.write(Change.NODE_HEARTBEAT, lambda session: session.execute(long_ago))
    async with host.client() as client:
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (503, "not_ready")
    assert "nothing was written" in answer.json()["checks"]["database"]


async def test_one_that_is_about_to_end_says_so(host: Host) -> None:
    await host.daemon.drain(0)
    async with host.client() as client:
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (503, "draining")
    assert answer.json()["checks"]["database"] == "ok"

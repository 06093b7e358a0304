"""A daemon's database for each test, with a clock that the test moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox_skills.daemon.truth.database import opened_database
from sandbox_skills.daemon.truth.tenants import Tenants
from tests.contract.dispatches import Clock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sandbox_skills.daemon.truth.database import Database
    from sandbox_skills.daemon.truth.tenants import Tenant


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def database(tmp_path: Path, clock: Clock) -> AsyncIterator[Database]:
    async with opened_database(tmp_path / "daemon.db", clock=clock) as opened:
        yield opened


@pytest.fixture
async def tenant(database: Database) -> Tenant:
    return await Tenants(database).create("acme", actor="test")

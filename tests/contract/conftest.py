"""Each engine that keeps the contract, by one name."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from sandbox_skills.engines.fake import FakeEngine
from sandbox_skills.spec import SandboxSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sandbox_skills.engines.base import Engine, Sandbox


@pytest.fixture(params=["fake", pytest.param("docker", marks=pytest.mark.docker)])
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "fake":
        return FakeEngine()
    return cast("Engine", request.getfixturevalue("docker_engine"))


@pytest.fixture
def spec(engine: Engine) -> SandboxSpec:
    """Demands nothing of the fake, everything of the others."""
    return SandboxSpec(needs=frozenset()) if isinstance(engine, FakeEngine) else SandboxSpec()


@pytest.fixture
async def sandbox(engine: Engine, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
    async with engine.open(spec) as opened:
        yield opened

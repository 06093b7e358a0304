"""A daemon over the fake engine, in this process, and clients of it: what tests of the API stand on."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx

from sandbox_skills.daemon.access.scopes import ALL_SCOPES
from sandbox_skills.daemon.api.app import create_app
from sandbox_skills.daemon.serve import answering, listening
from sandbox_skills.daemon.working.daemon import opened_daemon
from sandbox_skills.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Mapping
    from pathlib import Path

    from fastapi import FastAPI

    from sandbox_skills.daemon.access.scopes import Scope
    from sandbox_skills.daemon.working.daemon import Daemon

SKILL_TEXT = """---
name: greeter
description: Says hello.
---
Run `echo hello`.
"""


class Host:
    """A daemon that is open, and its application."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.app: FastAPI = create_app(daemon)

    async def tenant(
        self, name: str, *, scopes: Collection[Scope] = ALL_SCOPES, limits: Mapping[str, Any] | None = None
    ) -> str:
        """Makes a tenant and returns a key of it."""
        tenant = await self.daemon.tenants.create(name, limits=limits, actor="test")
        created = await self.daemon.keys.create(tenant.id, scopes=scopes, actor="test")
        return created.token

    @asynccontextmanager
    async def client(self, key: str | None = None) -> AsyncGenerator[httpx.AsyncClient]:
        """Gives a client that sends this key."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://daemon.test", headers=headers
        ) as client:
            yield client

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[str]:
        """Answers at a port of the loopback, for what a client in the same process cannot do; gives the address."""
        with listening("127.0.0.1", 0) as sock:
            async with answering(self.daemon, sock):
                yield f"127.0.0.1:{sock.getsockname()[1]}"


def host_settings(tmp_path: Path, **given: object) -> Settings:
    """Returns settings of a daemon with one skill, `greeter`, and nothing outside of `tmp_path`."""
    skill = tmp_path / "skills" / "greeter"
    if not skill.exists():
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text(SKILL_TEXT, encoding="utf-8")
    usual: dict[str, Any] = {
        "data_dir": tmp_path / "data",
        "engine": "fake",
        "skills": {"roots": [tmp_path / "skills"]},
        "pool": {"size": 0},
    }
    return Settings(**{**usual, **given})


@asynccontextmanager
async def opened_host(tmp_path: Path, **given: object) -> AsyncGenerator[Host]:
    """Gives a daemon with these settings; leaving it ends it."""
    async with opened_daemon(host_settings(tmp_path, **given)) as daemon:
        yield Host(daemon)

"""A daemon with its dashboard, and browsers without a screen: clients that keep cookies and send forms."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx
import pytest

from sandbox_skills.daemon.ui.dashboard import add_dashboard
from tests.daemon_host import opened_host

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import Path

    from tests.daemon_host import Host

TOKEN = re.compile(r'name="csrf" value="([^"]+)"')


class Browser:
    """Looks at pages and sends the forms that are on them."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.token = ""

    async def look(self, path: str) -> httpx.Response:
        """Gets a page, and remembers the token of its forms."""
        answer = await self.client.get(f"/ui{path}")
        found = TOKEN.search(answer.text)
        self.token = found[1] if found else self.token
        return answer

    async def send(self, path: str, **fields: str) -> httpx.Response:
        """Sends a form as the page that was looked at last would."""
        return await self.client.post(f"/ui{path}", data={"csrf": self.token, **fields})

    async def sign_in(self, key: str, target: str = "/") -> httpx.Response:
        await self.look("/sign-in")
        return await self.send("/sign-in", key=key, next=target)


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with opened_host(tmp_path) as host:
        add_dashboard(host.app, host.daemon)
        yield host


@asynccontextmanager
async def new_browser(host: Host, base: str = "http://daemon.test") -> AsyncGenerator[Browser]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(host.app), base_url=base) as client:
        yield Browser(client)


@pytest.fixture
async def browser(host: Host) -> AsyncIterator[Browser]:
    """One that nobody has signed in with."""
    async with new_browser(host) as browser:
        yield browser


@pytest.fixture
async def acme(host: Host, browser: Browser) -> Browser:
    """One that a tenant has signed in with who may do everything."""
    answer = await browser.sign_in(await host.tenant("acme"))
    assert answer.status_code == 303
    await browser.look("/")
    return browser

"""Artifacts over HTTP: what a run kept, by name and version, and nothing of it that a browser would run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox_skills.artifacts import ArtifactMetadata
from tests.daemon_host import opened_host

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import httpx

    from tests.daemon_host import Host

pytestmark = pytest.mark.anyio


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with opened_host(tmp_path) as host:
        yield host


@pytest.fixture
async def client(host: Host) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a tenant that has two versions of a page, and another file."""
    key = await host.tenant("acme")
    tenant = (await host.daemon.tenants.named("acme")).id
    for name, data in (("out/page.html", b"<b>0</b>"), ("out/page.html", b"<b>1</b>"), ("z.bin", b"\0")):
        meta = ArtifactMetadata(mime_type="text/html" if name.endswith("html") else "application/x-thing")
        await host.daemon.artifacts.save(name, data, meta, tenant=tenant)
    async with host.client(key) as client:
        yield client


async def test_artifacts_are_listed_in_pages(client: httpx.AsyncClient) -> None:
    first = (await client.get("/v1/artifacts", params={"limit": 1})).json()
    second = (await client.get("/v1/artifacts", params={"limit": 1, "after": first["next_cursor"]})).json()
    names = [(one["name"], one["version"]) for page in (first, second) for one in page["items"]]
    assert names == [("out/page.html", 1), ("z.bin", 0)]
    assert (await client.get("/v1/artifacts", params={"prefix": "z"})).json()["items"] == second["items"]


async def test_each_version_is_found(client: httpx.AsyncClient) -> None:
    path = "/v1/artifacts/out/page.html"
    assert (await client.get(path)).json()["version"] == 1
    assert (await client.get(f"{path}/versions/0")).json()["ref"] == "artifact://out/page.html@0"
    assert (await client.get(f"{path}/versions/latest")).json()["version"] == 1
    versions = (await client.get(f"{path}/versions")).json()["items"]
    assert [one["version"] for one in versions] == [0, 1]
    for wrong in ("7", "x", "-1", "1e3"):
        assert (await client.get(f"{path}/versions/{wrong}")).status_code == 404


async def test_a_page_of_a_stranger_is_saved_and_never_shown(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/artifacts/out/page.html/versions/0/content")
    assert answer.content == b"<b>0</b>"
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    part = await client.get(
        "/v1/artifacts/out/page.html/versions/latest/content", headers={"Range": "bytes=-5"}
    )
    assert (part.status_code, part.content) == (206, b"1</b>")


async def test_a_version_or_all_of_them_are_deleted(client: httpx.AsyncClient) -> None:
    path = "/v1/artifacts/out/page.html"
    assert (await client.delete(f"{path}/versions/1")).status_code == 204
    assert (await client.get(path)).json()["version"] == 0
    assert (await client.delete(path)).status_code == 204
    assert (await client.get(path)).status_code == 404
    assert (await client.delete(path)).status_code == 404

"""Skills over HTTP: what is sent is kept whole or not at all, whatever the sender does; nobody sees another's."""

from __future__ import annotations

import asyncio
import io
import json
import stat
import zipfile
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.daemon.access.scopes import Scope
from sandbox_skills.daemon.api import body_limits
from tests.daemon_host import opened_host
from tests.http_server import serving

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
    from pathlib import Path

    import httpx

    from tests.daemon_host import Host

pytestmark = pytest.mark.anyio

TEXT = "---\nname: sums\ndescription: Adds numbers.\n---\nRun `scripts/add.py`.\n"
SKILL = {"SKILL.md": TEXT, "scripts/add.py": "#!/usr/bin/env python3\nprint(1 + 1)\n"}


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    async with opened_host(tmp_path) as host:
        yield host


@pytest.fixture
async def client(host: Host) -> AsyncIterator[httpx.AsyncClient]:
    async with host.client(await host.tenant("acme")) as client:
        yield client


def zipped(files: Mapping[str, str | bytes], *, top: str = "sums/") -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(f"{top}{name}", data)
    return held.getvalue()


async def send(client: httpx.AsyncClient, files: Mapping[str, str] | None = None) -> httpx.Response:
    return await client.post("/v1/skills", files={"file": ("sums.zip", zipped(files or SKILL))})


def folder_form(files: dict[str, str]) -> list[tuple[str, tuple[str, str]]]:
    return [("files[]", (name, text)) for name, text in files.items()]


def lying(tmp_path: Path) -> list[str]:
    """What lies in the folders of tenants' skills, by the names of files and of folders."""
    root = tmp_path / "data" / "tenant-skills"
    return sorted(path.name for path in root.glob("*/*")) if root.exists() else []


def outside(tmp_path: Path) -> set[Path]:
    """What lies elsewhere."""
    return {path for path in tmp_path.rglob("*") if "tenant-skills" not in str(path)}


async def test_a_skill_is_sent_looked_at_run_fetched_and_deleted(
    client: httpx.AsyncClient, tmp_path: Path
) -> None:
    sent = await send(client)
    assert sent.status_code == 201, sent.text
    version = sent.json()
    assert (version["name"], version["version"], version["latest"], version["files"]) == ("sums", 1, True, 2)
    assert (await client.get(sent.headers["Location"])).json() == version
    assert (await send(client)).status_code == 200
    skill = (await client.get("/v1/skills/sums")).json()
    assert (skill["source"], skill["latest"], skill["digest"]) == ("tenant", 1, version["digest"])
    order = {"skill": "sums", "argv": ["echo", "hello"]}
    run = (await client.post("/v1/runs", json=order, params={"wait": 10})).json()
    assert run["skill"] == {
        "name": "sums",
        "version": "1",
        "digest": version["digest"],
        "source": "tenant",
    }
    content = await client.get("/v1/skills/sums/versions/latest/content")
    assert content.headers["content-type"] == "application/zip"
    back = await client.post("/v1/skills", files={"file": ("x.zip", content.content)})
    assert (back.status_code, back.json()["digest"]) == (200, version["digest"])
    assert (await client.delete("/v1/skills/sums")).status_code == 204
    assert (await client.get("/v1/skills/sums")).status_code == 404
    assert lying(tmp_path) == []


async def test_a_folder_sent_file_by_file_is_the_same_skill(client: httpx.AsyncClient) -> None:
    for files in (SKILL, {f"sums/{name}": text for name, text in SKILL.items()}):
        sent = await client.post("/v1/skills", files=folder_form(files))
        assert sent.status_code in {200, 201}, sent.text
    with zipfile.ZipFile(
        io.BytesIO((await client.get("/v1/skills/sums/versions/1/content")).content)
    ) as archive:
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
    assert stat.S_IMODE(modes["sums/scripts/add.py"]) == 0o755
    assert stat.S_IMODE(modes["sums/SKILL.md"]) == 0o644


async def test_versions_count_up_and_one_can_be_deleted(client: httpx.AsyncClient) -> None:
    for number in (1, 2, 3):
        sent = await send(client, {**SKILL, "n": str(number)})
        assert sent.json()["version"] == number
    assert (await client.delete("/v1/skills/sums/versions/2")).status_code == 204
    first = (await client.get("/v1/skills/sums/versions", params={"limit": 1})).json()
    assert [one["version"] for one in first["items"]] == [3]
    rest = (await client.get("/v1/skills/sums/versions", params={"after": first["next_cursor"]})).json()
    assert ([one["version"] for one in rest["items"]], rest["next_cursor"]) == ([1], None)
    assert (await client.delete("/v1/skills/sums/versions/latest")).status_code == 204
    assert (await client.get("/v1/skills/sums/versions/latest")).json()["version"] == 1
    for missing in ("2", "9", "x", "-1", "9" * 30):
        assert (await client.get(f"/v1/skills/sums/versions/{missing}")).status_code == 404


async def test_lists_come_in_pages_by_name(client: httpx.AsyncClient) -> None:
    for name in ("b", "a"):
        await send(client, {"SKILL.md": TEXT.replace("sums", name)})
    first = (await client.get("/v1/skills", params={"limit": 2})).json()
    assert [one["name"] for one in first["items"]] == ["a", "b"]
    rest = (await client.get("/v1/skills", params={"after": first["next_cursor"]})).json()
    assert [(one["name"], one["source"]) for one in rest["items"]] == [("greeter", "server")]
    assert (await client.get("/v1/skills", params={"after": "!"})).status_code == 422


async def test_a_skill_of_the_server_can_be_fetched_and_not_changed(client: httpx.AsyncClient) -> None:
    skill = (await client.get("/v1/skills/greeter")).json()
    assert (skill["source"], skill["latest"]) == ("server", None)
    assert (await client.get("/v1/skills/greeter/versions")).json()["items"] == []
    assert (await client.get("/v1/skills/greeter/versions/latest/content")).status_code == 200
    assert (await client.get("/v1/skills/greeter/versions/1/content")).status_code == 404
    refused = [
        await client.delete("/v1/skills/greeter"),
        await client.delete("/v1/skills/greeter/versions/1"),
        await send(client, {"SKILL.md": TEXT.replace("sums", "greeter")}),
    ]
    assert [(one.status_code, one.json()["code"]) for one in refused] == [(403, "skill_read_only")] * 3


async def test_nobody_sees_another_tenant_s_skills(host: Host, client: httpx.AsyncClient) -> None:
    await send(client)
    async with host.client(await host.tenant("other")) as other:
        for path in ("", "/versions", "/versions/1", "/versions/latest", "/versions/1/content"):
            assert (await other.get(f"/v1/skills/sums{path}")).status_code == 404
        for path in ("", "/versions/1", "/versions/latest"):
            assert (await other.delete(f"/v1/skills/sums{path}")).status_code == 404
        run = await other.post("/v1/runs", json={"skill": "sums", "argv": ["true"]})
        assert run.status_code == 404
        assert "sums" not in (await other.get("/v1/skills")).text
        assert (await send(other)).json()["version"] == 1
    assert (await client.get("/v1/skills/sums")).status_code == 200


async def test_a_key_without_the_scope_reads_and_does_not_write(host: Host) -> None:
    async with host.client(await host.tenant("reader", scopes={Scope.RUN})) as reader:
        assert (await send(reader)).status_code == 403
        assert (await reader.delete("/v1/skills/x")).status_code == 403
        assert (await reader.get("/v1/skills")).status_code == 200
    async with host.client() as nobody:
        assert (await send(nobody)).status_code == 401


async def test_validate_tells_and_keeps_nothing(client: httpx.AsyncClient, tmp_path: Path) -> None:
    for files, valid in ((SKILL, True), ({"SKILL.md": "no frontmatter"}, False)):
        answer = await client.post("/v1/skills/validate", files={"file": ("x.zip", zipped(files))})
        report = answer.json()
        assert (answer.status_code, report["valid"], report["skills"]) == (200, valid, 1)
        assert bool(report["errors"]) is not valid
    assert lying(tmp_path) == []


def named(name: str) -> bytes:
    return zipped({"SKILL.md": f"---\nname: {json.dumps(name)}\ndescription: Adds numbers.\n---\n"})


@pytest.mark.parametrize("name", ["a b?c=d#e%2Ff", "\u7b97\u8853", "\u00fcber;x", "latest", "validate"])
async def test_where_a_skill_has_come_to_lie_is_told_whatever_its_name(
    client: httpx.AsyncClient, name: str
) -> None:
    sent = await client.post("/v1/skills", files={"file": ("x.zip", named(name))})
    assert sent.status_code == 201, sent.text
    found = await client.get(sent.headers["Location"])
    assert (found.status_code, found.json()["name"]) == (200, sent.json()["name"])


def bomb() -> bytes:
    return zipped({"SKILL.md": TEXT, "zeros": b"\0" * 40_000_000})


def link(target: str) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("sums/SKILL.md", TEXT)
        info = zipfile.ZipInfo("sums/out")
        info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, target)
    return held.getvalue()


def device() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("sums/SKILL.md", TEXT)
        info = zipfile.ZipInfo("sums/null")
        info.create_system, info.external_attr = 3, (stat.S_IFCHR | 0o666) << 16
        archive.writestr(info, "")
    return held.getvalue()


HOSTILE: dict[str, Any] = {
    "a bomb": lambda: [("file", ("x.zip", bomb()))],
    "a bomb in a bomb": lambda: [("file", ("x.zip", zipped({"SKILL.md": TEXT, "in.zip": b"\0" * 10**8})))],
    "a name above": lambda: [("file", ("x.zip", zipped({"../../x": "x", "SKILL.md": TEXT}, top="")))],
    "an absolute name": lambda: [("file", ("x.zip", zipped({"/etc/x": "x"}, top="")))],
    "a backslash": lambda: [("file", ("x.zip", zipped({"..\\x": "x"}, top="")))],
    "a huge name": lambda: [("file", ("x.zip", zipped({"n" * 300: "x", "SKILL.md": TEXT})))],
    "a deep path": lambda: [("file", ("x.zip", zipped({"d/" * 40 + "x": "x", "SKILL.md": TEXT})))],
    "a link that leaves": lambda: [("file", ("x.zip", link("../../../etc/passwd")))],
    "an absolute link": lambda: [("file", ("x.zip", link("/etc/passwd")))],
    "a device": lambda: [("file", ("x.zip", device()))],
    "names that clash": lambda: [("file", ("x.zip", zipped({"A": "1", "a": "2", "SKILL.md": TEXT})))],
    "a file and a folder": lambda: [("file", ("x.zip", zipped({"a": "1", "a/b": "2", "SKILL.md": TEXT})))],
    "no archive": lambda: [("file", ("x.zip", b"MZ nothing"))],
    "a torn archive": lambda: [("file", ("x.zip", zipped(SKILL)[:-40]))],
    "no skill": lambda: [("file", ("x.zip", zipped({"notes": "x"})))],
    "two skills": lambda: [("file", ("x.zip", zipped({"a/SKILL.md": TEXT, "b/SKILL.md": TEXT}, top="")))],
    "two archives": lambda: [("file", ("x.zip", zipped(SKILL)))] * 2,
    "both forms": lambda: [("file", ("x.zip", zipped(SKILL))), ("files[]", ("SKILL.md", TEXT))],
    "another field": lambda: [("upload", ("x.zip", zipped(SKILL)))],
    "a file above": lambda: [("files[]", ("SKILL.md", TEXT)), ("files[]", ("../x", "x"))],
    "files that clash": lambda: [("files[]", ("SKILL.md", TEXT)), ("files[]", ("skill.MD", TEXT))],
    "a file twice": lambda: [("files[]", ("SKILL.md", TEXT))] * 2,
    "a skill whose name leads up": lambda: [("file", ("x.zip", named("../../x")))],
    "a skill whose name is two": lambda: [("file", ("x.zip", named("a/b")))],
    "a skill whose name is the folder above": lambda: [("file", ("x.zip", named("..")))],
    "a long file name": lambda: [("files[]", ("SKILL.md", TEXT)), ("files[]", ("n" * 5000, "x"))],
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_what_is_hostile_is_refused_with_a_reason_and_leaves_nothing(
    client: httpx.AsyncClient, tmp_path: Path, name: str
) -> None:
    before = outside(tmp_path)
    answer = await client.post("/v1/skills", files=HOSTILE[name]())
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    assert problem["detail"]
    assert str(tmp_path) not in answer.text
    assert lying(tmp_path) == []
    assert outside(tmp_path) == before


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "multipart/form-data; boundary=x"),
        (b"--x\r\n", "multipart/form-data; boundary=x"),
        (b"--x--\r\n", "multipart/form-data; boundary=x"),
        (b"junk", "multipart/form-data; boundary=x"),
        (b"junk", "multipart/form-data"),
        (b"junk", "multipart/form-data; boundary=" + "b" * 300),
        (b"{}", "application/json"),
        (b"", ""),
        (
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="\xff"\r\n\r\nx\r\n--x--\r\n',
            "multipart/form-data; boundary=x",
        ),
        (b"--x\r\n" + b"a: b\r\n" * 20 + b"\r\nx\r\n--x--\r\n", "multipart/form-data; boundary=x"),
    ],
)
async def test_a_body_that_is_no_form_is_refused(
    client: httpx.AsyncClient, tmp_path: Path, content: bytes, kind: str
) -> None:
    answer = await client.post("/v1/skills", content=content, headers={"content-type": kind})
    assert (answer.status_code, answer.json()["code"]) == (422, "request_body_invalid")
    assert lying(tmp_path) == []


async def test_as_many_files_as_a_skill_may_have_are_taken_and_one_more_is_not(
    host: Host, client: httpx.AsyncClient, tmp_path: Path
) -> None:
    limits = host.daemon.skills.limits
    host.daemon.skills.limits = replace(limits, unpacked=replace(limits.unpacked, entries=300))
    files = {"SKILL.md": TEXT, **{f"f{number}": "" for number in range(299)}}
    assert (await client.post("/v1/skills", files=folder_form(files))).status_code == 201
    for more in (1, 20):
        sent = {**files, **{f"g{number}": "" for number in range(more)}}
        answer = await client.post("/v1/skills", files=folder_form(sent))
        assert (answer.status_code, len(lying(tmp_path))) == (422, 1)


async def test_two_uploads_of_one_name_at_once_become_two_versions(client: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(send(client, {**SKILL, "n": str(number)}) for number in range(5)))
    assert sorted(answer.json()["version"] for answer in answers) == [1, 2, 3, 4, 5]
    found = (await client.get("/v1/skills/sums/versions")).json()["items"]
    assert len({one["digest"] for one in found}) == 5


async def test_deletes_uploads_and_downloads_at_once_end_in_answers(client: httpx.AsyncClient) -> None:
    async def change(number: int) -> Iterable[int]:
        path = "/v1/skills/sums"
        return [
            (await send(client, {**SKILL, "n": str(number % 3)})).status_code,
            (await client.get(f"{path}/versions/latest/content")).status_code,
            (await client.delete(path)).status_code,
        ]

    codes = {code for found in await asyncio.gather(*map(change, range(8))) for code in found}
    assert codes <= {200, 201, 204, 404}


@asynccontextmanager
async def connected(host: Host) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter, str]]:
    """Gives a connection to a real server, and a key."""
    key = await host.tenant("acme")
    async with serving(host.app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            yield reader, writer, key
        finally:
            writer.transport.abort()


def head(key: str, *lines: str) -> bytes:
    first = ["POST /v1/skills HTTP/1.1", "host: x", f"authorization: Bearer {key}"]
    return "\r\n".join([*first, "content-type: multipart/form-data; boundary=x", *lines, "", ""]).encode()


PART = b'--x\r\nContent-Disposition: form-data; name="file"; filename="x.zip"\r\n\r\nPK'


async def gone(tmp_path: Path) -> None:
    """Waits until nothing of an upload is left."""
    async with asyncio.timeout(10):
        while lying(tmp_path):  # noqa: ASYNC110  # the server's side tells nobody when it has noticed
            await asyncio.sleep(0.02)


async def test_a_client_that_hangs_up_in_the_middle_leaves_nothing(host: Host, tmp_path: Path) -> None:
    async with connected(host) as (_, writer, key):
        writer.write(head(key, "content-length: 1000000") + PART)
        await writer.drain()
        async with asyncio.timeout(10):
            while not lying(tmp_path):  # noqa: ASYNC110  # likewise
                await asyncio.sleep(0.02)
        writer.transport.abort()
        await gone(tmp_path)


async def test_a_body_that_stands_still_is_given_up(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_limits, "STALL_SECONDS", 0.2)
    async with connected(host) as (reader, writer, key):
        writer.write(head(key, "content-length: 1000000") + PART)
        async with asyncio.timeout(10):
            answer = await reader.readuntil(b"}")
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"request_stalled" in answer
        await gone(tmp_path)


@pytest.mark.parametrize("told", [True, False])
async def test_a_body_that_is_too_long_is_refused_before_it_is_read(tmp_path: Path, *, told: bool) -> None:
    async with (
        opened_host(tmp_path, daemon={"upload_bytes": 100_000}) as host,
        connected(host) as (reader, writer, key),
    ):
        length = "content-length: 1000000" if told else "transfer-encoding: chunked"
        writer.write(head(key, length) + (PART if told else b""))
        if not told:
            for piece in (PART, *[b"x" * 50_000] * 4):
                writer.write(b"%x\r\n" % len(piece) + piece + b"\r\n")
        async with asyncio.timeout(10):
            answer = await reader.readuntil(b"}")
        assert answer.startswith(b"HTTP/1.1 413"), answer
        await gone(tmp_path)


async def test_a_run_is_judged_by_what_an_admin_said_of_its_tenant(
    host: Host, client: httpx.AsyncClient
) -> None:
    await send(client)
    order = {"skill": "sums", "argv": ["echo", "hello"]}
    (tenant,) = [one for one in await host.daemon.tenants.list() if one.name == "acme"]
    policy = {"skills": {"sums": {"allow": False}}}
    await host.daemon.tenants.update(tenant.id, policy=policy, actor="test")
    refused = (await client.post("/v1/runs", json=order, params={"wait": 10})).json()
    assert (refused["outcome"]["type"], refused["outcome"]["code"]) == ("rejected", "policy_denied")
    await host.daemon.tenants.update(tenant.id, policy={}, actor="test")
    allowed = (await client.post("/v1/runs", json=order, params={"wait": 10})).json()
    assert allowed["outcome"] == {"type": "exited", "code": 0}


async def test_a_run_that_waits_finds_its_version_after_that_was_deleted(
    host: Host, client: httpx.AsyncClient, tmp_path: Path
) -> None:
    await send(client)
    (tenant,) = [one for one in await host.daemon.tenants.list() if one.name == "acme"]
    await host.daemon.tenants.update(tenant.id, limits={"concurrency": 1}, actor="test")
    sleeping = (await client.post("/v1/runs", json={"skill": "sums", "argv": ["sleep", "30"]})).json()
    waiting = (await client.post("/v1/runs", json={"skill": "sums", "argv": ["echo", "hello"]})).json()
    assert (await client.delete("/v1/skills/sums")).status_code == 204
    later = await client.post("/v1/runs", json={"skill": "sums", "argv": ["true"]})
    assert later.status_code == 404
    await client.post(f"/v1/runs/{sleeping['id']}/cancel")
    run = (await client.get(f"/v1/runs/{waiting['id']}", params={"wait": 15})).json()
    assert run["outcome"]["type"] == "exited", run
    await host.daemon.skills.kept.collect_all()
    assert lying(tmp_path) == []

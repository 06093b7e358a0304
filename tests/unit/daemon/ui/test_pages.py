"""Pages over a daemon whose engine is the fake one and all else is real."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.artifacts import ArtifactMetadata
from sandbox_skills.daemon.service.run_order import RunOrder
from tests.unit.daemon.ui.records import EVIL
from tests.unit.daemon.ui.test_rendering import Reader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sandbox_skills.artifacts import ArtifactStore
    from sandbox_skills.daemon.truth.run import Run
    from tests.daemon_host import Host
    from tests.unit.daemon.ui.conftest import Browser

pytestmark = pytest.mark.anyio

WAIT_SECONDS = 15.0


async def ran(host: Host, *argv: str, tenant: str = "acme", wait: bool = True) -> Run:
    """Returns a run of that tenant, ended unless told otherwise."""
    owner = (await host.daemon.tenants.named(tenant)).id
    order = RunOrder.model_validate({"skill": "greeter", "argv": list(argv)})
    run = await host.daemon.runs.submit(order, tenant=owner, actor="test")
    if wait:
        return await host.daemon.runs.wait(run.id, tenant=owner, seconds=WAIT_SECONDS)
    return run


def store(host: Host) -> ArtifactStore:
    return host.daemon.artifacts


async def owner(host: Host) -> str:
    return (await host.daemon.tenants.named("acme")).id


async def test_the_overview_counts_what_ended_and_names_the_last_runs(host: Host, acme: Browser) -> None:
    await ran(host, "echo", "hello")
    await ran(host, "false")
    page = await acme.look("/")
    assert page.status_code == 200
    read = Reader(page.text)
    assert "2 runs ended in the last hour, 1 failed" in page.text
    assert "greeter" in read.words
    assert "exit 1" in read.words


async def test_runs_are_narrowed_and_come_in_pages(
    host: Host, acme: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox_skills.daemon.ui.pages.runs.PAGE", 1)
    first, second = await ran(host, "echo", "first"), await ran(host, "echo", "second")
    page = await acme.look("/runs")
    assert second.id in page.text
    assert first.id not in page.text
    older = re.search(r'href="/ui(/runs\?before=[^"]+)"', page.text)
    assert older is not None
    assert first.id in (await acme.look(older[1])).text
    assert "No run fits" in (await acme.look("/runs?state=queued")).text
    assert "No run fits" in (await acme.look("/runs?skill=other")).text
    assert (await acme.look("/runs?state=nonsense&before=nonsense&session=x")).status_code == 200


async def test_a_run_shows_what_it_printed(host: Host, acme: Browser) -> None:
    run = await ran(host, "echo", "hello there")
    page = await acme.look(f"/runs/{run.id}")
    assert "hello there\n" in Reader(page.text).words
    assert "data-stream" not in page.text


async def test_whatever_a_program_prints_is_text(host: Host, acme: Browser) -> None:
    run = await ran(host, "echo", EVIL)
    read = Reader((await acme.look(f"/runs/{run.id}")).text)
    assert EVIL in read.words
    assert len(read.named("script")) == 1
    assert not read.named("img")


async def test_a_run_of_another_tenant_is_not_there(host: Host, acme: Browser) -> None:
    await host.tenant("other")
    run = await ran(host, "echo", "secret", tenant="other")
    for path in (f"/runs/{run.id}", f"/runs/{run.id}/stream"):
        assert (await acme.look(path)).status_code == 404
    await acme.look("/")
    for action in ("cancel", "rerun"):
        assert (await acme.send(f"/runs/{run.id}/{action}")).status_code == 404
    assert run.id not in (await acme.look("/runs")).text


async def test_a_run_is_cancelled(host: Host, acme: Browser) -> None:
    run = await ran(host, "sleep", "30", wait=False)
    page = await acme.look(f"/runs/{run.id}")
    assert f"/ui/runs/{run.id}/stream" in page.text
    answer = await acme.send(f"/runs/{run.id}/cancel")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/ui/runs/{run.id}")
    await host.daemon.runs.wait(run.id, tenant=run.tenant_id, seconds=WAIT_SECONDS)
    assert "stopped: cancelled" in (await acme.look(f"/runs/{run.id}")).text


async def test_a_run_is_run_again(host: Host, acme: Browser) -> None:
    run = await ran(host, "echo", "again")
    await acme.look(f"/runs/{run.id}")
    answer = await acme.send(f"/runs/{run.id}/rerun")
    assert answer.status_code == 303
    new = answer.headers["Location"].rpartition("/")[2]
    assert new != run.id
    assert (await host.daemon.runs.get(new, tenant=run.tenant_id)).request == run.request


async def test_a_page_that_follows_a_run_is_told_what_it_prints_until_its_end(
    host: Host, acme: Browser
) -> None:
    run = await ran(host, "echo", EVIL, wait=False)
    async with asyncio.timeout(WAIT_SECONDS):
        answer = await acme.look(f"/runs/{run.id}/stream?after=0")
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    events = [block.splitlines() for block in answer.text.split("\n\n") if block.startswith("id:")]
    appended = [json.loads(lines[2][6:]) for lines in events if lines[1] == "event: append"]
    assert appended == [{"to": "log", "kind": "stdout", "text": f"{EVIL}\n"}]
    assert events[-1][1] == "event: end"


async def test_a_browser_that_comes_back_hears_what_it_missed(host: Host, acme: Browser) -> None:
    run = await ran(host, "echo", "hello")
    acme.client.headers["Last-Event-ID"] = str(run.event_last - 1)
    answer = await acme.look(f"/runs/{run.id}/stream?after=0")
    assert answer.text.count("event: ") == 1
    assert "event: end" in answer.text


async def test_skills_are_shown_with_what_is_wrong_with_them(host: Host, acme: Browser) -> None:
    page = await acme.look("/skills")
    assert "greeter" in Reader(page.text).words
    assert "Says hello." in Reader((await acme.look("/skill?name=greeter")).text).words
    missing = await acme.look("/skill?name=%3Cscript%3Ealert(1)%3C/script%3E")
    assert missing.status_code == 404
    assert len(Reader(missing.text).named("script")) == 1


async def test_an_artifact_is_shown_by_its_kind(host: Host, acme: Browser) -> None:
    kept, tenant = store(host), await owner(host)
    await kept.save("out/table.csv", b"a,b\n1,2\n", ArtifactMetadata("text/csv"), tenant=tenant)
    await kept.save("out/table.csv", b"a,b\n3,4\n", ArtifactMetadata("text/csv"), tenant=tenant)
    await kept.save("out/note.txt", EVIL.encode(), ArtifactMetadata("text/plain"), tenant=tenant)
    listed = await acme.look("/artifacts?prefix=out/")
    assert "2 versions" not in listed.text
    assert "3 versions of 2 names" in listed.text
    table = Reader((await acme.look("/artifact?name=out%2Ftable.csv")).text)
    assert "version 1" in table.words
    assert "34" in table.words
    old = Reader((await acme.look("/artifact?name=out%2Ftable.csv&version=0")).text)
    assert "12" in old.words
    note = Reader((await acme.look("/artifact?name=out%2Fnote.txt")).text)
    assert EVIL in note.words


async def test_a_drawing_is_sent_into_a_sandbox_and_a_program_as_a_download(
    host: Host, acme: Browser
) -> None:
    kept, tenant = store(host), await owner(host)
    drawing = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
    await kept.save("out/a.svg", drawing, ArtifactMetadata("image/svg+xml"), tenant=tenant)
    await kept.save("out/a.js", b"alert(1)", ArtifactMetadata("text/javascript"), tenant=tenant)
    page = Reader((await acme.look("/artifact?name=out%2Fa.svg")).text)
    frame = page.named("iframe")[0]
    assert "sandbox" in frame
    assert not frame["sandbox"]
    sent = await acme.client.get(str(frame["src"]))
    assert sent.content == drawing
    assert sent.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    script = await acme.look("/artifact/content?name=out%2Fa.js&version=0")
    assert script.headers["Content-Type"] == "application/octet-stream"
    assert script.headers["Content-Disposition"].startswith("attachment")


async def test_no_name_of_a_file_writes_a_header(host: Host, acme: Browser) -> None:
    name = 'out/a"; filename="b.html'
    await store(host).save(name, b"x", ArtifactMetadata("text/plain"), tenant=await owner(host))
    page = Reader((await acme.look("/artifacts")).text)
    link = next(str(one["href"]) for one in page.named("a") if "/artifact?" in str(one["href"]))
    sent = await acme.client.get(link.replace("/artifact?", "/artifact/download?"))
    assert sent.headers["Content-Disposition"].count('"') == 2
    assert "Set-Cookie" not in sent.headers


async def test_an_artifact_of_another_tenant_is_not_there(host: Host, acme: Browser) -> None:
    await host.tenant("other")
    other = (await host.daemon.tenants.named("other")).id
    await store(host).save("out/a.txt", b"secret", tenant=other)
    for part in ("", "/content", "/download"):
        assert (await acme.look(f"/artifact{part}?name=out%2Fa.txt")).status_code == 404
    for name in ("..%2Fa", "", "%00", "a%0D%0AX: y"):
        assert (await acme.look(f"/artifact/content?name={name}")).status_code in {404, 422}
    assert (await acme.look("/artifact?name=a&version=-1")).status_code == 404


async def test_an_admin_sees_tenants_their_keys_and_the_audit_log(host: Host, acme: Browser) -> None:
    await ran(host, "echo", "hello")
    listed = await acme.look("/tenants")
    assert "acme" in Reader(listed.text).words
    page = Reader((await acme.look(f"/tenants/{await owner(host)}")).text)
    assert "of 4 at a time" in page.words
    assert "run" in page.words
    log = Reader((await acme.look("/audit")).text)
    assert "tenant.create" in log.words
    assert (await acme.look("/tenants/none")).status_code == 404


async def test_the_audit_log_comes_in_pages(
    host: Host, acme: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox_skills.daemon.ui.pages.tenants.AUDIT_PAGE", 1)
    older = re.search(r'href="/ui(/audit\?before=\d+)"', (await acme.look("/audit")).text)
    assert older is not None
    assert "tenant.create" in (await acme.look(older[1])).text


async def test_a_session_is_listed_looked_at_and_closed(host: Host, acme: Browser) -> None:
    tenant = await owner(host)
    made = await host.daemon.sessions.create(name=EVIL, ttl_seconds=600.0, tenant=tenant, actor="test")
    await host.daemon.files.put(made.id, "work/a.txt", _one(b"hello"), tenant=tenant)
    assert EVIL in Reader((await acme.look("/sessions")).text).words
    page = await acme.look(f"/sessions/{made.id}")
    assert "work/a.txt" not in page.text
    assert "work/a.txt" in (await acme.look(f"/sessions/{made.id}?files=1")).text
    sent = await acme.client.get(f"/ui/sessions/{made.id}/file", params={"path": "work/a.txt"})
    assert sent.content == b"hello"
    assert sent.headers["Content-Disposition"].startswith("attachment")
    assert (await acme.look(f"/sessions/{made.id}/file?path=..%2F..%2Fetc%2Fpasswd")).status_code in {
        404,
        422,
    }
    assert (await acme.send(f"/sessions/{made.id}/close")).status_code == 303
    assert "closed" in Reader((await acme.look(f"/sessions/{made.id}")).text).words


async def test_a_session_of_another_tenant_is_not_there(host: Host, acme: Browser) -> None:
    await host.tenant("other")
    other = (await host.daemon.tenants.named("other")).id
    made = await host.daemon.sessions.create(name="x", ttl_seconds=600.0, tenant=other, actor="test")
    for part in ("", "?files=1", "/file?path=work%2Fa"):
        assert (await acme.look(f"/sessions/{made.id}{part}")).status_code == 404
    await acme.look("/")
    assert (await acme.send(f"/sessions/{made.id}/close")).status_code == 404


async def _one(data: bytes) -> AsyncIterator[bytes]:
    yield data

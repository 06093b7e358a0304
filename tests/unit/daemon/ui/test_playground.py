"""The playground over a scripted model behind a real HTTP server: asked, followed, allowed, stopped, gone on with."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.daemon.ui.dashboard import dashboard
from tests.daemon_host import opened_host
from tests.model_server import ModelServer, Say, call, text
from tests.unit.daemon.ui.conftest import new_browser
from tests.unit.daemon.ui.records import EVIL
from tests.unit.daemon.ui.test_rendering import Reader

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.daemon_host import Host
    from tests.unit.daemon.ui.conftest import Browser

pytestmark = pytest.mark.anyio

WAIT_SECONDS = 15.0

LOAD = call("load_skill", {"skill": "greeter"}, "c1")
ASK = {"tools": {"load_skill": {"needs_approval": "always"}}}


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
async def asking_host(tmp_path: Path, model: ModelServer) -> AsyncIterator[Host]:
    """A daemon whose policy asks a person before a skill is loaded."""
    named = {"name": "scripted/model", "base_url": model.base_url, "api_key": "sk-test", "attempts": 1}
    async with opened_host(tmp_path, model=named, policy=ASK) as host:
        host.app.mount("/ui", dashboard(host.daemon))
        yield host


@pytest.fixture
async def browser(asking_host: Host) -> AsyncIterator[Browser]:
    async with new_browser(asking_host) as browser:
        await browser.sign_in(await asking_host.tenant("acme"))
        yield browser


async def begun(browser: Browser, words: str = "Say hello.", **fields: str) -> str:
    """Returns the path of a conversation that the form of the playground began."""
    await browser.look("/playground")
    answer = await browser.send("/playground", input=words, **fields)
    assert answer.status_code == 303, answer.text
    return str(answer.headers["Location"]).removeprefix("/ui")


async def until_over(browser: Browser, path: str, after: int = 0) -> list[tuple[str, dict[str, str]]]:
    """Returns what a page that follows is told, until the model is done or waits."""
    async with asyncio.timeout(WAIT_SECONDS):
        answer = await browser.look(f"{path}/stream?after={after}")
    blocks = [block.splitlines() for block in answer.text.split("\n\n") if block.startswith("id:")]
    return [
        (lines[1].removeprefix("event: "), json.loads(lines[2].removeprefix("data: "))) for lines in blocks
    ]


async def test_a_model_is_asked_and_its_answer_is_text(browser: Browser, model: ModelServer) -> None:
    model.script(Say([text(EVIL)], pieces=4))
    path = await begun(browser, f"Hello {EVIL}")
    told = await until_over(browser, path)
    assert told[-1][0] == "end"
    read = Reader((await browser.look(path)).text)
    assert f"Hello {EVIL}" in read.words
    assert read.words.count(EVIL) == 2
    assert len(read.named("script")) == 1
    assert "answered" in read.words
    assert f"Hello {EVIL}" in Reader((await browser.look("/playground")).text).words


async def test_a_call_waits_for_a_word_is_allowed_and_the_model_goes_on(
    browser: Browser, model: ModelServer
) -> None:
    model.script(Say([LOAD]), Say([text("Hello, all of you.")]))
    path = await begun(browser)
    await until_over(browser, path)
    page = await browser.look(path)
    assert "waits for you" in page.text
    assert 'value="approve"' in page.text
    answer = await browser.send(f"{path}/approvals", call_id="c1", decision="approve")
    assert answer.status_code == 303
    await until_over(browser, path)
    read = Reader((await browser.look(path)).text)
    assert "load_skill" in read.words
    assert "Hello, all of you." in read.words
    assert "Approve" not in read.words


async def test_a_call_is_refused(browser: Browser, model: ModelServer) -> None:
    model.script(Say([LOAD]), Say([text("Then not.")]))
    path = await begun(browser)
    await until_over(browser, path)
    await browser.look(path)
    assert (await browser.send(f"{path}/approvals", call_id="c1", decision="maybe")).status_code == 422
    assert (await browser.send(f"{path}/approvals", call_id="other", decision="approve")).status_code == 409
    assert (await browser.send(f"{path}/approvals", call_id="c1", decision="refuse")).status_code == 303
    await until_over(browser, path)
    assert "Then not." in (await browser.look(path)).text


async def test_the_user_goes_on(browser: Browser, model: ModelServer) -> None:
    model.script(Say([text("First.")]), Say([text("Second.")]))
    path = await begun(browser, "One?")
    await until_over(browser, path)
    page = await browser.look(path)
    assert "Say something more" in page.text
    assert (await browser.send(f"{path}/speak", input="Two?")).status_code == 303
    await until_over(browser, path)
    words = Reader((await browser.look(path)).text).words
    assert words.index("One?") < words.index("First.") < words.index("Two?") < words.index("Second.")


async def test_a_conversation_of_another_tenant_is_not_there(
    asking_host: Host, browser: Browser, model: ModelServer
) -> None:
    model.script(Say([text("Hello.")]))
    path = await begun(browser)
    await until_over(browser, path)
    async with new_browser(asking_host) as other:
        await other.sign_in(await asking_host.tenant("other"))
        assert (await other.look(path)).status_code == 404
        assert (await other.look(f"{path}/stream")).status_code == 404
        await other.look("/")
        for action in ("speak", "approvals", "cancel"):
            answer = await other.send(f"{path}/{action}", input="x", call_id="c1", decision="approve")
            assert answer.status_code == 404


async def test_what_cannot_begin_is_told_and_kept_nowhere(browser: Browser) -> None:
    await browser.look("/playground")
    for fields, told in (
        ({"input": ""}, "input"),
        ({"input": "x", "toolset": EVIL}, "toolset"),
        ({"input": "x", "approvals": "always"}, "approvals"),
        ({"input": "x", "unknown": "y"}, "unknown"),
    ):
        answer = await browser.send("/playground", **fields)
        assert answer.status_code in {400, 422}
        assert told in answer.text
        assert len(Reader(answer.text).named("script")) == 1
    assert "No conversations yet." in (await browser.look("/playground")).text

"""The dashboard as its users have it: a server over real sandboxes, and Debian's Chromium without a window."""

from __future__ import annotations

import threading
import zipfile
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.chromium import WAIT_MILLISECONDS, Watch, faults_of, launched, overflow_of
from tests.model_server import Say, call, text
from tests.serve_process import served

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

    from tests.conftest import Program
    from tests.model_server import ModelServer
    from tests.serve_process import Served

pytestmark = [pytest.mark.docker, pytest.mark.chromium, pytest.mark.slow, pytest.mark.timeout(300)]

expect.set_options(timeout=WAIT_MILLISECONDS)

PHONE: ViewportSize = {"width": 360, "height": 740}
SCREEN: ViewportSize = {"width": 1280, "height": 900}

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>"

HOSTILE = f"""
cat > $OUTPUT_DIR/a.svg <<'END'
<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="parent.document.title='owned'">
<script>parent.document.title = 'owned'; alert(3)</script></svg>
END
echo '<script>parent.document.title = "owned"; alert(4)</script><form action="/ui/sign-out" method="post">' \\
  > "$OUTPUT_DIR/{EVIL.replace("/", "_")}.html"
printf 'name,share\\n{EVIL},1\\n' > $OUTPUT_DIR/t.csv
echo '{EVIL}'; echo '{EVIL}' >&2; exit 3
"""

TICKS = "for i in $(seq 300); do echo tick $i; sleep 0.1; done"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


LOAD = call("skill_load", {"skill": "python-math"}, "c1")
RUN = call(
    "skill_run", {"skill": "python-math", "command": "for i in 1 2 3; do echo tock $i; sleep 1; done"}, "c2"
)

SETTINGS = """
model:
  name: scripted/model
  base_url: {base_url}
  api_key: sk-test
  attempts: 1
policy:
  tools:
    skill_load: {{needs_approval: always}}
"""


@pytest.fixture
def server(program: Program, model_server: ModelServer, tmp_path: Path) -> Iterator[Served]:
    model_server.reset()
    settings = tmp_path / "settings.yaml"
    settings.write_text(SETTINGS.format(base_url=model_server.base_url), encoding="utf-8")
    with served(program, "--config", str(settings)) as server:
        yield server


@contextmanager
def signed_in(browser: Browser, server: Served, **options: Any) -> Generator[Page]:  # noqa: ANN401  # of a context
    """Gives the first page of whoever has the first key."""
    context = browser.new_context(**{"viewport": SCREEN, **options})
    context.set_default_timeout(WAIT_MILLISECONDS)
    try:
        yield sign_in(context, server)
    finally:
        context.close()


def sign_in(context: BrowserContext, server: Served) -> Page:
    page = context.new_page()
    page.goto(f"{server.url}/ui/")
    page.get_by_label("API key").fill(server.key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    return page


def unfold(page: Page) -> None:
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")


def submit(server: Served, command: str, **order: object) -> str:
    with server.client() as client:
        answer = client.post("/v1/runs", json={"skill": "python-math", "command": command, **order})
    return str(answer.json()["id"])


def hostile_run(server: Served) -> str:
    kept = {"output_files": ["out/**"], "save_as_artifacts": True}
    return str(server.run({"skill": "python-math", "command": HOSTILE, **kept})["id"])


def paths(server: Served, run_id: str) -> list[str]:
    """Returns every page, each with something on it."""
    with server.client() as client:
        session = client.get("/v1/sessions").json()["items"][0]["id"]
        talk = client.get("/v1/agents/runs").json()["items"][0]["id"]
        tenant = client.get("/v1/admin/tenants").json()["items"][0]["id"]
    return [
        "/",
        "/runs",
        f"/runs/{run_id}",
        "/skills",
        "/skill?name=python-math",
        "/sessions",
        f"/sessions/{session}",
        "/playground",
        f"/playground/{talk}",
        "/artifacts",
        "/artifact?name=out%2Ft.csv",
        "/artifact?name=out%2Fa.svg",
        "/tenants",
        f"/tenants/{tenant}",
        "/audit",
        "/no-such-page",
    ]


@pytest.mark.timeout(900)
def test_axe_finds_no_serious_fault_on_any_page_and_none_is_wider_than_a_phone(
    browser: Browser, server: Served, model_server: ModelServer
) -> None:
    model_server.script(Say([LOAD]))
    run_id = hostile_run(server)
    with server.client() as client:
        client.post("/v1/sessions", json={"name": EVIL})
        talk = client.post("/v1/agents/runs", json={"input": EVIL, "toolset": "workspace"}).json()["id"]
        client.get(f"/v1/agents/runs/{talk}/events")
    watch, found, asked = Watch(), list[str](), set[str]()
    for viewport, scheme in ((SCREEN, "light"), (PHONE, "dark")):
        with signed_in(browser, server, viewport=viewport, color_scheme=scheme) as page:
            watch.over(page)
            page.on("request", lambda request: asked.add(request.url.partition("/ui")[0]))
            for path in paths(server, run_id):
                page.goto(f"{server.url}/ui{path}")
                unfold(page)
                found += faults_of(page)
                assert overflow_of(page) == 0, path
            page.get_by_role("button", name="Sign out").click()
            expect(page.get_by_label("API key")).to_be_visible()
            found += faults_of(page)
    assert found == []
    assert watch.faults == []
    assert watch.dialogs == []
    assert asked == {server.url}, "a page asked another host"


def test_a_log_grows_while_it_is_looked_at_and_the_run_is_cancelled_and_run_again(
    browser: Browser, server: Served
) -> None:
    watch = Watch()
    run_id = submit(server, TICKS)
    with signed_in(browser, server) as page:
        watch.over(page)
        page.goto(f"{server.url}/ui/runs/{run_id}")
        log = page.get_by_role("log")
        expect(log).to_contain_text("tick 3\n")
        expect(log).to_contain_text("tick 12\n")
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_text("stopped: cancelled")).to_be_visible()
        expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
        page.get_by_role("button", name="Run again").click()
        page.wait_for_url(lambda url: "/runs/" in url and run_id not in url)
        expect(log).to_contain_text("tick 2\n")
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_text("stopped: cancelled")).to_be_visible()
    assert watch.faults == []


def test_a_tenant_talks_with_a_model_sees_its_tools_at_work_and_allows_a_call(
    browser: Browser, server: Served, model_server: ModelServer
) -> None:
    model_server.script(Say([LOAD]), Say([RUN]), Say([text(f"It said tock. {EVIL}")], pieces=6))
    watch = Watch()
    with signed_in(browser, server) as page:
        watch.over(page)
        page.get_by_role("link", name="Playground").click()
        page.get_by_label("What should the model do?").fill("Say tock.")
        page.get_by_label("Tools").select_option("workspace")
        page.get_by_role("button", name="Start").click()
        page.get_by_role("button", name="Approve").click()
        # The output of its tool comes while the tool is at work.
        expect(page.get_by_text("tock 1")).to_be_visible()
        expect(page.get_by_text("running").first).to_be_visible()
        expect(page.get_by_text(f"It said tock. {EVIL}")).to_be_visible()
        expect(page.get_by_text("answered")).to_be_visible()
        assert faults_of(page) == []
        model_server.script(Say([text("You are welcome.")]))
        page.get_by_label("Say something more").fill("Thank you.")
        page.keyboard.press("Control+Enter")
        expect(page.get_by_text("You are welcome.")).to_be_visible()
        expect(page.get_by_text("Thank you.")).to_be_visible()
    assert watch.faults == []
    assert watch.dialogs == []


def test_an_admin_makes_a_tenant_and_a_key_and_uploads_a_skill(
    browser: Browser, server: Served, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "counter.zip", "w") as archive:
        archive.writestr(
            "counter/SKILL.md", f"---\nname: counter\ndescription: Counts {EVIL}.\n---\nRun it.\n"
        )
    watch, found = Watch(), list[str]()
    with signed_in(browser, server, viewport=PHONE, color_scheme="dark") as page:
        watch.over(page)
        page.get_by_role("link", name="Tenants").click()
        page.get_by_label("Name").fill("newcomers")
        page.get_by_role("button", name="Make it").click()
        expect(page.get_by_role("heading", name="newcomers")).to_be_visible()
        page.get_by_label("What it is for").fill("laptop")
        page.get_by_role("button", name="Make it").click()
        token = page.get_by_role("region", name="The key itself").inner_text().strip()
        found += faults_of(page)
        assert overflow_of(page) == 0
        with server.client(token) as client:
            assert client.get("/v1/runs").json()["items"] == []
            page.get_by_role("button", name="Revoke laptop").click()
            expect(page.get_by_text("revoked")).to_be_visible()
            assert client.get("/v1/runs").status_code == 401
        page.get_by_role("button", name="Disable").click()
        expect(page.get_by_text("disabled")).to_be_visible()
        page.get_by_role("link", name="Skills").click()
        page.get_by_label("A zip of its folder").set_input_files(tmp_path / "counter.zip")
        page.get_by_role("button", name="Upload").click()
        expect(page.get_by_role("heading", name="counter")).to_be_visible()
        expect(page.get_by_text(EVIL)).to_be_visible()
        found += faults_of(page)
    assert found == []
    assert watch.faults == []
    assert watch.dialogs == []


def test_nothing_that_a_skill_wrote_is_obeyed(browser: Browser, server: Served) -> None:
    run_id = hostile_run(server)
    watch = Watch()
    with signed_in(browser, server) as page:
        watch.over(page)
        for path in (f"/runs/{run_id}", "/artifacts", "/runs", "/artifact?name=out%2Fa.svg"):
            page.goto(f"{server.url}/ui{path}")
            unfold(page)
            for frame in page.locator("iframe").all():
                frame.scroll_into_view_if_needed()
                inside = frame.element_handle().content_frame()
                assert inside is not None
                inside.wait_for_load_state()
            assert "owned" not in page.title()
            assert page.evaluate("document.querySelectorAll('script').length") == 1
            assert page.evaluate("document.querySelectorAll('img[src=x]').length") == 0
        page.goto(f"{server.url}/ui/runs/{run_id}")
        expect(page.get_by_role("log")).to_contain_text(EVIL)
        page.goto(f"{server.url}/ui/artifact/content?name=out%2Fa.svg")
        assert page.evaluate("window.origin") == "null", "a file opened by itself is in its sandbox too"
        assert page.evaluate("document.title") == ""
    assert watch.dialogs == []
    assert watch.faults == []
    assert any("sandboxed" in text for text in watch.logged)


@contextmanager
def other_site(html: str) -> Generator[str]:
    """Serves one page from a port of its own, as another program of this machine could."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as site:
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{site.server_port}"
        finally:
            site.shutdown()
            thread.join()


def test_another_site_can_neither_frame_a_page_nor_send_a_form(browser: Browser, server: Served) -> None:
    run_id = submit(server, "sleep 60")
    target = f"{server.url}/ui/runs/{run_id}/cancel"
    html = (
        f"<iframe src='{server.url}/ui/'></iframe>"
        f"<form method=post action='{target}'><input name=csrf value=guess><button>go</button></form>"
    )
    with signed_in(browser, server) as page, other_site(html) as site:
        page.goto(site)
        frame = page.locator("iframe").element_handle().content_frame()
        assert frame is not None
        assert "Overview" not in frame.content()
        # A port is no site of its own to cookies: the token is what holds.
        page.get_by_role("button", name="go").click()
        page.wait_for_url(target)
        assert "another site" in page.content()
        with server.client() as client:
            assert client.get(f"/v1/runs/{run_id}").json()["state"] != "finished"
            client.post(f"/v1/runs/{run_id}/cancel")
            client.get(f"/v1/runs/{run_id}", params={"wait": 30})


def test_everything_is_reached_with_the_keyboard(browser: Browser, server: Served) -> None:
    run_id = submit(server, "sleep 60")
    context = browser.new_context(viewport=SCREEN)
    page = context.new_page()
    page.goto(f"{server.url}/ui/sign-in?next=/runs/{run_id}")
    expect(page.get_by_label("API key")).to_be_focused()
    page.keyboard.type(server.key)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{server.url}/ui/runs/{run_id}")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("stopped: cancelled")).to_be_visible(timeout=WAIT_MILLISECONDS)
    context.close()


def test_pages_work_without_a_script(browser: Browser, server: Served) -> None:
    run_id = submit(server, "echo hello; sleep 60")
    with signed_in(browser, server, java_script_enabled=False) as page:
        page.goto(f"{server.url}/ui/runs/{run_id}")
        page.get_by_role("button", name="Cancel").click()
        with server.client() as client:
            client.get(f"/v1/runs/{run_id}", params={"wait": 30})
        page.reload()
        expect(page.get_by_text("stopped: cancelled")).to_be_visible()
        expect(page.get_by_role("log")).to_contain_text("hello")

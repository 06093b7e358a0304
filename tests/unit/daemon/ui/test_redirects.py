"""Signing in leads to a page of the dashboard and nowhere else."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.daemon.ui.redirects import inside

HERE = "http://here.test"


@pytest.mark.parametrize(
    "target", ["/", "/runs", "/runs/01J", "/runs?state=queued&skill=a-b", "/artifacts/a%2Fb.svg/0"]
)
def test_a_page_is_kept(target: str) -> None:
    assert inside(target) == target


@pytest.mark.parametrize(
    "target",
    [
        "",
        "runs",
        "//evil.test",
        "/\\evil.test",
        "\\\\evil.test",
        "https://evil.test/",
        "/runs//evil.test",
        "/../v1/admin",
        "/%2e%2e/v1",
        "/./../v1",
        "/runs\r\nSet-Cookie: a=b",
        "/runs#//evil",
        "javascript:alert(1)",
        "/runs\n",
        "/" + "a" * 3000,
    ],
)
def test_all_else_leads_to_the_first_page(target: str) -> None:
    assert inside(target) == "/"


@given(st.text(alphabet="/\\.:@?#%2eE\t\r\n ajs-", max_size=30))
def test_a_browser_stays_below_the_dashboard(target: str) -> None:
    led = urlsplit(urljoin(f"{HERE}/ui/", "/ui" + inside(target)))
    assert f"{led.scheme}://{led.netloc}" == HERE
    assert led.path.startswith("/ui/")

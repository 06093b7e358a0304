"""Headless Chromium, and what a page may not do to its users: Debian's browser, and axe from its package."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Generator

    from playwright.sync_api import Browser, Page

CHROMIUM = "/usr/bin/chromium"

FLAGS = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking")
"""Root starts no sandbox of Chromium's, and containers have a small /dev/shm."""

WAIT_MILLISECONDS = 60_000.0
"""Longest wait for something to appear: a machine with ten times its load took half of that for a sandbox."""

SERIOUS = frozenset({"serious", "critical"})


@contextmanager
def launched() -> Generator[Browser]:
    """Gives a browser without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass(slots=True)
class Watch:
    """What happened on a page that should not: dialogs, faults of its script, and what it logged."""

    dialogs: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)

    def over(self, page: Page) -> Watch:
        """Watches a page from now on."""

        def dismissed(dialog: Any) -> None:  # noqa: ANN401  # a dialog of Playwright's
            self.dialogs.append(dialog.message)
            dialog.dismiss()

        page.on("dialog", dismissed)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", lambda message: self.logged.append(message.text))
        return self


def faults_of(page: Page) -> list[str]:
    """Returns the serious and critical faults that axe finds on a page, each with an element that has it."""
    page.evaluate(_axe())
    found: list[dict[str, Any]] = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    return [
        f"{page.url}: {one['id']} ({one['impact']}): {one['nodes'][0]['html'][:200]}"
        for one in found
        if one["impact"] in SERIOUS
    ]


def overflow_of(page: Page) -> int:
    """Returns by how many pixels a page is wider than its window."""
    wider: int = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return max(0, wider)


@cache
def _axe() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")

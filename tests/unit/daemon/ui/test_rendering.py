"""Pages on static data: whatever a stranger called things, it is text."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from sandbox_skills.daemon.truth.run import RunState, SkillRef
from sandbox_skills.daemon.ui.rendering import STATIC_TYPES, Visitor, menu_of, page, sign_in_page, static_file
from sandbox_skills.daemon.ui.views.files import run_files
from sandbox_skills.daemon.ui.views.runs import log_pieces, run_page
from tests.unit.daemon.ui.records import EVIL, NOW, artifact, output, result, run
from tests.unit.daemon.ui.test_files import told

VISITOR = Visitor("acme", "token")


class Reader(HTMLParser):
    """Collects what a browser would make of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def hostile_page() -> Reader:
    hostile = run(
        skill=SkillRef(EVIL, EVIL, EVIL, "tenant"),
        session_id=EVIL,
        request={"command": EVIL, "note": EVIL},
        outcome={"type": "sandbox_error", "message": EVIL, "reason": EVIL},
        limits_hit=(EVIL,),
    )
    hit = result(
        output_files=[told(EVIL, EVIL), told(f"{EVIL}.csv", f"{EVIL},b\n{EVIL},2", "text/csv")],
        warnings=[EVIL],
        hints=[{"subject": EVIL, "advice": EVIL}],
    )
    kept = [artifact(f"{EVIL}.svg", "image/svg+xml"), artifact(f"{EVIL}.png", "image/png")]
    files = run_files(hit, kept, prefix="", base="/ui")
    view = run_page(hostile, log_pieces([output(EVIL)]), files, base="/ui", now=NOW)
    return Reader(page("run.html", Visitor(EVIL, EVIL), base="/ui", here="/runs", title=EVIL, view=view))


def test_nothing_that_a_stranger_wrote_becomes_markup() -> None:
    read = hostile_page()
    assert [one.get("src") for one in read.named("script")] == [read.named("script")[0]["src"]]
    assert "onerror" not in {name for _, attributes in read.tags for name in attributes}
    assert EVIL in read.words
    assert all(one["alt"] for one in read.named("img"))


def test_drawings_stand_in_frames_without_any_right() -> None:
    frames = hostile_page().named("iframe")
    assert frames
    assert all("sandbox" in frame and not frame["sandbox"] for frame in frames)


@pytest.mark.parametrize("forbidden", ["style", "onclick", "onload", "onsubmit"])
def test_no_page_has_anything_inline(forbidden: str) -> None:
    read = hostile_page()
    assert not [tag for tag, attributes in read.tags if forbidden in attributes]
    assert not read.named("style")


def test_every_form_that_changes_something_carries_the_token() -> None:
    going = run(state=RunState.RUNNING, outcome=None, result=None, finished_at=None)
    view = run_page(going, (), (), base="/ui", now=NOW)
    text = page("run.html", VISITOR, base="/ui", here="/runs", title="Run", view=view)
    posts = text.count('method="post"')
    assert posts >= 2
    assert text.count('name="csrf" value="token"') == posts


def test_only_an_admin_sees_the_pages_of_one() -> None:
    assert "/tenants" not in {entry.path for entry in menu_of(VISITOR)}
    assert "/tenants" in {entry.path for entry in menu_of(Visitor("a", "b", is_admin=True))}


def test_the_sign_in_page_says_what_was_wrong_and_runs_nothing() -> None:
    read = Reader(sign_in_page(base="/ui", form_token="t", target=EVIL, fault=EVIL))
    assert EVIL in read.words
    assert not read.named("script")


def test_no_file_of_ours_asks_another_host() -> None:
    for name in STATIC_TYPES:
        text = static_file(name).decode().replace("http://www.w3.org/2000/svg", "")
        assert "//" not in text.replace("/* ", "").replace("// ", "")

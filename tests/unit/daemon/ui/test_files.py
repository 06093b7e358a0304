"""Files of runs and artifacts as pages show them."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox_skills.daemon.ui.views.files import (
    EMPTY,
    NO_PREVIEW,
    NOT_KEPT,
    artifact_path,
    artifact_view,
    run_files,
)
from sandbox_skills.daemon.ui.views.preview import Preview, Table
from tests.unit.daemon.ui.records import artifact, result


def told(name: str, content: str, mime_type: str = "text/plain", size: int | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "content": content,
        "mime_type": mime_type,
        "size_bytes": len(content) if size is None else size,
        "truncated": False,
        "ref": f"workspace://{name}",
    }


def test_a_text_is_shown_and_a_table_as_one() -> None:
    files = run_files(
        result(output_files=[told("out/a.txt", "hi"), told("out/b.csv", "x,y\n1,2\n", "text/csv")]),
        [],
        prefix="",
        base="/ui",
    )
    assert (files[0].preview, files[0].text, files[0].download) == (Preview.TEXT, "hi", "")
    assert (files[1].preview, files[1].table) == (Preview.TABLE, Table(("x", "y"), (("1", "2"),), cut=False))


def test_a_file_that_was_kept_is_shown_once_and_can_be_downloaded() -> None:
    files = run_files(
        result(output_files=[told("out/a.txt", "hello")]),
        [artifact("pre/out/a.txt")],
        prefix="pre/",
        base="/ui",
    )
    assert [(one.text, one.download) for one in files] == [
        ("hello", "/ui/artifact/download?name=pre%2Fout%2Fa.txt&version=0"),
    ]


def test_what_is_no_text_and_was_not_kept_says_how_to_see_it() -> None:
    files = run_files(result(output_files=[told("a.png", "", "image/png", 90)]), [], prefix="", base="/ui")
    assert (files[0].preview, files[0].why_not) == (Preview.NONE, NOT_KEPT)


def test_the_answer_is_listed_where_nothing_was_asked_for() -> None:
    primary = told("out/a.txt", "hi")
    assert len(run_files(result(primary_output=primary), [], prefix="", base="")) == 1
    assert len(run_files(result(primary_output=primary, output_files=[primary]), [], prefix="", base="")) == 1


@pytest.mark.parametrize(
    ("mime_type", "expected"), [("image/png", Preview.PICTURE), ("image/svg+xml", Preview.FRAME)]
)
def test_pictures_come_from_their_address(mime_type: str, expected: Preview) -> None:
    view = artifact_view(artifact("a b.x", mime_type), None, base="/ui")
    assert (view.preview, view.address) == (expected, "/ui/artifact/content?name=a+b.x&version=0")


def test_what_cannot_be_shown_says_so() -> None:
    assert artifact_view(artifact("a.zip", "application/zip"), None, base="").why_not == NO_PREVIEW
    assert artifact_view(artifact("a.txt", size=0), "", base="").why_not == EMPTY


def test_a_long_text_is_cut_and_that_is_said() -> None:
    assert artifact_view(artifact("a.txt", size=900), "begin", base="").cut


def test_a_name_cannot_leave_its_address() -> None:
    assert artifact_path("../a?b#c%/d\"'<&version=9", 2) == (
        "/artifact?name=..%2Fa%3Fb%23c%25%2Fd%22%27%3C%26version%3D9&version=2"
    )

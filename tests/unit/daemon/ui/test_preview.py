"""Files of strangers: which are shown how, and how much of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.daemon.ui.views.preview import (
    MAX_CELL,
    MAX_COLUMNS,
    MAX_PICTURE_BYTES,
    MAX_ROWS,
    Preview,
    Table,
    preview_of,
    table_of,
    text_of,
)


@pytest.mark.parametrize(
    ("mime_type", "expected"),
    [
        ("image/png", Preview.PICTURE),
        ("IMAGE/PNG; x=y", Preview.PICTURE),
        ("image/svg+xml", Preview.FRAME),
        ("text/html", Preview.FRAME),
        ("text/csv", Preview.TABLE),
        ("text/x-python", Preview.TEXT),
        ("text/javascript", Preview.TEXT),
        ("application/json", Preview.TEXT),
        ("application/pdf", Preview.NONE),
        ("image/x-unknown", Preview.NONE),
        ("", Preview.NONE),
    ],
)
def test_the_type_decides(mime_type: str, expected: Preview) -> None:
    assert preview_of(mime_type, 10) is expected


def test_a_picture_that_is_too_large_is_a_download() -> None:
    assert preview_of("image/png", MAX_PICTURE_BYTES + 1) is Preview.NONE


def test_a_table_has_its_first_row_as_header_and_rows_of_one_width() -> None:
    assert table_of('name,count\n"a, b",1\nc\n') == Table(
        ("name", "count"), (("a, b", "1"), ("c", "")), cut=False
    )


@pytest.mark.parametrize("text", ["a;b\n1;2", "a\tb\n1\t2", "a|b\n1|2"])
def test_other_delimiters_are_found(text: str) -> None:
    assert table_of(text) == Table(("a", "b"), (("1", "2"),), cut=False)


def test_a_large_table_is_cut_and_says_so() -> None:
    table = table_of("\n".join(",".join("x" * (MAX_COLUMNS + 1)) for _ in range(MAX_ROWS + 9)))
    assert table is not None
    assert table.cut
    assert (len(table.header), len(table.rows)) == (MAX_COLUMNS, MAX_ROWS)


def test_a_long_cell_is_cut() -> None:
    table = table_of("a\n" + "x" * 1000)
    assert table is not None
    assert table.rows[0][0] == "x" * MAX_CELL + "…"


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_nothing_is_no_table(text: str) -> None:
    assert table_of(text) is None


@given(st.text(max_size=300))
def test_whatever_it_is_it_is_a_table_of_even_rows_or_none(text: str) -> None:
    table = table_of(text)
    assert table is None or {len(row) for row in table.rows} <= {len(table.header)}


def test_bytes_that_are_no_text_are_shown_as_that() -> None:
    assert text_of(b"a\xffb\x00") == "a�b�"

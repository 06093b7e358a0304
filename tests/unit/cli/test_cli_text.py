from __future__ import annotations

import json
import re
import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rich.cells import cell_len

from sandbox_skills.cli.text import aligned, harmless, harmless_json, harmless_line

ESCAPED = {"Cc", "Zl", "Zp"}
CELLS = st.text(st.characters(exclude_categories=["C", "Z", "M"]), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("##vso[task.setvariable variable=PATH]/x", r"\x23#vso[task.setvariable variable=PATH]/x"),
        ("a ##[error]b", r"a \x23#[error]b"),
        ("##teamcity[testFinished]", r"\x23#teamcity[testFinished]"),
        ("  ::add-mask::passed", r"  \x3a:add-mask::passed"),
        ("\u2028::error::x", r"\u2028::error::x"),
        ("skill::case", "skill::case"),
        ("## Heading", "## Heading"),
    ],
)
def test_no_line_commands_a_server_that_reads_the_log(text: str, shown: str) -> None:
    assert harmless_line(text) == shown
    written = harmless_json(json.dumps(text, ensure_ascii=False))
    assert json.loads(written) == text
    assert not re.search(r"##(\[|vso|teamcity)", written)


@given(st.text())
def test_no_control_character_is_left_but_line_ends_and_tabs(text: str) -> None:
    assert not [c for c in harmless(text) if unicodedata.category(c) in ESCAPED and c not in "\n\t"]


@given(st.text())
def test_a_line_stays_one_line(text: str) -> None:
    assert len(harmless_line(text).splitlines()) <= 1


@given(st.text(st.characters(exclude_categories=["C", "Z"])))
def test_plain_text_is_left_as_it_is(text: str) -> None:
    assume(not text.startswith("::") and "##" not in text)
    assert harmless(text) == harmless_line(text) == text


def test_what_a_terminal_would_obey_is_shown_as_an_escape() -> None:
    assert harmless("\x1b]0;title\x07") == r"\x1b]0;title\x07"
    assert harmless("\x9b31m\r\b\x7f") == r"\x9b31m\x0d\x08\x7f"
    assert harmless("abc\u202efdp.exe\u2066") == r"abc\u202efdp.exe\u2066"
    assert harmless_line("saved a\nsaved b\t") == r"saved a\x0asaved b\x09"


@given(
    st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)
)
def test_json_keeps_its_value_and_loses_what_a_terminal_would_obey(value: object) -> None:
    text = harmless_json(json.dumps(value, ensure_ascii=False, indent=2))
    assert json.loads(text) == value
    assert harmless(text) == text


def test_json_keeps_what_people_can_read() -> None:
    assert harmless_json('"naïve \x9b31m\x7f €\u202e"') == r'"naïve \u009b31m\u007f €\u202e"'


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1))
def test_columns_stand_below_each_other_and_no_line_ends_in_spaces(rows: list[tuple[str, str, str]]) -> None:
    lines = aligned(rows)
    starts = {cell_len(line) - cell_len(last) for line, (_, _, last) in zip(lines, rows, strict=True)}
    assert len(starts) == 1
    assert all(line == line.rstrip() for line in lines)


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1), st.integers(1, 30))
def test_a_line_is_cut_to_the_width_and_says_so(rows: list[tuple[str, str]], width: int) -> None:
    for line, whole in zip(aligned(rows, width=width), aligned(rows), strict=True):
        assert cell_len(line) <= width
        assert line == whole or line.endswith("…")


def test_no_rows_are_no_lines() -> None:
    assert aligned([]) == []

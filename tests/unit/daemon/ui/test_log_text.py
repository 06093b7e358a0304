"""Output on a page has nothing that only a terminal obeys, and no text that reads as other text."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.daemon.ui.views.log_text import page_line, page_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("1%\r2%\r\n", "1%\n2%\n"),
        ("a\u202egpj.exe", "a\N{REPLACEMENT CHARACTER}gpj.exe"),
        ("tab\tline\n", "tab\tline\n"),
        ("<script>", "<script>"),
    ],
)
def test_a_text_keeps_what_can_be_read(text: str, expected: str) -> None:
    assert page_text(text) == expected


@given(st.text(max_size=200))
def test_no_control_character_is_left(text: str) -> None:
    shown = page_text(text)
    assert not [sign for sign in shown if unicodedata.category(sign) == "Cc" and sign not in "\n\t"]


def test_a_name_is_one_line() -> None:
    assert page_line("a\nb\tc") == "a b c"

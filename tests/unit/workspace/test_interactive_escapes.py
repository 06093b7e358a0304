"""Plain text of what was meant for a terminal."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.workspace.interactive.escapes import plain


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain\tgrüße ☃", "plain\tgrüße ☃"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[38;2;1;2;3mx\x1b[m\x1b[?25l\x1b[?2004h>>> ", "x>>> "),
        ("\x1b]0;title\x07ok", "ok"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\x1b(Bb\x1b=c\x1b7d\x1bMe", "abcde"),
        ("cut off\x1b[1;3", "cut off1;3"),
        ("cut off\x1b]0;title", "cut off"),
        ("cut off\x1b", "cut off"),
        (" 10%\r 20%\r100%", "100%"),
        ("long line\rshort", "shortline"),
        ("long line\r\x1b[Kshort", "short"),
        ("long line\x1b[2K\rok", "ok"),
        ("ab\x1b[2Kc", "  c"),
        ("abcd\b\b\x1b[1Kx", "  xd"),
        ("passx\b \bword", "password"),
        ("\b\b\bx", "x"),
        ("bell\x07 nul\x00 del\x7f c1\x9bm", "bell nul del c1m"),
        ("one\r\ntwo\x1b[31m\nthree", "one\ntwo\nthree"),
        ("\x1b[2J\x1b[H\x1b[10;20Hcell", "cell"),
    ],
)
def test_a_text_is_shown_as_a_terminal_would(raw: str, shown: str) -> None:
    assert plain(raw) == shown


@given(st.text(st.sampled_from("ab\x1b[]0;1mKH\x07\r\b\n\t\\☃\x9b"), max_size=80))
def test_nothing_that_steers_a_terminal_is_left_and_a_second_time_changes_nothing(raw: str) -> None:
    shown = plain(raw)
    assert not any(ord(char) < 32 and char not in "\n\t" for char in shown)
    assert not any(0x7F <= ord(char) < 0xA0 for char in shown)
    assert plain(shown) == shown
    assert shown.count("\n") == raw.count("\n")


@pytest.mark.parametrize(
    "piece", ["\x1b[", "\x1b]", "\x1b]0;\x1b", "\x1b[2K\b", "x\r", "\x1b[1K", "abc\x1b[K"]
)
def test_a_hostile_line_takes_no_more_time_than_a_long_one(piece: str) -> None:
    started = time.process_time()
    plain(piece * (16 * 1024 // len(piece)))
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize(
    "line",
    [
        "x" * 8_000 + "\x1b[1K" * 2_000,
        "x" * 4_000 + "y\x1b[2K" * 3_000,
        "x" * 8_000 + "\ry" * 4_000,
        "x" * 8_000 + "\b" * 8_000,
        "\x1b" * 16_000,
        "\x1b[1;1" * 3_200,
        "\x1b]" * 8_000,
    ],
)
def test_no_line_takes_long(line: str) -> None:
    started = time.process_time()
    for _ in range(16):
        plain(line)
    # As many as are read at once: 0.1 s on a quiet machine, 2 s for the first one before its erasures had a bound.
    assert time.process_time() - started < 0.8


def test_progress_that_is_drawn_a_thousand_times_is_shown_as_it_ends() -> None:
    assert plain("".join(f"\r\x1b[K{n} of 1000" for n in range(1001))) == "1000 of 1000"
    assert plain("".join(f"\r\x1b[2K{n} of 1000" for n in range(1001))) == "1000 of 1000"

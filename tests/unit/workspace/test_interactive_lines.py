"""Lines: however the stream is cut, the last of them are kept and all are counted."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.workspace.interactive.lines import MAX_LINE_CHARACTERS, READ_CHARACTERS, LineBuffer

if TYPE_CHECKING:
    from collections.abc import Iterable


def fed(pieces: Iterable[bytes], **bounds: int) -> LineBuffer:
    buffer = LineBuffer(**bounds)
    for piece in pieces:
        buffer.feed(piece)
    return buffer


def test_lines_are_numbered_from_0_and_the_unended_one_is_no_part_of_the_count() -> None:
    got = fed([b"one\ntwo\nthr"]).read(0, 40)
    assert (got.lines, got.partial, got.offset, got.next_offset) == (("one", "two"), "thr", 0, 2)
    assert got.text == "one\ntwo\nthr"


def test_reading_goes_on_where_it_ended_and_the_unended_line_comes_again_whole() -> None:
    buffer = fed([b"one\ntw"])
    first = buffer.read(0, 40)
    buffer.feed(b"o\n")
    assert buffer.read(first.next_offset, 40).text == "two\n"


def test_no_more_lines_than_asked_for_and_what_is_left_is_said() -> None:
    buffer = fed([b"a\nb\nc\nd"])
    got = buffer.read(0, 2)
    assert (got.lines, got.partial, got.next_offset, got.left) == (("a", "b"), "", 2, 1)
    got = buffer.read(got.next_offset, 2)
    assert (got.lines, got.partial, got.left) == (("c",), "d", 0)


@pytest.mark.parametrize("limit", [1000, 10**400])
def test_no_more_characters_than_are_read_at_once_and_what_is_left_is_said(limit: int) -> None:
    buffer = LineBuffer()
    buffer.feed((b"x" * 9_999 + b"\n") * 100 + b"end")
    first = buffer.read(0, limit)
    assert (len(first.lines), first.left, first.partial) == (READ_CHARACTERS // 10_000, 74, "")
    count, offset = 0, 0
    while (lines := buffer.read(offset, limit)).lines:
        count, offset = count + len(lines.lines), lines.next_offset
        assert bool(lines.partial) is not bool(lines.left)
    assert count == 100


def test_every_line_end_of_a_terminal_is_one() -> None:
    assert fed([b"a\r\nb\r\r\nc\n\r\n"]).read(0, 9).lines == ("a", "b", "c", "")


def test_a_carriage_return_within_a_line_stays() -> None:
    assert fed([b" 10%\r 20%\r\n"]).read(0, 9).lines == (" 10%\r 20%",)


def test_a_carriage_return_at_the_end_may_be_half_of_a_line_end() -> None:
    buffer = fed([b"a\r"])
    assert buffer.read(0, 9).partial == "a"
    buffer.feed(b"\nb")
    assert buffer.read(0, 9).text == "a\nb"


def test_the_oldest_lines_go_and_the_numbers_go_on() -> None:
    buffer = fed([b"%d\n" % n for n in range(100)], max_lines=10)
    got = buffer.read(0, 3)
    assert (got.lines, got.offset, got.next_offset, got.dropped, got.left) == (
        ("90", "91", "92"),
        90,
        93,
        90,
        7,
    )
    assert buffer.read(95, 99).dropped == 0


def test_what_is_kept_is_bounded_in_characters_too() -> None:
    buffer = fed([b"x" * 99 + b"\n"] * 1000, max_characters=1000)
    assert (buffer.first, buffer.next) == (990, 1000)


def test_a_line_without_end_is_cut_into_several() -> None:
    buffer = fed([b"x" * 4096] * 50)
    got = buffer.read(0, 1000)
    assert len(got.text.replace("\n", "")) == 204_800
    assert max(map(len, got.lines)) == MAX_LINE_CHARACTERS
    assert len(got.partial) <= MAX_LINE_CHARACTERS + 1


def test_what_is_no_text_is_replaced_and_a_cut_character_waits_for_its_end() -> None:
    snow = "\N{SNOWMAN}".encode()
    buffer = fed([b"\xff" + snow[:1]])
    assert buffer.partial == "\N{REPLACEMENT CHARACTER}"
    buffer.feed(snow[1:])
    assert buffer.partial == "\N{REPLACEMENT CHARACTER}\N{SNOWMAN}"
    buffer.feed(snow[:2])
    buffer.feed(b"", final=True)
    assert buffer.partial.endswith("\N{REPLACEMENT CHARACTER}")


def test_an_offset_that_is_not_there_is_moved_to_one_that_is() -> None:
    buffer = fed([b"a\nb\n"])
    assert buffer.read(99, 5).offset == 2
    assert buffer.read(-5, 5).lines == ("a", "b")
    assert buffer.read(0, -1).lines == ()


@given(st.text(st.sampled_from("ab\r\né☃"), max_size=60), st.lists(st.integers(0, 120), max_size=8))
def test_the_lines_are_the_same_however_the_stream_is_cut(text: str, cuts: list[int]) -> None:
    data = text.encode()
    ends = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(ends)]
    whole, cut = fed([data]).read(0, 999), fed(pieces).read(0, 999)
    assert cut == whole
    assert cut.text.count("\n") == text.count("\n")


@given(
    st.lists(st.binary(max_size=40) | st.just(b"\n" * 7) | st.just(b"y" * 40_000), max_size=12),
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_whatever_comes_the_bounds_hold_and_every_line_is_read_once(
    pieces: list[bytes], limit: int, start: int
) -> None:
    buffer = fed(pieces, max_lines=20, max_characters=50_000)
    assert buffer.next - buffer.first <= 20
    got: list[str] = []
    offset = start
    while (lines := buffer.read(offset, limit + 1)).lines:
        assert lines.next_offset > lines.offset >= buffer.first
        got += lines.lines
        offset = lines.next_offset
    assert offset == max(buffer.next, min(start, buffer.next)) or not got
    assert len(got) == max(buffer.next - max(start, buffer.first), 0)

"""Ranges as RFC 9110 has them, and file names that no header breaks at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.daemon.api.content import Readable, Span, disposition, span_of
from sandbox_skills.daemon.errors import RangeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.mark.parametrize(
    ("header", "span"),
    [
        (None, None),
        ("", None),
        ("bytes=", None),
        ("bytes=-", None),
        ("items=0-1", None),
        ("bytes=0-1,3-4", None),
        ("bytes=0-", Span(0, 10)),
        ("bytes=0-0", Span(0, 1)),
        ("bytes=9-99", Span(9, 1)),
        ("bytes=-3", Span(7, 3)),
        ("bytes=-99", Span(0, 10)),
    ],
)
def test_a_range_is_read_as_the_standard_has_it(header: str | None, span: Span | None) -> None:
    assert span_of(header, 10) == span


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=10-12", "bytes=5-4", "bytes=-0"])
def test_a_range_that_is_not_there_is_told_with_the_size(header: str) -> None:
    with pytest.raises(RangeError) as caught:
        span_of(header, 10)
    assert caught.value.size == 10


def test_nothing_has_no_range() -> None:
    with pytest.raises(RangeError):
        span_of("bytes=0-", 0)


@given(st.text())
def test_a_name_stays_one_line_of_plain_characters(name: str) -> None:
    header = disposition(name.encode(errors="replace").decode())
    assert header.isascii()
    assert header.isprintable()
    assert header.count('"') == 2


@pytest.mark.anyio
@pytest.mark.parametrize("cut", [1, 3, 10])
async def test_a_span_is_cut_out_of_chunks_of_any_size(cut: int) -> None:
    data = b"0123456789"

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(data), cut):
            yield data[start : start + cut]

    for start in range(10):
        for length in range(1, 11 - start):
            readable = Readable(10, pieces())
            got = b"".join([piece async for piece in readable.read(Span(start, length))])
            assert got == data[start : start + length]

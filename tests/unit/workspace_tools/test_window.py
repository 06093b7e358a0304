"""Output shown as head and tail around a mark."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.toolsets.workspace_tools.window import OutputWindow, windowed


def test_head_and_tail_stand_around_a_mark_and_all_bytes_are_counted() -> None:
    text = "HEAD!" + "x" * 1000 + "!TAIL"
    shown = windowed(text, 40)
    assert shown.text == "HEAD!xxx\n[1010 bytes, cut here]\nxxx!TAIL"
    assert (shown.total_bytes, shown.truncated) == (1010, True)


def test_a_cap_below_the_mark_leaves_the_beginning() -> None:
    assert windowed("€€€€€€€€€€", 8).text == "€€"
    assert windowed("x" * 100, 1).text == "x"


def test_what_fits_is_whole() -> None:
    assert windowed("hello", 5) == windowed("hello", 6)
    assert windowed("hello", 5).truncated is False


def test_standard_error_stands_behind_standard_output() -> None:
    window = OutputWindow(100)
    window("stderr", b"bad")
    window("stdout", b"good ")
    assert window.shown().text == "good bad"


@given(
    st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.text(max_size=30)), max_size=30),
    st.integers(1, 90),
)
def test_a_stream_that_comes_in_pieces_is_shown_as_its_text_would_be(
    pieces: list[tuple[str, str]], cap: int
) -> None:
    window = OutputWindow(cap)
    streams = {"stdout": "", "stderr": ""}
    for stream, text in pieces:
        window(stream, text.encode())  # type: ignore[arg-type]  # one of the two
        streams[stream] += text
    whole = streams["stdout"] + streams["stderr"]
    shown = window.shown()
    assert shown == windowed(whole, cap)
    assert shown.total_bytes == len(whole.encode())
    assert len(shown.text.encode()) <= cap


@given(st.binary(max_size=300), st.integers(1, 100))
def test_bytes_that_are_no_text_are_left_out(data: bytes, cap: int) -> None:
    window = OutputWindow(cap)
    window("stdout", data)
    shown = window.shown()
    assert shown.total_bytes == len(data)
    assert len(shown.text.encode()) <= cap

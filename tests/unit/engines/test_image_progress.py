from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.engines.image.progress import TAIL_LINES, Tail, run_tool
from sandbox_skills.errors import ImageError


def test_lines_are_passed_on_without_blanks_and_control_characters() -> None:
    seen: list[str] = []
    Tail(seen.append).feed("a\r\n\n  \n\x1b[31mred\x1b[0m\x07\r50%\r100%\n")
    assert seen == ["a", "red", "50%", "100%"]


@given(st.text())
def test_no_text_gets_a_control_character_through(text: str) -> None:
    seen: list[str] = []
    Tail(seen.append).feed(text)
    assert not any(ord(char) < 32 and char != "\t" for line in seen for char in line)


def test_a_failure_tells_the_last_lines_only() -> None:
    tail = Tail(lambda _: None)
    tail.feed("\n".join(f"line {number}" for number in range(100)))
    lines = tail.failure("it broke").message.splitlines()
    assert lines == ["it broke", *(f"line {number}" for number in range(100 - TAIL_LINES, 100))]


def test_a_tool_that_fails_raises_what_it_said() -> None:
    seen: list[str] = []
    with pytest.raises(ImageError, match=r"exit code 3\nout\nerr"):
        run_tool(
            [
                sys.executable,
                "-c",
                "import sys; print('out', flush=True); sys.exit(print('err', file=sys.stderr) or 3)",
            ],
            seen.append,
        )
    assert seen == ["out", "err"]


def test_a_tool_that_works_is_quiet_about_it() -> None:
    run_tool([sys.executable, "-c", "pass"], pytest.fail)

from __future__ import annotations

import pytest

from sandbox_skills.catalog import parse_allowed_tools

CASES: dict[str | None, tuple[str, ...]] = {
    None: (),
    "": (),
    " , ,": (),
    "Read": ("Read",),
    "Read Write": ("Read", "Write"),
    "Read,Write, Grep": ("Read", "Write", "Grep"),
    "Bash(git:*)": ("Bash(git:*)",),
    "Read, Bash(git add *, git diff *), Grep": ("Read", "Bash(git add *, git diff *)", "Grep"),
    "Bash(echo (a b) c) Read": ("Bash(echo (a b) c)", "Read"),
    "Bash(git add, Read": ("Bash(git add, Read",),
    "a) b": ("a)", "b"),
    "*": ("*",),
}


@pytest.mark.parametrize(("raw", "tokens"), CASES.items())
def test_separators_inside_parentheses_do_not_separate(raw: str | None, tokens: tuple[str, ...]) -> None:
    assert parse_allowed_tools(raw) == tokens

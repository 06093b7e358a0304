"""Argument lists that no program could be given are refused; what a skill has is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.errors import CommandError
from sandbox_skills.workspace.commands import (
    MAX_COMMAND_BYTES,
    MAX_NAMED,
    MAX_WORD_BYTES,
    check_words,
    scripts_hint,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("words", [(), ("",), (" \t",)])
def test_an_empty_command_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match="empty"):
        check_words(words)


@pytest.mark.parametrize(("word", "reason"), [("a\0b", "NUL"), ("\udcff", "not UTF-8")])
def test_what_is_no_argument_is_refused_wherever_it_stands(word: str, reason: str) -> None:
    for words in ((word,), ("echo", word), ("echo", "fine", word)):
        with pytest.raises(CommandError, match=reason):
            check_words(words)


def test_arguments_have_the_lengths_that_linux_takes() -> None:
    longest = "x" * MAX_WORD_BYTES
    check_words(("echo", longest))
    check_words(("echo", *["x" * 1023] * 1023))
    with pytest.raises(CommandError, match="longer than 131071") as raised:
        check_words(("echo", longest + "x"))
    assert "standard input" in raised.value.hint
    with pytest.raises(CommandError, match=f"more than {MAX_COMMAND_BYTES}"):
        check_words((longest,) * 9)
    with pytest.raises(CommandError):
        check_words(("\N{SNOWMAN}" * (MAX_WORD_BYTES // 3 + 1),))


@given(st.lists(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"))))
def test_all_other_text_is_an_argument(words: list[str]) -> None:
    check_words(("echo", *words))


def test_a_hint_names_the_scripts_most_like_the_one_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    for name in ("scripts/fib.py", "scripts/sum.py", "scripts/tool", "top.sh", "SKILL.md", "data.csv"):
        (tmp_path / name).touch()
    hint = scripts_hint(tmp_path, "scripts/fibs.py")
    assert hint.startswith("the skill has 'scripts/fib.py', ")
    assert sorted(hint.removeprefix("the skill has ").split(", ")) == [
        *("'scripts/fib.py'", "'scripts/sum.py'", "'scripts/tool'", "'top.sh'"),
    ]


def test_a_hint_names_few_scripts_and_says_that_there_are_more(tmp_path: Path) -> None:
    for index in range(MAX_NAMED + 1):
        (tmp_path / f"{index}.py").touch()
    assert scripts_hint(tmp_path, "x.py").count(".py") == MAX_NAMED
    assert scripts_hint(tmp_path, "x.py").endswith(", …")


def test_a_skill_without_scripts_is_said_to_have_none(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").touch()
    (tmp_path / "out").symlink_to("/workspace/out")
    assert scripts_hint(tmp_path, "x.py") == "the skill has no scripts"

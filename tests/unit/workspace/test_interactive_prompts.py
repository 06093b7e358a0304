"""The rules by which a program seems to wait for an answer, one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.workspace.interactive.prompts import HINT_CHARACTERS, Interaction, detect


def kind(text: str) -> str | None:
    *lines, partial = text.split("\n")
    found = detect(lines, partial)
    return found.kind if found else None


@pytest.mark.parametrize(
    "text",
    [
        "Enter the number of your choice",
        "Please select an option",
        "Choose 1-3",
        "pick one item",
        "Enter a number between 1 to 5:",
        "Your choice? ",
        "Make a selection: ",
        "1) one\n2) two\nChoose: ",
        "1. one\n2. two\n",
        "  [1] one\n  [2] two\n\nWhich? ",
        "(1) one\n(2) two\nWhich one",
        "1) apple\n2) pear\n#? ",
        "loading\n1) one\n2) two\n\n\n",
    ],
)
def test_a_menu_or_the_wish_for_a_number_is_a_selection(text: str) -> None:
    assert kind(text) == "selection"


@pytest.mark.parametrize(
    "text",
    [
        "Name: ",
        "Name:\n",
        "Continue?",
        "Continue?\n\n",
        "Password:",
        "Overwrite? [y/N] ",
        "Proceed (yes/no) ",
        "Press Enter to continue...",
        "Hit any key",
        "press [RETURN]",
        "Type the word",
        ">>> ",
        "...   ",
        "In [1]: ",
        "user@box:~$ ",
        "root# ",
        "% ",
        "sqlite> ",
        "(1) one\n(2) two\n>",
        "(Pdb) who?",
        "1. only one\nName: ",
        "Type 'yes' to confirm",
        "Please type the name of the branch\n",
        "To go on, press Enter\n",
        "Type a word, or type q to quit: ",
        "Press any key to exit...",
        "[root@box ~]# ",
        "=> ",
        "(gdb) ",
        "(Pdb) ",
    ],
)
def test_a_question_is_a_prompt(text: str) -> None:
    assert kind(text) == "prompt"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n  \n",
        "working",
        "done.\n",
        "50%\n",
        "50%",
        "total: 5\n",
        "cost $\n",
        "a > b\nnothing",
        "1. one step\nworking on it",
        "Name: \nthanks",
        "typed nothing",
        "content type text/html",
        "TypeError: unsupported operand type(s) for +\n",
        "reading input file, item 3\n",
        "Downloading...",
        "[=======>",
        "########",
    ],
)
def test_anything_else_is_neither(text: str) -> None:
    assert kind(text) is None


GREETINGS = (
    'Type "help", "copyright", "credits" or "license" for more information.',
    "Type 'copyright', 'credits' or 'license' for more information",
    'Type ".help" for more information.',
    'Enter ".help" for usage hints.',
    'Type "help" for help.',
    "Type 'help;' or '\\h' for help. Type '\\c' to clear the current input statement.",
    'Type "apropos word" to search for commands related to "word".',
    "Type 'q()' to quit R.",
    "For details type `warranty'.",
    "Type help() for interactive help, or help(object) for help about object.",
    "(Press CTRL+C to quit)",
    "To exit, press Ctrl+C again or Ctrl+D or type .exit",
)


@pytest.mark.parametrize("text", GREETINGS)
def test_a_greeting_that_names_commands_asks_for_nothing(text: str) -> None:
    assert kind(f"Interpreter 1.0\n{text}\n") is None
    assert kind(f"Interpreter 1.0\n{text}\n> ") == "prompt"


def test_a_menu_that_has_scrolled_away_is_none() -> None:
    assert kind("1) one\n2) two\n" + "line\n" * 20 + "working") is None


def test_an_interpreter_below_a_list_is_a_prompt() -> None:
    assert kind("1. one\n2. two\n>>> ") == "prompt"


def test_the_hint_is_the_line_that_asks() -> None:
    assert detect(["Hello", "  What is your name?  "], "") == Interaction("prompt", "What is your name?")
    found = detect([], "x" * 1000 + "?")
    assert found is not None
    assert len(found.hint) == HINT_CHARACTERS
    assert found.as_dict() == {"needs_input": True, "kind": "prompt", "hint": "x" * HINT_CHARACTERS}


@given(st.lists(st.text(max_size=30), max_size=30), st.text(max_size=30))
def test_whatever_was_printed_it_answers(lines: list[str], partial: str) -> None:
    found = detect(lines, partial)
    assert found is None or found.hint

"""Command lines that a policy can judge: read here as bash reads them, or refused."""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sandbox_skills.policy.command_line import MAX_BYTES, MAX_SEGMENTS, UnclearCommandError, segments_of

if TYPE_CHECKING:
    from pathlib import Path

HANDLER = 'command_not_found_handle() { printf "%s\\0" "$@" "END OF ONE" >&3; return "$STATUS"; }\n'
"""What bash calls for a program that is not there: every one, since nothing is in PATH."""

PIECES = [
    *(
        "a",
        "b",
        "c d",
        "a",
        "b",
        " ",
        " ",
        " ",
        "\t",
        "\n",
        "\r",
        "\x0b",
        "é",
        "\u00a0",
        "-x",
        "=",
        "a=b",
        "+=",
        "%1",
    ),
    *(
        "'",
        '"',
        "\\",
        "''",
        '""',
        "'x y'",
        '"x y"',
        "$",
        "$x",
        "$(a)",
        "$'a'",
        '$"a"',
        "`",
        "|",
        "||",
        "&&",
        ";",
        "&",
    ),
    *(
        "|&",
        ";;",
        "<",
        ">",
        "<<a",
        "(",
        ")",
        "()",
        "*",
        "?",
        "[",
        "]",
        "{",
        "}",
        "{a,b}",
        "~",
        "!",
        "#",
        "^",
        ",",
        "@",
    ),
    *("if", "then", "fi", "for", "time", "function", "coproc", "[[", "]]", ".", ":"),
]

BUILTINS = {".", ":", "["}
"""Programs that bash has itself, so that nobody is asked for them, and that end as they like."""


def read_by_bash(text: str, folder: Path) -> set[tuple[str, ...]]:
    """Returns what bash would start: a program behind && runs where all succeed, one behind || where all fail."""
    (folder / "handler").write_text(HANDLER)
    told = folder / "told"
    told.write_bytes(b"")
    for status in ("0", "1"):
        with told.open("ab") as out:
            subprocess.run(
                ["/bin/bash", "--norc", "-c", f"exec 3>&{out.fileno()}; {text}"],
                env={
                    "BASH_ENV": str(folder / "handler"),
                    "PATH": "/nowhere",
                    "STATUS": status,
                    "LANG": "C.UTF-8",
                },
                pass_fds=(out.fileno(),),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                cwd=folder,
            )
    found = os.fsdecode(told.read_bytes()).split("\0END OF ONE\0")
    return {tuple(one.split("\0")) for one in found[:-1]}


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.lists(st.sampled_from(PIECES), min_size=1, max_size=8).map("".join))
def test_what_is_admitted_bash_reads_in_the_same_way(text: str, tmp_path: Path) -> None:
    try:
        segments = segments_of(text)
    except UnclearCommandError:
        return
    assume(not any(one[0] in BUILTINS for one in segments))
    assert set(segments) == read_by_bash(text, tmp_path)


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1))
def test_an_argument_list_is_read_back_as_it_was(words: list[str]) -> None:
    words = ["program", *words]
    assert segments_of(shlex.join(words)) == (tuple(words),)


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("echo ok", [("echo", "ok")]),
        (r"echo hi\ there", [("echo", "hi there")]),
        ("echo a b | wc -w", [("echo", "a", "b"), ("wc", "-w")]),
        ("a&&b||c;d|e", [("a",), ("b",), ("c",), ("d",), ("e",)]),
        ("""echo "it's" 'say "x"' a'b'"c" """, [("echo", "it's", 'say "x"', "abc")]),
        (r'echo "a\"b\\c\d"', [("echo", r"a\"b\c\d".replace(r"\"", '"'))]),
        ("awk '{print $1}'", [("awk", "{print $1}")]),
        ("echo '' --opt=x", [("echo", "", "--opt=x")]),
    ],
)
def test_plain_words_quotes_and_four_operators_are_read(text: str, segments: list[tuple[str, ...]]) -> None:
    assert segments_of(text) == tuple(segments)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('echo "a', "quote is not closed"),
        ("echo 'a", "quote is not closed"),
        ("echo a\\", "backslash stands at the end"),
        ("echo a\\\nb", "backslash"),
        ("echo $HOME", "single quotes"),
        ('echo "$HOME"', "quote is not closed, or \\$"),
        ("echo `id`", "within a command"),
        ("echo $(id)", "single quotes"),
        ("echo a > b", "redirections"),
        ("cat < b", "redirections"),
        ("ls *", "patterns"),
        ("ls ~", "patterns"),
        ("(ls)", "subshells"),
        ("f() { ls; }", "subshells"),
        ("sleep 1 &", "background"),
        ("a |& b", "operator"),
        ("a ;; b", "operator"),
        ("ls # all", "comments"),
        ("ls\nid", "several lines"),
        ("ls\rid", "several lines"),
        ("! ls", "negations"),
        ("if a", "control flow"),
        ("time ls", "control flow"),
        ("VAR=1 ls", "variables"),
        ("PATH+=x ls", "variables"),
        ("'A=1' ls", "variables"),
        ("ls ;", "names no program"),
        ("", "names no program"),
        ("'' x", "names no program"),
        ("a | | b", "names no program"),
        ("%1", "jobs"),
        ("a\0b", "NUL"),
        ("a\u00a0b", "ASCII"),
        ("a" * (MAX_BYTES + 1), "longer than 16 KiB"),
        (";".join("a" * (MAX_SEGMENTS + 1)), "more than 32 parts"),
    ],
)
def test_what_cannot_be_judged_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(UnclearCommandError, match=why):
        segments_of(text)

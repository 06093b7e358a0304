"""Output patterns: many spellings, one glob below the workspace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.errors import PathEscapeError, PatternError
from sandbox_skills.workspace.layout import WORKSPACE_VARIABLES
from sandbox_skills.workspace.patterns import MAX_PATTERN, expand_braces, parse_pattern, parse_patterns

pattern_text = st.one_of(
    st.text(),
    st.lists(
        st.sampled_from(
            [
                *("/", "/", "/", "..", ".", "*", "**", "?", "[", "]", "!", "{", ",", "}", "$", "a", "b"),
                *("${", "OUTPUT_DIR", "WORK_DIR", "/workspace", " ", "\\"),
            ]
        ),
        max_size=25,
    ).map("".join),
)


@given(pattern_text)
def test_a_pattern_is_below_the_workspace_or_refused(text: str) -> None:
    try:
        globs = parse_patterns([text])
    except (PatternError, PathEscapeError):
        return
    for glob in globs:
        assert not glob.startswith("/")
        assert all(segment not in {"", ".", ".."} for segment in glob.split("/"))
        assert len(glob) <= MAX_PATTERN


@given(pattern_text.filter(lambda text: "$" not in text))
def test_a_parsed_pattern_stays_as_it_is(text: str) -> None:
    try:
        glob = parse_pattern(text)
    except (PatternError, PathEscapeError):
        return
    if glob == glob.strip():
        assert parse_pattern(glob) == glob


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("out/*.txt", "out/*.txt"),
        (" ./out//*.txt ", "out/*.txt"),
        ("/workspace/out/**", "out/**"),
        ("$OUTPUT_DIR/a.txt", "out/a.txt"),
        ("$OUTPUT_DIR", "out"),
        ("${WORK_DIR}/x/**", "work/x/**"),
        ("$WORKSPACE_DIR/out/b", "out/b"),
        ("$SKILLS_DIR/x", "skills/x"),
        ("$UNKNOWN/d", "$UNKNOWN/d"),
        ("$OUTPUT_DIRX/a", "$OUTPUT_DIRX/a"),
        ("${OUTPUT_DIR}X/a", "${OUTPUT_DIR}X/a"),
        ("x/$OUTPUT_DIR", "x/$OUTPUT_DIR"),
        ("/workspace", "."),
        (".", "."),
        ("out/", "out"),
        ("out/**/**/x", "out/**/x"),
        ("out/[]a]*[!]b]", "out/[]a]*[!]b]"),
        ("out/*[a]*", "out/*[a]*"),
        ("out/[**]", "out/[**]"),
        ("out/.hidden", "out/.hidden"),
        ("out/..x", "out/..x"),
    ],
)
def test_every_spelling_becomes_one_glob(text: str, expected: str) -> None:
    assert parse_pattern(text) == expected


def test_the_run_directory_comes_from_the_caller() -> None:
    variables = {**WORKSPACE_VARIABLES, "RUN_DIR": "/workspace/runs/7"}
    assert parse_patterns(["$RUN_DIR/*.log"], variables=variables) == ("runs/7/*.log",)


@pytest.mark.parametrize(
    "text",
    ["../x", "out/../x", "$OUTPUT_DIR/../../x", "/etc/*", "/workspacex/a", "/out/x", "${WORK_DIR}/..", "/*"],
)
def test_what_leaves_the_workspace_is_refused(text: str) -> None:
    with pytest.raises(PathEscapeError):
        parse_pattern(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("x" * 1025, "longer than 1024"),
        ("a\0", "NUL"),
        ("a\\*", "backslash"),
        ("\ud800", "UTF-8"),
        ("out/[a", "without its"),
        ("out/[a/b]", "without its"),
        ("out/[]", "without its"),
        ("out/[!]", "without its"),
        ("out/**.txt", "beside other characters"),
        ("out/***", "beside other characters"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(PatternError, match=why):
        parse_pattern(text)


def test_blanks_the_workspace_and_repeats_stand_for_nothing() -> None:
    assert parse_patterns(["", " ", ".", "out/a", "/workspace/out/a", "b"]) == ("out/a", "b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("out/*.{csv,json}", ("out/*.csv", "out/*.json")),
        ("{a,b}{1,2}", ("a1", "a2", "b1", "b2")),
        ("{a,{b,c}d}", ("a", "bd", "cd")),
        ("a{,.bak}", ("a", "a.bak")),
        ("{a}", ("{a}",)),
        ("{}", ("{}",)),
        ("{a,b", ("{a,b",)),
        ("a,b}", ("a,b}",)),
        ("{x{a,b}", ("{xa", "{xb")),
        ("{{a,b},c}", ("a", "b", "c")),
        ("${WORK_DIR}/{a,b}", ("${WORK_DIR}/a", "${WORK_DIR}/b")),
        ("{${WORK_DIR},out}/a", ("${WORK_DIR}/a", "out/a")),
        ("${a", ("${a",)),
    ],
)
def test_braces_are_expanded_as_a_shell_does(text: str, expected: tuple[str, ...]) -> None:
    assert expand_braces(text) == expected


@pytest.mark.parametrize(
    "text", ["{a,b}" * 7, "{a" + ",a" * 64 + "}", "{a," * 100 + "a" + "}" * 100, "{,}" * 300]
)
def test_braces_do_not_multiply_without_bound(text: str) -> None:
    with pytest.raises(PatternError, match="more than 64"):
        expand_braces(text)


def test_sixty_four_alternatives_are_fine() -> None:
    assert len(parse_patterns(["{a,b}" * 6])) == 64

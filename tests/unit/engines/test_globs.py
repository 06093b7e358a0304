"""Patterns: against a reference that tries everything, and against the runner's own reading."""

from __future__ import annotations

import importlib.util
import time
from functools import cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sandbox_skills.engines.globs import Glob
from sandbox_skills.errors import PathEscapeError, PatternError
from tests.programs import RUNNER

if TYPE_CHECKING:
    from types import ModuleType


@cache
def runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("runner_patterns", RUNNER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def runner_matches(pattern: str, path: str) -> bool:
    """As the runner finds a file: `advance` goes down to its directory, where `last_name` tells."""
    states = {runner().compile_pattern(pattern)}
    *above, name = path.split("/")
    for folder in above:
        states = runner().advance(states, folder)
    found = bool(runner().last_name(states)(name))
    assert found is (() in runner().advance(states, name))
    return found


# The reference: a set of members for each character, and recursion over all that a star may take.

Piece = tuple[bool, frozenset[str]] | None
"""Negated or not, and the members; None is a star."""


def pieces(text: str) -> tuple[Piece, ...]:
    if not text:
        return ()
    if text[0] == "*":
        return (None, *pieces(text[1:]))
    if text[0] == "?":
        return ((True, frozenset()), *pieces(text[1:]))
    if text[0] == "[":
        negated = text[1:2] == "!"
        start = 1 + negated
        end = text.find("]", start + 1)
        if end > 0:
            return ((negated, members(text[start:end])), *pieces(text[end + 1 :]))
    return ((False, frozenset(text[0])), *pieces(text[1:]))


def members(body: str) -> frozenset[str]:
    if body[1:2] == "-" and len(body) > 2:
        return frozenset(map(chr, range(ord(body[0]), ord(body[2]) + 1))) | members(body[3:])
    return frozenset(body[:1]) | members(body[1:]) if body else frozenset()


def name_matches(wanted: tuple[Piece, ...], name: str) -> bool:
    if not wanted:
        return not name
    if wanted[0] is None:
        return name_matches(wanted[1:], name) or bool(name and name_matches(wanted, name[1:]))
    negated, characters = wanted[0]
    return bool(name) and (name[0] in characters) != negated and name_matches(wanted[1:], name[1:])


def naive(pattern: list[str], path: list[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        if len(pattern) == 1:
            return bool(path)
        return naive(pattern[1:], path) or bool(path and naive(pattern, path[1:]))
    return bool(path) and name_matches(pieces(pattern[0]), path[0]) and naive(pattern[1:], path[1:])


atoms = st.sampled_from(
    ["a", "b", "ab", ".", "-", "^", "\\", "*", "?", "[ab]", "[!a]", "[a-c]", "[]a]", "[", "]", "!", "\n"]
)
segment = st.one_of(st.just("**"), st.lists(atoms, min_size=1, max_size=5).map("".join))
patterns = st.lists(segment.filter(lambda text: text not in {".", ".."}), min_size=1, max_size=4).map(
    "/".join
)
names = st.text("abc.-^\\[]!*\n", min_size=1, max_size=5)
paths = st.lists(names, min_size=1, max_size=4).map("/".join)


def compiled(pattern: str) -> Glob | None:
    try:
        return Glob(pattern)
    except PatternError:
        return None


@settings(max_examples=500)
@given(patterns, paths)
@example("**/*a*b", "a/b/aab")
@example("*[]a]*", "x]y")
@example("[!]]", "]")
def test_a_glob_matches_what_the_reference_matches(pattern: str, path: str) -> None:
    glob = compiled(pattern)
    if glob is not None:
        assert glob.matches(path) == naive(pattern.split("/"), path.split("/"))


@settings(max_examples=500)
@given(st.one_of(patterns, st.text("ab/*?[]!-.\\", max_size=12)), paths)
def test_the_runner_reads_a_pattern_the_same(pattern: str, path: str) -> None:
    try:
        glob = Glob(pattern)
    except (PatternError, PathEscapeError):
        with pytest.raises(runner().Refused):
            runner().compile_pattern(pattern)
        return
    assert glob.matches(path) == runner_matches(pattern, path)


@pytest.mark.parametrize("pattern", ["", ".", "./", "[b-a]"])
def test_a_pattern_that_cannot_be_read_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        Glob(pattern)


@pytest.mark.parametrize("pattern", ["/out/*", "../*", "out/../../x", "**/.."])
def test_a_pattern_that_leaves_the_workspace_is_refused(pattern: str) -> None:
    with pytest.raises(PathEscapeError):
        Glob(pattern)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 100 + "b", "a" * 255),
        ("**/a/" * 60 + "b", "a/" * 79 + "a"),
        ("**/" * 200 + "b", "a/" * 79 + "a"),
    ],
)
def test_a_hostile_pair_costs_little(pattern: str, path: str) -> None:
    glob = Glob(pattern)
    started = time.process_time()
    assert not glob.matches(path)
    assert time.process_time() - started < 0.5

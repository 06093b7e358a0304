"""A problem becomes the error that it was on the server."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills import errors
from sandbox_skills.client.errors import ServerRefusedError, ServerUnavailableError
from sandbox_skills.client.problems import error_of, kinds
from sandbox_skills.errors import (
    ModelError,
    SandboxSkillsError,
    SkillChangedError,
    SkillLoadError,
    ToolCallError,
    Violation,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = f"{errors.__name__}."


def below(kind: type[SandboxSkillsError]) -> Iterator[type[SandboxSkillsError]]:
    for child in kind.__subclasses__():
        if child.__module__.startswith(HERE):
            yield child
            yield from below(child)


EVERY = sorted(below(SandboxSkillsError), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_every_error_of_the_tree_comes_back_by_its_code_and_is_whole(kind: type[SandboxSkillsError]) -> None:
    problem = {"code": kind.code, "detail": "why", "hint": "do", "title": "T", "status": 400}
    error = error_of(400, json.dumps(problem).encode())
    assert type(error) is kind
    assert (error.message, error.hint, str(error), error.code) == ("why", "do", "why", kind.code)
    made = {"message", "hint", *annotated(kind)}
    assert made <= set(vars(error)), "whoever catches it may look at what it knows"


def annotated(kind: type[SandboxSkillsError]) -> set[str]:
    """Returns the attributes that the constructor of an error sets."""
    names: set[str] = set()
    for base in kind.__mro__:
        if issubclass(base, SandboxSkillsError) and "__init__" in vars(base):
            names |= {
                name
                for name in base.__init__.__code__.co_names
                if name
                in {"near", "path", "violations", "tool", "added", "changed", "removed", "resumable", "lost"}
                or (
                    issubclass(base, ModelError)
                    and name in {"status", "retryable", "retry_after", "provider"}
                )
            }
    return names


def test_what_an_error_knows_besides_comes_along() -> None:
    violation = Violation("name", "is too long", 2, 7)
    errors_given = [{name: getattr(violation, name) for name in (one.name for one in fields(violation))}]
    loaded = error_of(
        422, json.dumps({"code": "skill_invalid", "detail": "no", "errors": errors_given}).encode()
    )
    assert isinstance(loaded, SkillLoadError)
    assert loaded.violations == (violation,)
    called = error_of(422, b'{"code": "tool_call_invalid", "tool": "x", "errors": ["no object"]}')
    assert isinstance(called, ToolCallError)
    assert (called.tool, called.violations) == ("x", ())
    changed = error_of(409, b'{"code": "skill_changed", "added": ["a", 1], "removed": "b"}')
    assert isinstance(changed, SkillChangedError)
    assert (changed.added, changed.changed, changed.removed) == (("a",), (), ())


def test_a_code_that_the_tree_does_not_have_stays_what_it_is() -> None:
    refused = error_of(410, b'{"code": "events_lost", "detail": "gone"}')
    assert isinstance(refused, ServerRefusedError)
    assert (refused.code, refused.status, refused.message) == ("events_lost", 410, "gone")
    failed = error_of(503, b'{"code": "draining", "detail": "later"}')
    assert isinstance(failed, ServerUnavailableError)
    assert (failed.code, failed.status) == ("draining", 503)


@pytest.mark.parametrize(("status", "kind"), [(418, ServerRefusedError), (502, ServerUnavailableError)])
def test_an_answer_of_something_between_is_told_by_its_status(
    status: int, kind: type[SandboxSkillsError]
) -> None:
    error = error_of(status, b"<html>Bad gateway</html>")
    assert type(error) is kind
    assert error.message == f"the server answers {status}"
    assert error.code == kind.code


def test_a_key_that_is_missing_is_told_with_what_to_do() -> None:
    assert "SANDBOX_SKILLS_SERVER__API_KEY" in error_of(401, b'{"detail": "no key"}').hint
    assert error_of(401, b'{"detail": "no key", "hint": "own"}').hint == "own"


def test_the_request_is_a_note_for_whoever_looks_into_the_servers_log() -> None:
    assert error_of(400, b'{"request_id": "01Q"}').__notes__ == ["request 01Q"]
    assert error_of(400, b"", "01H").__notes__ == ["request 01H"]
    assert not hasattr(error_of(400, b""), "__notes__")


def test_kinds_are_those_of_the_shared_tree_alone() -> None:
    assert set(kinds().values()) == set(EVERY)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["code", "detail", "title", "hint", "errors", "near", "tool", "request_id", "status", "path"]
)


@given(st.integers(400, 599), st.dictionaries(NAMES, JSON | st.sampled_from(sorted(kinds()))))
def test_whatever_a_server_says_is_an_error_that_can_be_told(status: int, problem: dict[str, object]) -> None:
    error = error_of(status, json.dumps(problem).encode())
    assert isinstance(error.message, str)
    assert isinstance(error.hint, str)
    assert error.code

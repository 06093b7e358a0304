"""Every error has a status, and every answer that is one has the same form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox_skills.client import errors as client_errors
from sandbox_skills.daemon import errors as daemon_errors
from sandbox_skills.daemon.api.problems import (
    STATUS,
    headers_of,
    problem_of,
    status_of,
)
from sandbox_skills.daemon.errors import (
    BodyError,
    DrainingError,
    KeyInvalidError,
    QueueFullError,
    RangeError,
    RateLimitedError,
)
from sandbox_skills.errors import EngineError, QuotaError, SandboxSkillsError, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

BASES = {"error"}
"""Codes that no error has which is ever raised."""


def codes(base: type[SandboxSkillsError]) -> Iterator[str]:
    yield base.code
    for kind in base.__subclasses__():
        # Those of the client are what a server's problems become.
        if kind.__module__.startswith("sandbox_skills.") and kind.__module__ != client_errors.__name__:
            yield from codes(kind)


def test_the_table_has_every_code_of_the_tree_and_no_other() -> None:
    assert daemon_errors.DatabaseError.code in STATUS
    assert set(STATUS) == set(codes(SandboxSkillsError)) - BASES


def test_what_the_caller_did_is_no_fault_of_the_server() -> None:
    for code, status in STATUS.items():
        assert 400 <= status < 600, code


def test_a_problem_tells_what_where_and_what_next() -> None:
    error = BodyError("no", [Violation("skill", "is missing")], hint="give one")
    problem = problem_of(error, request_id="r1")
    assert problem.model_dump() == {
        "type": "about:blank",
        "title": problem.title,
        "status": 422,
        "detail": "no",
        "code": "request_body_invalid",
        "hint": "give one",
        "request_id": "r1",
        "errors": [{"field": "skill", "message": "is missing"}],
    }


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (KeyInvalidError("x"), {"WWW-Authenticate": "Bearer"}),
        (QueueFullError("x", retry_after=1.2), {"Retry-After": "2"}),
        (DrainingError("x", retry_after=5), {"Retry-After": "5"}),
        (QuotaError("x"), {"Retry-After": "1"}),
        (RangeError("x", size=7), {"Content-Range": "bytes */7"}),
        (EngineError("x"), {}),
        (
            RateLimitedError("x", limit=10, remaining=0, reset=29.1, retry_after=2.9),
            {
                "Retry-After": "3",
                "RateLimit-Limit": "10",
                "RateLimit-Remaining": "0",
                "RateLimit-Reset": "30",
            },
        ),
    ],
)
def test_headers_say_when_and_how_to_come_again(error: SandboxSkillsError, headers: dict[str, str]) -> None:
    assert headers_of(error) == headers


def test_an_error_without_a_status_is_a_fault_of_ours() -> None:
    assert status_of(SandboxSkillsError("x")) == 500

"""problem+json (RFC 9457) → an error of the tree, by its code; one that the tree does not have keeps the code. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from sandbox_skills import errors
from sandbox_skills.client.errors import ServerRefusedError, ServerUnavailableError
from sandbox_skills.client.json_values import number_at, object_in, objects_of, text_at, texts_at
from sandbox_skills.errors import SandboxSkillsError, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sandbox_skills.client.json_values import JsonObject

SERVER_FAULT = 500
"""The lowest status of a fault that is the server's."""

_HINTS: Mapping[int, str] = {
    401: "Set server.api_key, or SANDBOX_SKILLS_SERVER__API_KEY, to a key of the server's.",
    403: "Ask for a key whose scopes allow it.",
}


def error_of(status: int, body: bytes, request_id: str = "") -> SandboxSkillsError:
    """Returns the error that an answer stands for; a note of it names the request in the server's log."""
    problem = object_in(body) or {}
    error = _error(status, problem)
    named = text_at(problem, "request_id") or request_id
    if named:
        error.add_note(f"request {named}")
    return error


def outcome_error(
    code: str, message: str, hint: str, *, otherwise: type[SandboxSkillsError]
) -> SandboxSkillsError:
    """Returns the error that kept a run from running, or that its sandbox had; `otherwise` is for a code of none."""
    kind = kinds().get(code, otherwise)
    return _made(kind, message or kind.code, hint, {})


def _error(status: int, problem: JsonObject) -> SandboxSkillsError:
    code = text_at(problem, "code")
    message = text_at(problem, "detail") or text_at(problem, "title") or f"the server answers {status}"
    hint = text_at(problem, "hint") or _HINTS.get(status, "")
    kind = kinds().get(code)
    if kind is not None:
        return _made(kind, message, hint, problem)
    if status >= SERVER_FAULT:
        return ServerUnavailableError(message, hint=hint, status=status, code=code)
    return ServerRefusedError(message, hint=hint, status=status, code=code)


@lru_cache(maxsize=1)
def kinds() -> Mapping[str, type[SandboxSkillsError]]:
    """Returns the errors of the tree that every part shares, by their codes."""
    return {
        kind.code: kind
        for kind in _below(SandboxSkillsError)
        if kind.__module__.startswith(f"{errors.__name__}.")
    }


def _below(kind: type[SandboxSkillsError]) -> Iterator[type[SandboxSkillsError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _below(child)


def _made(kind: type[SandboxSkillsError], message: str, hint: str, problem: JsonObject) -> SandboxSkillsError:
    """Returns an error with the server's words, and with what it knows besides as far as that came along."""
    error = kind.__new__(kind)
    SandboxSkillsError.__init__(error, message, hint=hint)
    for name, value in _details(error, problem):
        setattr(error, name, value)
    return error


def _details(error: SandboxSkillsError, problem: JsonObject) -> Iterator[tuple[str, object]]:
    match error:
        case errors.SkillNotFoundError():
            yield "near", texts_at(problem, "near")
        case errors.SkillLoadError() | errors.SuiteError():
            yield "path", text_at(problem, "path")
            yield "violations", _violations(problem)
        case errors.ToolCallError():
            yield "tool", text_at(problem, "tool")
            yield "violations", _violations(problem)
        case errors.SkillChangedError():
            yield from ((name, texts_at(problem, name)) for name in ("added", "changed", "removed"))
        case errors.SessionExpiredError():
            yield "resumable", problem.get("resumable") is True
        case errors.GuaranteeError():
            yield "lost", texts_at(problem, "lost")
        case errors.ModelError():
            yield from _of_a_model(problem)
        case _:
            return


def _of_a_model(problem: JsonObject) -> Iterator[tuple[str, object]]:
    yield "status", number_at(problem, "model_status")
    yield "retryable", False
    yield "retry_after", None
    yield "provider", text_at(problem, "provider")


def _violations(problem: JsonObject) -> tuple[Violation, ...]:
    return tuple(
        Violation(
            text_at(one, "field"), text_at(one, "message"), number_at(one, "line"), number_at(one, "column")
        )
        for one in objects_of(problem.get("errors"))
    )

"""What an error is over HTTP: one table of statuses, one form of answer (RFC 9457, application/problem+json)."""

from __future__ import annotations

import math
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from sandbox_skills.daemon.api.rate_headers import rate_headers
from sandbox_skills.daemon.api.request_ids import request_id_of
from sandbox_skills.daemon.errors import (
    BodyError,
    DrainingError,
    KeyInvalidError,
    QueueFullError,
    RangeError,
    RateLimitedError,
)
from sandbox_skills.errors import ModelError, SandboxSkillsError, SkillLoadError, ToolCallError, Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fastapi import FastAPI, Request

MEDIA_TYPE = "application/problem+json"

STATUS: Mapping[str, int] = MappingProxyType(
    {
        # what cannot be understood or done as asked
        "request_invalid": 400,
        "settings_invalid": 400,
        "request_body_invalid": 422,
        "cursor_invalid": 422,
        "command_invalid": 422,
        "input_invalid": 422,
        "output_invalid": 422,
        "path_escape": 422,
        "pattern_invalid": 422,
        "artifact_name_invalid": 422,
        "tenant_invalid": 422,
        "skill_invalid": 422,
        "skill_unsafe": 422,
        "source_invalid": 422,
        "suite_invalid": 422,
        "tool_call_invalid": 422,
        "tool_definition_invalid": 422,
        "idempotency_key_reused": 422,
        "script_not_found": 422,
        "request_stalled": 408,
        "request_too_large": 413,
        "range_not_satisfiable": 416,
        # who may not
        "key_invalid": 401,
        "scope_missing": 403,
        "skill_read_only": 403,
        "policy_denied": 403,
        "approval_needed": 403,
        # what is not there, for this tenant
        "skill_not_found": 404,
        "tool_not_found": 404,
        "program_not_found": 404,
        "artifact_not_found": 404,
        "run_not_found": 404,
        "agent_run_not_found": 404,
        "session_not_found": 404,
        "file_not_found": 404,
        "tenant_not_found": 404,
        "key_not_found": 404,
        # what is not in the state that it would have to be in
        "skill_not_loaded": 409,
        "skill_changed": 409,
        "tool_protected": 409,
        "session_busy": 409,
        "session_closed": 409,
        "session_lost": 409,
        "snapshot_invalid": 409,
        "grant_conflict": 409,
        "conversation_invalid": 409,
        "agent_run_busy": 409,
        "tenant_exists": 409,
        "run_not_interactive": 409,
        "lease_lost": 409,
        "audit_damaged": 409,
        "session_expired": 410,
        "events_lost": 410,
        # what is too much for this tenant, and what is too much for the server
        "quota_exceeded": 429,
        "rate_limited": 429,
        "queue_full": 503,
        "draining": 503,
        "daemon_running": 503,
        "database_unusable": 503,
        "artifact_store_unusable": 503,
        "workspace_full": 507,
        # the sandbox
        "engine_error": 503,
        "engine_unavailable": 503,
        "image_unfit": 503,
        "guarantee_missing": 503,
        "recorder_unavailable": 503,
        "sandbox_lost": 503,
        "runner_protocol": 503,
        # the model behind this server
        "model_error": 502,
        "model_unavailable": 502,
        "model_stream_truncated": 502,
        "model_refused": 502,
        "model_context_overflow": 422,
        "model_budget_exceeded": 502,
        "model_answer_invalid": 502,
    }
)
"""The status of every code of the error tree."""

_HTTP_CODES = MappingProxyType(
    {
        400: "request_invalid",
        404: "not_found",
        405: "method_not_allowed",
        408: "request_stalled",
        413: "request_too_large",
        415: "media_type_unsupported",
    }
)
"""What the framework itself refuses, before any of our code is asked."""

MAX_VIOLATIONS = 50
"""Violations that one answer tells: a body may break a rule once for each of a million members."""


class Fault(
    BaseModel,
    json_schema_extra={"examples": [{"field": "body.timeout", "message": "Input should be a valid number"}]},
):
    """One rule that a request breaks."""

    field: str = Field(description="Where, as a path of names and numbers; empty for the whole.")
    message: str


class Problem(BaseModel):
    """Why a request was not done (RFC 9457)."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "type": "about:blank",
                "title": "Not Found",
                "status": 404,
                "detail": "no run 01JDZ6V7Z3M9QHTR4W8YB2C5KD",
                "code": "run_not_found",
                "hint": "",
                "request_id": "01JDZ6VF4T1X8N3E0SGA7PQW2R",
            }
        }
    )

    type: str = "about:blank"
    title: str = Field(description="What the status means.")
    status: int
    detail: str = Field(description="What is wrong, for people.")
    code: str = Field(description="What is wrong, for programs; stable.")
    hint: str = Field(default="", description="The next step, for people; may be empty.")
    request_id: str = Field(
        description="What the server's log calls this request; the header X-Request-ID has it, too."
    )
    errors: list[Fault] | None = Field(default=None, description="Every rule that the request breaks.")


PROBLEM_RESPONSES: dict[int | str, dict[str, Any]] = {
    "4XX": {
        "description": "The request was not done; nothing was changed.",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    },
    "5XX": {
        "description": "The server, its sandboxes or a model behind it failed.",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    },
}
"""What every route may answer instead."""


def status_of(error: SandboxSkillsError) -> int:
    """Returns the HTTP status for an error of the package."""
    return STATUS.get(error.code, HTTPStatus.INTERNAL_SERVER_ERROR)


def problem_of(error: SandboxSkillsError, *, request_id: str) -> Problem:
    """Returns what is told of an error. Pure."""
    return _problem(
        status_of(error),
        detail=error.message,
        code=error.code,
        hint=error.hint,
        request_id=request_id,
        violations=_violations(error),
    )


def headers_of(error: SandboxSkillsError) -> dict[str, str]:
    """Returns the headers that go with an error: when to come again, how to sign in. Pure."""
    match error:
        case RateLimitedError():
            return {"Retry-After": str(math.ceil(error.retry_after)), **rate_headers(error)}
        case QueueFullError() | DrainingError():
            return {"Retry-After": str(math.ceil(error.retry_after))}
        case KeyInvalidError():
            return {"WWW-Authenticate": "Bearer"}
        case RangeError():
            return {"Content-Range": f"bytes */{error.size}"}
        case _ if status_of(error) == HTTPStatus.TOO_MANY_REQUESTS:
            return {"Retry-After": "1"}
        case _:
            return {}


def answer_of(error: SandboxSkillsError, *, request_id: str) -> JSONResponse:
    """Returns the answer that tells of an error."""
    problem = problem_of(error, request_id=request_id)
    return _response(problem, headers_of(error))


def answer_of_framework(error: HTTPException, *, request_id: str) -> JSONResponse:
    """Returns the answer that tells of an error of the framework's."""
    code = _HTTP_CODES.get(error.status_code, "request_invalid")
    problem = _problem(error.status_code, detail=error.detail, code=code, request_id=request_id)
    return _response(problem, error.headers)


def install_problems(app: FastAPI) -> None:
    """Makes errors of the application problems: ours and the framework's; `front` tells those that nobody foresaw."""

    @app.exception_handler(SandboxSkillsError)
    async def _ours(request: Request, error: SandboxSkillsError) -> JSONResponse:
        return answer_of(error, request_id=request_id_of(request.scope))

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        body = BodyError("the request is not of the form it must have", _of_pydantic(error.errors()))
        return answer_of(body, request_id=request_id_of(request.scope))

    @app.exception_handler(HTTPException)
    async def _framework(request: Request, error: HTTPException) -> JSONResponse:
        return answer_of_framework(error, request_id=request_id_of(request.scope))


def answer_of_fault(error: Exception, *, request_id: str) -> JSONResponse:
    """Returns the answer to what nobody foresaw: a fault of ours, of which the client is told no more than its id."""
    problem = _problem(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        detail=f"this is a fault of sandbox-skills ({type(error).__name__})",
        code="internal",
        hint="the server's log tells more of this request",
        request_id=request_id,
    )
    return _response(problem)


def _problem(
    status: int,
    *,
    detail: str,
    code: str,
    request_id: str,
    hint: str = "",
    violations: Sequence[Violation] = (),
) -> Problem:
    told = [Fault(field=one.field, message=one.message) for one in violations[:MAX_VIOLATIONS]]
    return Problem(
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        code=code,
        hint=hint,
        request_id=request_id,
        errors=told or None,
    )


def _response(problem: Problem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse(
        problem.model_dump(exclude_none=True),
        status_code=problem.status,
        headers=dict(headers or {}),
        media_type=MEDIA_TYPE,
    )


def _violations(error: SandboxSkillsError) -> tuple[Violation, ...]:
    match error:
        case BodyError() | SkillLoadError() | ToolCallError():
            return error.violations
        case ModelError():
            return ()
        case _:
            return ()


def _of_pydantic(errors: Iterable[Any]) -> list[Violation]:
    """Returns what pydantic found. The first part of a place is where it was looked for, which a body need not say."""
    found: list[Violation] = []
    for error in errors:
        place = [str(part) for part in error["loc"]]
        found.append(Violation(".".join(place[1:] if place[:1] == ["body"] else place), error["msg"]))
    return found

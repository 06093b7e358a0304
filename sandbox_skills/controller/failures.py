"""What a server answers instead of an answer → an error of ours, with what to do about it. Pure.

OpenRouter has five shapes of error bodies; all are read here, and anything else is taken for a fault of the way.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Literal

from sandbox_skills.catalog.text import one_line
from sandbox_skills.controller.json_values import number_at, object_of, objects_of, text_at
from sandbox_skills.errors import (
    BudgetError,
    ContextOverflowError,
    ModelError,
    ModelRefusedError,
    ModelUnavailableError,
)
from sandbox_skills.outgoing.retries import retry_after_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.catalog.manifest_json import JsonObject

Repair = Literal["reasoning", "calls"]
"""What of the history a provider could not take, and may be left out once."""

MAX_TEXT = 500
"""Characters kept of what a provider says."""

MAX_PREVIOUS = 3
"""Errors of providers that were tried before, as many as fit in a line."""

RETRIED = frozenset({408, 429, 500, 502, 503, 504, 520, 522, 524, 529})
"""What OpenRouter documents as worth another try, with the usual codes of its edge."""

STATUS_OF_TYPE: Mapping[str, int] = {
    "context_length_exceeded": 400,
    "max_tokens_exceeded": 400,
    "token_limit_exceeded": 400,
    "string_too_long": 400,
    "invalid_request": 400,
    "invalid_prompt": 400,
    "content_policy_violation": 400,
    "refusal": 400,
    "authentication": 401,
    "payment_required": 402,
    "insufficient_quota": 402,
    "permission_denied": 403,
    "not_found": 404,
    "precondition_failed": 412,
    "payload_too_large": 413,
    "unprocessable": 422,
    "rate_limit_exceeded": 429,
    "server": 500,
    "server_error": 500,
    "unmapped": 500,
    "provider_unavailable": 502,
    "provider_overloaded": 503,
    "timeout": 504,
}
"""OpenRouter's documented types of errors, and the string codes of the Responses API."""

OVERFLOW_TYPES = frozenset(
    {"context_length_exceeded", "max_tokens_exceeded", "token_limit_exceeded", "string_too_long"}
)
_OVERFLOW = re.compile(
    r"context.?(length|window)|maximum context|too many (input )?tokens|prompt is too long", re.IGNORECASE
)
_DAILY = re.compile(r"daily|per.day", re.IGNORECASE)
_REASONING = re.compile(
    r"signature\W{1,3}in\W{1,3}thinking|thinking.block|thought.?signature|encrypted.?content", re.IGNORECASE
)
_CALLS = re.compile(
    r"no tool (output|call) found|tool_use.{1,40}without.{1,20}tool_result"
    r"|must be followed by tool messages|tool_call_ids? did not have response",
    re.IGNORECASE,
)

HINTS: Mapping[int, str] = {
    400: "The request was refused as it is; see the provider's words.",
    401: "Set OPENROUTER_API_KEY, or model.api_key, to a key that is valid.",
    402: "Add credits, raise the key's limit, or lower model.max_output_tokens.",
    403: "The provider or your account's guardrails do not allow this.",
    404: "Choose another model.name, one that supports tools, or loosen model.provider.",
    429: "Wait, or choose another model.name or model.fallbacks.",
}


def failure_of(status: int | None, headers: Mapping[str, str], body: object) -> ModelError:
    """Returns the error for an answer that holds one. `status` None: it came in the middle of an answer.

    Headers are looked up in lower case. `body` is parsed JSON, or whatever came.
    """
    error = _error_in(body)
    metadata = object_of(error.get("metadata"))
    kind = (
        text_at(error, "error_type")
        or text_at(metadata, "error_type")
        or text_at(object_of(body), "error_type")
    )
    code = _status(status, error, kind)
    message = one_line(text_at(error, "message"), MAX_TEXT) or f"the server answers {code}"
    provider = _provider_words(metadata)
    made = _class_of(code, kind, metadata, f"{message} {provider}")
    return made(
        f"{message} ({provider})" if provider else message,
        hint=HINTS.get(code, ""),
        status=code,
        retryable=_retryable(code, error, made),
        retry_after=_retry_after(headers, error, metadata),
        provider=provider,
    )


def has_error(body: JsonObject) -> bool:
    """Tells whether a body is an error, whatever its HTTP status was."""
    if text_at(body, "status") == "failed":
        return True
    return bool(body.get("error")) and not body.get("output") and not body.get("choices")


def repair_of(error: ModelError) -> Repair | None:
    """Returns what of the history may be left out, so that the request is taken after all."""
    if error.retryable:
        return None
    text = f"{error.message} {error.provider}"
    if _REASONING.search(text):
        return "reasoning"
    return "calls" if _CALLS.search(text) else None


def _error_in(body: object) -> JsonObject:
    whole = object_of(body)
    if not whole:
        return {"message": body} if isinstance(body, str) else {}
    error = whole.get("error")
    if not error and isinstance(response := whole.get("response"), dict):
        error = response.get("error")
    if isinstance(error, str):
        return {"message": error}
    return object_of(error) or whole


def _status(status: int | None, error: JsonObject, kind: str) -> int:
    lowest = 400
    if status is not None and status >= lowest:
        return status
    for name in ("code", "http_status", "status"):
        number = number_at(error, name)
        if number is not None and lowest <= number < 1000:  # noqa: PLR2004  # as an HTTP status
            return int(number)
    return STATUS_OF_TYPE.get(kind) or STATUS_OF_TYPE.get(text_at(error, "code"), 500)


def _provider_words(metadata: JsonObject) -> str:
    """Returns what the provider said: the message around it is often only "Provider returned error"."""
    raw = metadata.get("raw")
    words = [text_at(metadata, "provider_name"), raw if isinstance(raw, str) else ""]
    if isinstance(raw, dict):
        words.append(text_at(object_of(raw.get("error")) or raw, "message"))
    previous = objects_of(metadata.get("previous_errors"))[:MAX_PREVIOUS]
    words += [f"before: {text_at(one, 'message')}" for one in previous if text_at(one, "message")]
    return one_line("; ".join(word for word in words if word), MAX_TEXT)


def _class_of(code: int, kind: str, metadata: JsonObject, text: str) -> type[ModelError]:
    if code == 402 or (code == 429 and _DAILY.search(f"{text_at(metadata, 'limit_source')} {text}")):  # noqa: PLR2004
        return BudgetError
    if code in RETRIED or code >= 500:  # noqa: PLR2004  # HTTP statuses are best read as numbers
        return ModelUnavailableError
    if code == 413 or kind in OVERFLOW_TYPES or (code == 400 and _OVERFLOW.search(text)):  # noqa: PLR2004
        return ContextOverflowError
    return ModelRefusedError


def _retryable(code: int, error: JsonObject, made: type[ModelError]) -> bool:
    said = object_of(error.get("availability")).get("retryable")
    if isinstance(said, bool):
        return said
    return code in RETRIED and made is ModelUnavailableError


def _retry_after(headers: Mapping[str, str], error: JsonObject, metadata: JsonObject) -> float | None:
    """Returns the seconds to wait that somebody asks for, the most exact first."""
    given = {**{k.lower(): v for k, v in object_of(metadata.get("headers")).items()}, **headers}
    if (milliseconds := number_at(given, "retry-after-ms")) is not None:
        return max(0.0, milliseconds / 1000)
    if (seconds := retry_after_seconds(text_at(given, "retry-after"))) is not None:
        return seconds
    if (seconds := number_at(object_of(error.get("availability")), "retry_after")) is not None:
        return max(0.0, seconds)
    if (reset := number_at(given, "x-ratelimit-reset")) is not None:
        return max(0.0, reset / 1000 - time.time())  # OpenRouter gives milliseconds since the epoch
    return None

"""A whole response → an answer, or the error that it holds. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.controller.failures import failure_of, has_error
from sandbox_skills.controller.json_values import cost_at, count_at, name_at, object_of, objects_of, text_at
from sandbox_skills.controller.turn import Answer, Usage
from sandbox_skills.errors import ModelAnswerError, ModelUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_skills.catalog.manifest_json import JsonObject

UNFINISHED = frozenset({"cancelled", "in_progress", "queued"})


def read_response(response: JsonObject, gathered: Sequence[JsonObject] = ()) -> Answer:
    """Returns the answer in a response; `gathered` are items of its stream, for one without output of its own.

    Raises ModelError for a response that failed, whatever its HTTP status, and ModelAnswerError for one that is none.
    """
    if has_error(response):
        raise failure_of(None, {}, response)
    status = text_at(response, "status") or "completed"
    if status in UNFINISHED:
        raise ModelUnavailableError(f"the server ended the answer as {status}", retryable=True)
    output = objects_of(response.get("output")) or list(gathered)
    if not output and "output" not in response and "usage" not in response and not gathered:
        raise ModelAnswerError(
            "the server's answer is no response", hint="Is model.wire right for this server?"
        )
    details = object_of(response.get("incomplete_details"))
    return Answer(
        items=tuple(output),
        incomplete=(name_at(details, "reason") or "incomplete") if status == "incomplete" else "",
        usage=_usage(object_of(response.get("usage"))),
        model=name_at(response, "model"),
        id=name_at(response, "id"),
    )


def _usage(usage: JsonObject) -> Usage:
    return Usage(
        input_tokens=count_at(usage, "input_tokens"),
        output_tokens=count_at(usage, "output_tokens"),
        cached_tokens=count_at(object_of(usage.get("input_tokens_details")), "cached_tokens"),
        reasoning_tokens=count_at(object_of(usage.get("output_tokens_details")), "reasoning_tokens"),
        cost=cost_at(usage, "cost"),
        answers=1,
    )

"""The model, its provider or the way to it failed; CLI exit 4."""

from __future__ import annotations

from sandbox_skills.errors.base import SandboxSkillsError


class ModelError(SandboxSkillsError):
    """The model, its provider or the way to it failed.

    `status` is the HTTP status, None where there was no answer. `retryable` is whether the same request may succeed
    later, `retry_after` the seconds that the provider asks for. `provider` is what it said itself, cut short.
    """

    code = "model_error"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        provider: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after
        self.provider = provider


class ModelUnavailableError(ModelError):
    """No answer just now: a limit, an overload, a fault of the server, or no way to it."""

    code = "model_unavailable"


class StreamTruncatedError(ModelUnavailableError):
    """The answer broke off; what came of it was dropped, and no call of it was run."""

    code = "model_stream_truncated"


class ModelRefusedError(ModelError):
    """The provider will not answer this request, however often it is asked."""

    code = "model_refused"


class ContextOverflowError(ModelRefusedError):
    """The conversation is too long for the model, output included."""

    code = "model_context_overflow"


class BudgetError(ModelError):
    """Credits, the key's limit or the day's quota are used up."""

    code = "model_budget_exceeded"


class ModelAnswerError(ModelError):
    """The answer cannot be read, or is empty where that is not allowed."""

    code = "model_answer_invalid"

"""What a daemon answers that is no error of this package, and what goes wrong on the way to it.

RequestError
└─ ServerRefusedError        it will not do what was asked; `code` is its own
EngineError
├─ ServerUnavailableError    it does not answer, or cannot do it now; `code` is its own where it gave one
└─ ServerAnswerError         it answers what cannot be understood
"""

from __future__ import annotations

from sandbox_skills.errors import EngineError, RequestError


class ServerRefusedError(RequestError):
    """The server will not do what was asked. `status` is the HTTP status, `code` the server's own where it gave one."""

    code = "server_refused"

    def __init__(self, message: str, *, hint: str = "", status: int = 400, code: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code or type(self).code


class ServerUnavailableError(EngineError):
    """The server does not answer, or cannot do it now. `status` is None where there was no answer at all."""

    code = "server_unavailable"

    def __init__(self, message: str, *, hint: str = "", status: int | None = None, code: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code or type(self).code


class ServerAnswerError(EngineError):
    """The server's answer cannot be understood: another version of it, or none of ours."""

    code = "server_answer_invalid"

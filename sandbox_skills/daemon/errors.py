"""The errors that only the daemon has.

RequestError
├─ AuthenticationError             no key, or none that counts
├─ ScopeError                      a key that may not do this
├─ BodyError                       a request that is not of the form it must have, with every violation
├─ BodyTooLargeError               a request longer than the server takes
├─ CursorError                     a cursor that is none of this list
├─ RunNotFoundError                the tenant has no such run
├─ SessionNotFoundError            the tenant has no such session
├─ FileNotFoundInSessionError      the session has no such file
├─ RangeError                      a range that the content does not have
├─ IdempotencyError                a key that was used for another request
├─ EventsGoneError                 events that are kept no more
├─ RunNotInteractiveError          a run that nobody can talk to
└─ RateLimitError                  more than a tenant may ask for just now
EngineError
├─ QueueFullError                  no room for another run
├─ DrainingError                   the server is about to end
└─ DatabaseError                   the database cannot be used
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.errors import EngineError, RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_skills.errors import Violation


class AuthenticationError(RequestError):
    """The request has no key, or one that is unknown, expired or revoked: which of them is not told."""

    code = "unauthenticated"


class ScopeError(RequestError):
    """The key is good, but not for this."""

    code = "forbidden"


class BodyError(RequestError):
    """A request that is not of the form it must have; carries every violation. Nothing was done."""

    code = "request_body_invalid"

    def __init__(self, message: str, violations: Sequence[Violation] = (), *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.violations = tuple(violations)


class BodyTooLargeError(RequestError):
    """The request is longer than the server takes; what came of it was dropped."""

    code = "request_too_large"


class CursorError(RequestError):
    """The cursor was not made by this list."""

    code = "cursor_invalid"


class RunNotFoundError(RequestError):
    """The tenant has no such run; whether another has is not told."""

    code = "run_not_found"


class SessionNotFoundError(RequestError):
    """The tenant has no such session; whether another has is not told."""

    code = "session_not_found"


class FileNotFoundInSessionError(RequestError):
    """The workspace of the session has no regular file at that path."""

    code = "file_not_found"


class RangeError(RequestError):
    """The content does not have the bytes that were asked for; it has `size` of them."""

    code = "range_not_satisfiable"

    def __init__(self, message: str, *, size: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.size = size


class IdempotencyError(RequestError):
    """The Idempotency-Key was used for another request; nothing was done."""

    code = "idempotency_mismatch"


class EventsGoneError(RequestError):
    """The events after that number are kept no more; the run itself is."""

    code = "events_gone"


class RunNotInteractiveError(RequestError):
    """The run has ended, or was started for nobody to talk to."""

    code = "run_not_interactive"


class RateLimitError(RequestError):
    """The tenant asks for more than it may just now; it may again in `retry_after` seconds."""

    code = "rate_limited"

    def __init__(self, message: str, *, retry_after: float, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class QueueFullError(EngineError):
    """The queue has no room for another run; there may be in `retry_after` seconds."""

    code = "queue_full"

    def __init__(self, message: str, *, retry_after: float = 1.0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class DrainingError(EngineError):
    """The server is about to end and takes nothing new."""

    code = "draining"


class DatabaseError(EngineError):
    """The database is damaged, busy, of a later version, or cannot be read or written."""

    code = "database_unusable"

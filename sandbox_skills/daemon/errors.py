"""The daemon's own errors, as children of the package's tree.

RequestError
├─ KeyInvalidError            no key, or none that counts: wrong, revoked, expired, of a disabled tenant
├─ ScopeError                 a key that may not do this
├─ TenantNotFoundError        no tenant of that id or name
├─ TenantExistsError          a tenant of that name is there
├─ TenantInvalidError         a name, limits or a policy that no tenant can have
├─ KeyNotFoundError           no key of that id
├─ RunNotFoundError           the tenant has no such run
├─ SkillReadOnlyError         a skill of the server, which no tenant changes
├─ AgentRunNotFoundError      the tenant has no such run of a model
├─ AgentRunBusyError          a run of a model that cannot go on so just now
├─ IdempotencyError           an Idempotency-Key that stands for another request
├─ EventsLostError            events that are not kept any more
├─ AuditDamagedError          an audit log that does not fit together
├─ BodyError                  a request that is not of the form it must have, with every violation
├─ BodyTooLargeError          a request longer than the server takes
├─ RequestStalledError        a request of which nothing came for too long
├─ CursorError                a cursor that is none of this list
├─ SessionNotFoundError       the tenant has no such session
├─ SessionFileError           the session has no such file
├─ RangeError                 a range that the content does not have
├─ RunNotInteractiveError     a run that nobody can talk to
└─ QuotaError
   └─ RateLimitedError        more than the tenant may ask for just now; when to ask again
EngineError
├─ DatabaseError              the database cannot be used
├─ QueueFullError             the server has no room for another run just now
├─ DrainingError              the server takes nothing, because it ends
├─ DaemonRunningError         another daemon works on this data directory
└─ LeaseLostError             an attempt that somebody else may be working on by now
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.errors import EngineError, QuotaError, RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_skills.errors import Violation


class KeyInvalidError(RequestError):
    """There is no key, or none that counts; never says which of the reasons it is."""

    code = "key_invalid"


class ScopeError(RequestError):
    """The key is good, and may not do this."""

    code = "scope_missing"


class TenantNotFoundError(RequestError):
    """No tenant of that id or name."""

    code = "tenant_not_found"


class TenantExistsError(RequestError):
    """A tenant of that name is there already."""

    code = "tenant_exists"


class TenantInvalidError(RequestError):
    """A name, limits or a policy that no tenant can have; nothing was changed."""

    code = "tenant_invalid"


class KeyNotFoundError(RequestError):
    """The tenant has no key of that id."""

    code = "key_not_found"


class RunNotFoundError(RequestError):
    """The tenant has no run of that id; one of another tenant is not there either."""

    code = "run_not_found"


class SkillReadOnlyError(RequestError):
    """The skill, or its name, is the server's: no tenant changes it."""

    code = "skill_read_only"


class AgentRunNotFoundError(RequestError):
    """The tenant has no run of a model of that id; one of another tenant is not there either."""

    code = "agent_run_not_found"


class AgentRunBusyError(RequestError):
    """The run of a model is under way, or is not where this can be said of it."""

    code = "agent_run_busy"


class IdempotencyError(RequestError):
    """The Idempotency-Key was used for another request."""

    code = "idempotency_key_reused"


class EventsLostError(RequestError):
    """Events behind the asked number are not kept any more; `first` is the oldest that is, `last` the newest."""

    code = "events_lost"

    def __init__(self, message: str, *, hint: str = "", first: int = 1, last: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.first = first
        self.last = last


class AuditDamagedError(RequestError):
    """The audit log was changed outside of the daemon; `seq` is the first row that does not fit."""

    code = "audit_damaged"

    def __init__(self, message: str, *, hint: str = "", seq: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.seq = seq


class BodyError(RequestError):
    """A request that is not of the form it must have; carries every violation. Nothing was done."""

    code = "request_body_invalid"

    def __init__(self, message: str, violations: Sequence[Violation] = (), *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.violations = tuple(violations)


class BodyTooLargeError(RequestError):
    """The request is longer than the server takes; what came of it was dropped."""

    code = "request_too_large"


class RequestStalledError(RequestError):
    """The request took too long to come; what came of it was dropped."""

    code = "request_stalled"


class CursorError(RequestError):
    """The cursor was not made by this list."""

    code = "cursor_invalid"


class SessionNotFoundError(RequestError):
    """The tenant has no session of that id; one of another tenant is not there either."""

    code = "session_not_found"


class SessionFileError(RequestError):
    """The workspace of the session has no regular file at that path."""

    code = "file_not_found"


class RangeError(RequestError):
    """The content does not have the bytes that were asked for; it has `size` of them."""

    code = "range_not_satisfiable"

    def __init__(self, message: str, *, size: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.size = size


class RunNotInteractiveError(RequestError):
    """The run has ended, or was started for nobody to talk to."""

    code = "run_not_interactive"


class RateLimitedError(QuotaError):
    """More than the tenant may ask for just now.

    `retry_after` in seconds. `limit` and `remaining` count what `name` says, and `reset` is when it is whole again, in
    seconds from now: what the RateLimit headers tell.
    """

    code = "rate_limited"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        name: str = "",
        limit: int = 0,
        remaining: int = 0,
        reset: float = 1.0,
        retry_after: float = 1.0,
    ) -> None:
        super().__init__(message, hint=hint)
        self.name = name
        self.limit = limit
        self.remaining = remaining
        self.reset = reset
        self.retry_after = retry_after


class DatabaseError(EngineError):
    """The database is damaged, busy, of another version, or cannot be read or written; says where and why."""

    code = "database_unusable"


class QueueFullError(EngineError):
    """The server has no room for another run just now; `retry_after` in seconds."""

    code = "queue_full"

    def __init__(self, message: str, *, hint: str = "", retry_after: float = 1.0) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class DrainingError(EngineError):
    """The server ends and takes nothing any more; `retry_after` in seconds."""

    code = "draining"

    def __init__(self, message: str, *, hint: str = "", retry_after: float = 5.0) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class DaemonRunningError(EngineError):
    """Another daemon works on this data directory."""

    code = "daemon_running"


class LeaseLostError(EngineError):
    """The attempt does not hold the run any more; nothing that it says counts."""

    code = "lease_lost"

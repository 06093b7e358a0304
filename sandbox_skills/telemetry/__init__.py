"""What is told of the work: spans for whoever measures, audit events for whoever must answer for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.lazy_names import lazy_names

if TYPE_CHECKING:
    from sandbox_skills.telemetry.audit import AuditEvent, AuditLog, RunStatus
    from sandbox_skills.telemetry.audit_file import AuditFile
    from sandbox_skills.telemetry.events import ResponseStatus, ToolResponse
    from sandbox_skills.telemetry.redact import REDACTED, redacted_argv, redacted_env
    from sandbox_skills.telemetry.redaction import NOTHING, Redaction, StreamRedactor
    from sandbox_skills.telemetry.secret_forms import MIN_SECRET
    from sandbox_skills.telemetry.spans import annotate, convention_span, is_recorded, span

_HOMES = {
    "audit": ("AuditEvent", "AuditLog", "RunStatus"),
    "audit_file": ("AuditFile",),
    "events": ("ResponseStatus", "ToolResponse"),
    "redact": ("REDACTED", "redacted_argv", "redacted_env"),
    "redaction": ("NOTHING", "Redaction", "StreamRedactor"),
    "secret_forms": ("MIN_SECRET",),
    "spans": ("annotate", "convention_span", "is_recorded", "span"),
}

__all__ = [
    "MIN_SECRET",
    "NOTHING",
    "REDACTED",
    "AuditEvent",
    "AuditFile",
    "AuditLog",
    "Redaction",
    "ResponseStatus",
    "RunStatus",
    "StreamRedactor",
    "ToolResponse",
    "annotate",
    "convention_span",
    "is_recorded",
    "redacted_argv",
    "redacted_env",
    "span",
]

__getattr__ = lazy_names(__name__, _HOMES)

"""What is told of the work: spans for whoever measures, audit events for whoever must answer for it."""

from sandbox_skills.telemetry.audit import AuditEvent, AuditLog, RunStatus
from sandbox_skills.telemetry.audit_file import AuditFile
from sandbox_skills.telemetry.events import ResponseStatus, ToolResponse
from sandbox_skills.telemetry.redact import REDACTED, redacted_argv, redacted_env
from sandbox_skills.telemetry.redaction import NOTHING, Redaction, StreamRedactor
from sandbox_skills.telemetry.secret_forms import MIN_SECRET
from sandbox_skills.telemetry.spans import annotate, convention_span, span

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
    "redacted_argv",
    "redacted_env",
    "span",
]

"""Spans around what costs time, for whichever OpenTelemetry SDK the embedding program sets up; else they are no-ops."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode

from sandbox_skills.errors import SandboxSkillsError

if TYPE_CHECKING:
    from collections.abc import Generator

    from opentelemetry.trace import Span

Attribute = str | int | float | bool


@contextmanager
def span(name: str, **attributes: Attribute) -> Generator[Span]:
    """Opens a span; an error that leaves it is recorded by its code, never by its text, which may quote a stranger.

    Attribute names get the prefix `sandbox_skills.`; values must not be secret.
    """
    tracer = trace.get_tracer("sandbox_skills")
    with tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False) as current:
        annotate(current, **attributes)
        try:
            yield current
        except BaseException as error:
            code = error.code if isinstance(error, SandboxSkillsError) else type(error).__name__
            current.set_status(Status(StatusCode.ERROR, code))
            raise


def annotate(current: Span, **attributes: Attribute) -> None:
    """Adds attributes to a span that is open."""
    for name, value in attributes.items():
        current.set_attribute(f"sandbox_skills.{name}", value)

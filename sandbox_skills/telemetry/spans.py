"""Spans around what costs time, for whichever OpenTelemetry SDK the embedding program sets up; else they are no-ops."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from sandbox_skills.errors import SandboxSkillsError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from contextlib import AbstractContextManager

    from opentelemetry.trace import Span

PREFIX = "sandbox_skills."
"""Of the attributes that are this package's own."""

Attribute = str | int | float | bool


def span(name: str, **attributes: Attribute) -> AbstractContextManager[Span]:
    """Opens a span; an error that leaves it is recorded by its code, never by its text, which may quote a stranger.

    Attribute names get the prefix `sandbox_skills.`; values must not be secret. Costs a microsecond without an SDK.
    """
    if not is_recorded():
        return _UNRECORDED
    return _recorded(name, attributes)


def is_recorded() -> bool:
    """Tells whether the embedding program has set up an SDK: without one there is nobody to tell."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def convention_span(
    name: str, attributes: Mapping[str, Attribute], *, kind: SpanKind = SpanKind.INTERNAL
) -> AbstractContextManager[Span]:
    """Opens a span whose attributes have the names of a public convention, as they are; else as `span`."""
    if not is_recorded():
        return _UNRECORDED
    return _recorded(name, attributes, prefix="", kind=kind)


_UNRECORDED = nullcontext(trace.INVALID_SPAN)
"""What is opened where no SDK was set up; the API's own stand-in costs five times as much."""


@contextmanager
def _recorded(
    name: str,
    attributes: Mapping[str, Attribute],
    *,
    prefix: str = PREFIX,
    kind: SpanKind = SpanKind.INTERNAL,
) -> Generator[Span]:
    tracer = trace.get_tracer("sandbox_skills")
    with tracer.start_as_current_span(
        name, kind=kind, record_exception=False, set_status_on_exception=False
    ) as current:
        for key, value in attributes.items():
            current.set_attribute(f"{prefix}{key}", value)
        try:
            yield current
        except BaseException as error:
            code = error.code if isinstance(error, SandboxSkillsError) else type(error).__name__
            current.set_status(Status(StatusCode.ERROR, code))
            raise


def annotate(current: Span, **attributes: Attribute) -> None:
    """Adds attributes to a span that is open."""
    if not current.is_recording():
        return
    for name, value in attributes.items():
        current.set_attribute(f"{PREFIX}{name}", value)

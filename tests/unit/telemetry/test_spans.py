"""Spans: named, annotated, and silent about what strangers write."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sandbox_skills.errors import SandboxLostError
from sandbox_skills.telemetry import annotate, span

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()


def test_a_span_has_its_name_and_attributes(exported: InMemorySpanExporter) -> None:
    with span("workspace.run", skill="x") as current:
        annotate(current, bytes=3)
    (done,) = exported.get_finished_spans()
    assert done.name == "workspace.run"
    assert dict(done.attributes or {}) == {"sandbox_skills.skill": "x", "sandbox_skills.bytes": 3}
    assert done.status.is_unset


def test_an_error_is_told_by_its_code_alone(exported: InMemorySpanExporter) -> None:
    with pytest.raises(SandboxLostError), span("workspace.run"):
        raise SandboxLostError("a stranger's words")
    (done,) = exported.get_finished_spans()
    assert done.status.description == "sandbox_lost"
    assert done.events == ()
    assert "stranger" not in done.to_json()


def test_without_an_sdk_a_span_costs_nothing_and_works() -> None:
    with span("workspace.run", skill="x") as current:
        assert not current.is_recording()

"""A scripted model, and clients and controllers that ask it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel

from sandbox_skills.controller.client_options import ClientOptions
from sandbox_skills.controller.controller import Controller
from sandbox_skills.controller.openrouter import OpenRouterClient
from sandbox_skills.controller.options import ControllerOptions
from sandbox_skills.controller.own_tools import function_tool
from sandbox_skills.outgoing.retry_policy import RetryPolicy
from sandbox_skills.toolsets.base import Conversation

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    from sandbox_skills.controller.hooks import Hooks
    from sandbox_skills.controller.own_tools import OwnTool
    from sandbox_skills.toolsets.toolbox import Toolbox
    from tests.model_server import ModelServer

QUICK = RetryPolicy(attempts=3, seconds=10.0, first_wait=0.01, longest_wait=0.05)
KEY = "sk-or-v1-0123456789"


class Word(BaseModel):
    """What the tool `echo` takes."""

    word: str = "nothing"


@dataclass(slots=True)
class Echo:
    """A tool that says its word again, and counts."""

    words: list[str] = field(default_factory=list)

    def tool(self, **options: Any) -> OwnTool:  # noqa: ANN401  # as function_tool
        def echo(given: Word) -> str:
            """Says a word again."""
            self.words.append(given.word)
            return f"echo {given.word}"

        return function_tool(echo, **options)


@dataclass(frozen=True, slots=True)
class Model:
    """The scripted server, with what asks it."""

    server: ModelServer

    @asynccontextmanager
    async def client(self, **options: Any) -> AsyncGenerator[OpenRouterClient]:  # noqa: ANN401  # as ClientOptions
        given = {"base_url": self.server.base_url, "api_key": KEY, "retry": QUICK, **options}
        async with OpenRouterClient(ClientOptions(**given)) as client:
            yield client

    @asynccontextmanager
    async def controller(
        self,
        *tools: OwnTool,
        toolbox: Toolbox | None = None,
        hooks: Hooks | None = None,
        client: dict[str, Any] | None = None,
        **options: Any,  # noqa: ANN401  # as ControllerOptions
    ) -> AsyncGenerator[Controller]:
        async with self.client(**(client or {})) as one:
            chosen = ControllerOptions(**{"model": "scripted/model", **options})
            yield Controller(one, chosen, toolbox=toolbox, tools=tools, hooks=hooks)


@pytest.fixture
def model(model_server: ModelServer) -> Model:
    model_server.reset()
    return Model(model_server)


@pytest.fixture
def talk() -> Conversation:
    return Conversation("talk", "tests")


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Spans as they are exported where an SDK is set up."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    yield exporter
    provider.shutdown()

"""The `openai` SDK as a second opinion: it reads what the scripted server says as we do, and takes what we send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import pytest
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params
from pydantic import TypeAdapter

from sandbox_skills.controller.request import ModelRequest, NamedTool, ToolDefinition
from sandbox_skills.controller.turn import text_of
from tests.model_server import Say, call, text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.unit.controller.conftest import Model

pytestmark = pytest.mark.anyio

SAID = Say([text("Grüße 🌍"), call("look", {"where": "dü"}, "call_1")])
TOOL = ToolDefinition("look", "Looks.", {"type": "object", "properties": {"where": {"type": "string"}}})
HISTORY: tuple[dict[str, Any], ...] = (
    {"type": "message", "role": "user", "content": "Hi."},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Look:", "annotations": []}],
    },
    call("look", {"where": "a"}, "c1"),
    {"type": "function_call_output", "call_id": "c1", "output": "seen"},
)
REQUEST = ModelRequest(
    "scripted/model",
    HISTORY,
    "Be brief.",
    (TOOL,),
    NamedTool("look"),
    parallel_tool_calls=True,
    temperature=0.5,
)


@pytest.fixture
async def sdk(anyio_backend: object, model: Model) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=model.server.base_url, api_key="k", max_retries=0) as client:
        yield client


async def test_a_response_is_read_alike(model: Model, sdk: openai.AsyncOpenAI) -> None:
    model.server.script(SAID, SAID, SAID)
    theirs = await sdk.responses.create(model="scripted/model", input="Hi.")
    async with sdk.responses.stream(model="scripted/model", input="Hi.") as stream:
        streamed = await stream.get_final_response()
    async with model.client() as client:
        ours = await client.ask(REQUEST)
    assert theirs.output_text == streamed.output_text == text_of(ours.items) == "Grüße 🌍"
    made = [item for item in streamed.output if item.type == "function_call"]
    assert [(one.name, one.arguments, one.call_id) for one in made] == [
        (one["name"], one["arguments"], one["call_id"])
        for one in ours.items
        if one["type"] == "function_call"
    ]
    assert theirs.usage is not None
    assert theirs.usage.input_tokens == ours.usage.input_tokens


async def test_a_completion_is_read_alike(model: Model, sdk: openai.AsyncOpenAI) -> None:
    model.server.script(SAID, SAID, SAID)
    messages: Any = [{"role": "user", "content": "Hi."}]
    theirs = await sdk.chat.completions.create(model="scripted/model", messages=messages)
    async with sdk.chat.completions.stream(model="scripted/model", messages=messages) as stream:
        streamed = await stream.get_final_completion()
    async with model.client(wire="chat") as client:
        ours = await client.ask(REQUEST)
    assert theirs.choices[0].message.content == streamed.choices[0].message.content == text_of(ours.items)
    (made,) = streamed.choices[0].message.tool_calls or []
    (mine,) = [one for one in ours.items if one["type"] == "function_call"]
    assert (made.id, made.function.name, made.function.arguments) == (
        mine["call_id"],
        mine["name"],
        mine["arguments"],
    )


@pytest.mark.parametrize("stream", [True, False])
async def test_what_we_send_is_what_the_sdks_types_take(model: Model, stream: object) -> None:
    model.server.script(SAID, SAID)
    for wire in ("responses", "chat"):
        async with model.client(wire=wire, stream=bool(stream)) as client:
            await client.ask(REQUEST)
    responses, chat = model.server.bodies
    for body, streaming, whole in (
        (
            responses,
            response_create_params.ResponseCreateParamsStreaming,
            response_create_params.ResponseCreateParamsNonStreaming,
        ),
        (
            chat,
            completion_create_params.CompletionCreateParamsStreaming,
            completion_create_params.CompletionCreateParamsNonStreaming,
        ),
    ):
        kind: Any = streaming if stream else whole
        TypeAdapter(kind).validate_python(body)
        assert set(body) <= set(kind.__annotations__) | set(_inherited(kind))


def _inherited(kind: Any) -> set[str]:  # noqa: ANN401  # a TypedDict
    return set(kind.__required_keys__) | set(kind.__optional_keys__)

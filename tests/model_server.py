"""A scripted model behind a real HTTP server: both wires, streaming and not, and every fault that a server may have."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import uvicorn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from typing import Self

    Json = dict[str, Any]

USAGE: Final = (100, 20, 0.001)
"""Input tokens, output tokens and US dollars of every scripted answer."""

_serial = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Drop:
    """In the place of a piece of an answer: the connection is torn off."""


@dataclass(frozen=True, slots=True)
class Raw:
    """An answer as it is: pieces of bytes, with pauses in seconds and a torn connection between them."""

    pieces: Sequence[bytes | float | Drop]
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Say:
    """An answer of a model, on whichever wire it is asked for. `pieces` cuts texts and arguments of a stream."""

    items: Sequence[Json]
    incomplete: str = ""
    pieces: int = 3
    model: str = "scripted/model"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that came."""

    path: str
    headers: dict[str, str]
    body: Json

    @property
    def tools(self) -> list[str]:
        return [tool.get("name") or tool["function"]["name"] for tool in self.body.get("tools", ())]


Reply = Raw | Say


def text(words: str) -> Json:
    """A message of the model."""
    part = {"type": "output_text", "text": words, "annotations": []}
    return {
        "type": "message",
        "id": f"msg_tmp_{next(_serial)}",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }


def call(name: str, arguments: object = None, call_id: str = "", **more: Any) -> Json:  # noqa: ANN401  # any JSON
    """A call of a tool; arguments that are no text are written as JSON."""
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    number = next(_serial)
    return {
        "type": "function_call",
        "id": f"fc_tmp_{number}",
        "call_id": call_id or f"call_{number}",
        "name": name,
        "arguments": raw,
        "status": "completed",
        **more,
    }


def reasoning(words: str = "Hm.", **more: Any) -> Json:  # noqa: ANN401  # any JSON
    """A reasoning item, encrypted as it comes."""
    summary = [{"type": "summary_text", "text": words}]
    return {"type": "reasoning", "id": f"rs_tmp_{next(_serial)}", "summary": summary, **more}


def sse(*events: Json | bytes, done: bool = True) -> bytes:
    """Events as a stream has them; bytes stand as they are."""
    texts = [
        one if isinstance(one, bytes) else b"data: " + json.dumps(one).encode() + b"\n\n" for one in events
    ]
    return b"".join([*texts, b"data: [DONE]\n\n" if done else b""])


def stream_of(*pieces: bytes | float | Drop, **headers: str) -> Raw:
    """A reply that streams these pieces."""
    return Raw(pieces, headers={"content-type": "text/event-stream", **headers})


def refusal(status: int, body: Json | bytes, **headers: str) -> Raw:
    """A reply that is an error."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Raw([data], status, {"content-type": "application/json", **headers})


def response_of(said: Say) -> Json:
    """The whole response, as the Responses API has it."""
    inputs, outputs, cost = USAGE
    return {
        "id": f"gen-1700000000-{next(_serial):020}",
        "object": "response",
        "created_at": 1_700_000_000,
        "completed_at": 1_700_000_001,
        "model": said.model,
        "status": "incomplete" if said.incomplete else "completed",
        "output": list(said.items),
        "output_text": "",
        "error": None,
        "incomplete_details": {"reason": said.incomplete} if said.incomplete else None,
        "instructions": None,
        "metadata": None,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "top_p": 1.0,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": inputs,
            "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 0},
            "output_tokens": outputs,
            "output_tokens_details": {"reasoning_tokens": 5},
            "total_tokens": inputs + outputs,
            "cost": cost,
        },
    }


def response_events(said: Say) -> Iterator[Json]:
    """The events of a streamed response, in their usual order."""
    whole = response_of(said)
    numbers = itertools.count()
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun, "sequence_number": next(numbers)}
    for index, item in enumerate(said.items):
        for event in _item_events(index, item, said.pieces):
            yield {**event, "output_index": index, "sequence_number": next(numbers)}
    kind = "response.incomplete" if said.incomplete else "response.completed"
    yield {"type": kind, "response": whole, "sequence_number": next(numbers)}


def _item_events(index: int, item: Json, pieces: int) -> Iterator[Json]:
    added = {**item, "status": "in_progress"}
    if item["type"] == "message":
        added["content"] = []
    if item["type"] == "function_call":
        added["arguments"] = ""
    yield {"type": "response.output_item.added", "item": added}
    where = {"item_id": item.get("id", f"item_{index}")}
    if item["type"] == "function_call":
        for piece in _cut(item["arguments"], pieces):
            yield {"type": "response.function_call_arguments.delta", "delta": piece, **where}
        done = {"arguments": item["arguments"], "name": item["name"]}
        yield {"type": "response.function_call_arguments.done", **done, **where}
    for number, part in enumerate(item.get("content") or ()):
        at = {**where, "content_index": number}
        yield {"type": "response.content_part.added", "part": {**part, "text": ""}, **at}
        for piece in _cut(part.get("text", ""), pieces):
            yield {"type": "response.output_text.delta", "delta": piece, "logprobs": [], **at}
        yield {"type": "response.output_text.done", "text": part.get("text", ""), "logprobs": [], **at}
        yield {"type": "response.content_part.done", "part": part, **at}
    yield {"type": "response.output_item.done", "item": item}


def completion_of(said: Say) -> Json:
    """The whole answer, as Chat Completions has it."""
    inputs, outputs, cost = USAGE
    calls = [_chat_call(item) for item in said.items if item["type"] == "function_call"]
    message: Json = {"role": "assistant", "content": _words(said) or None}
    if calls:
        message["tool_calls"] = calls
    reason = {"max_output_tokens": "length"}.get(said.incomplete, said.incomplete)
    choice = {"index": 0, "message": message, "finish_reason": reason or ("tool_calls" if calls else "stop")}
    return {
        "id": f"gen-1700000000-{next(_serial):020}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": said.model,
        "choices": [choice],
        "usage": {
            "prompt_tokens": inputs,
            "completion_tokens": outputs,
            "total_tokens": inputs + outputs,
            "prompt_tokens_details": {"cached_tokens": 40},
            "completion_tokens_details": {"reasoning_tokens": 5},
            "cost": cost,
        },
    }


def completion_chunks(said: Say) -> Iterator[Json]:
    """The chunks of a streamed completion; the last carries the usage and no choice."""
    whole = completion_of(said)
    message = whole["choices"][0]["message"]
    head = {
        "id": whole["id"],
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": said.model,
    }

    def chunk(delta: Json, reason: str | None = None) -> Json:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in _cut(message.get("content") or "", said.pieces):
        yield chunk({"content": piece})
    for index, one in enumerate(message.get("tool_calls", ())):
        start = {**one, "index": index, "function": {"name": one["function"]["name"], "arguments": ""}}
        yield chunk({"tool_calls": [start]})
        for piece in _cut(one["function"]["arguments"], said.pieces):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, whole["choices"][0]["finish_reason"])
    yield {**head, "choices": [], "usage": whole["usage"]}


def _chat_call(item: Json) -> Json:
    function = {"name": item["name"], "arguments": item["arguments"]}
    return {"id": item["call_id"], "type": "function", "function": function}


def _words(said: Say) -> str:
    messages = [item for item in said.items if item["type"] == "message"]
    return "".join(part["text"] for item in messages for part in item["content"])


def _cut(words: str, pieces: int) -> list[str]:
    size = max(1, -(-len(words) // pieces))
    return [words[start : start + size] for start in range(0, len(words), size)]


def rendered(said: Say, *, path: str, stream: bool) -> Raw:
    """What a server sends for an answer."""
    chat = path.endswith("/chat/completions")
    if not stream:
        body = completion_of(said) if chat else response_of(said)
        return Raw([json.dumps(body).encode()], headers={"content-type": "application/json"})
    events = completion_chunks(said) if chat else response_events(said)
    return stream_of(b": OPENROUTER PROCESSING\n\n", sse(*events))


class ModelServer:
    """Serves on the loopback, in a thread of its own. Replies are used up in order; `default` is for all after them."""

    def __init__(self) -> None:
        self.replies: deque[Reply | Callable[[Asked], Reply]] = deque()
        self.default: Callable[[Asked], Reply] | None = None
        self.asked: list[Asked] = []
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._app,
                host="127.0.0.1",
                port=0,
                log_level="critical",
                lifespan="off",
                ws="none",
                http="h11",
                interface="asgi3",
                timeout_graceful_shutdown=1,
            )
        )
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        deadline = time.monotonic() + 10
        while not self._server.started:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()

    @property
    def base_url(self) -> str:
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/api/v1"

    @property
    def bodies(self) -> list[Json]:
        return [one.body for one in self.asked]

    def script(self, *replies: Reply | Callable[[Asked], Reply]) -> None:
        """Adds replies."""
        self.replies += replies

    def reset(self) -> None:
        """Forgets what was asked and what was to come."""
        self.replies.clear()
        self.asked.clear()
        self.default = None

    async def _app(
        self, scope: Json, receive: Callable[[], Awaitable[Json]], send: Callable[[Json], Any]
    ) -> None:
        body = b""
        while (message := await receive()).get("more_body", False):
            body += message["body"]
        body += message.get("body", b"")
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        asked = Asked(scope["path"], headers, json.loads(body or b"{}"))
        self.asked.append(asked)
        reply = self.replies.popleft() if self.replies else self.default
        assert reply is not None, "the script has ended"
        reply = reply(asked) if callable(reply) else reply
        if isinstance(reply, Say):
            reply = rendered(reply, path=asked.path, stream=asked.body.get("stream", False))
        await _send(reply, send)


async def _send(reply: Raw, send: Callable[[Json], Any]) -> None:
    pairs = [(name.encode(), value.encode()) for name, value in reply.headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": pairs})
    for piece in reply.pieces:
        if isinstance(piece, Drop):
            raise ConnectionResetError("as the script says")
        if isinstance(piece, float):
            await asyncio.sleep(piece)
        else:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})

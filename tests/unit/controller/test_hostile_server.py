"""A server of models that is out to harm: what it sends is an error that is told, or a conversation that goes on.

Whatever it is, memory stays bounded, nothing runs that was not allowed, and the conversation can be saved and read.
"""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_skills.controller import body, pieces
from sandbox_skills.controller.calls import MAX_CALLS, read_arguments, read_turn
from sandbox_skills.controller.chat import ChatWire
from sandbox_skills.controller.failures import failure_of
from sandbox_skills.controller.json_values import MAX_DEPTH, parsed
from sandbox_skills.controller.loop import Rules, answered, begin, call_done, next_action, started
from sandbox_skills.controller.request import ModelRequest
from sandbox_skills.controller.responses import ResponsesWire
from sandbox_skills.controller.responses_stream import ResponsesAccumulator
from sandbox_skills.controller.state import RunState
from sandbox_skills.errors import ModelAnswerError, ModelError, StreamTruncatedError
from sandbox_skills.outgoing.retry_policy import RetryPolicy
from sandbox_skills.outgoing.sse import LINE_COST, MAX_EVENT, SseDecoder
from sandbox_skills.toolsets.base import Conversation
from tests.model_server import Raw, Say, call, response_events, sse, stream_of, text
from tests.unit.controller.conftest import Echo
from tests.unit.controller.test_reading import EVENTS, JSON

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox_skills.controller.turn import Answer
    from tests.unit.controller.conftest import Model

pytestmark = pytest.mark.anyio

DONE = Say([text("Done.")])
MIB = 2**20


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


async def failure(model: Model, talk: Conversation, *replies: Any, **client: Any) -> ModelError:  # noqa: ANN401
    model.server.script(*replies)
    async with model.controller(client=client) as controller:
        with pytest.raises(ModelError) as caught:
            await controller.run("Do it.", talk)
    return caught.value


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br", "zstd", "x" * 5000])
async def test_a_packing_that_was_not_asked_for_is_refused(
    model: Model, talk: Conversation, encoding: str
) -> None:
    packed = gzip.compress(gzip.compress(b"{}"))
    error = await failure(model, talk, Raw([packed], headers={"content-encoding": encoding}))
    assert isinstance(error, ModelAnswerError)
    assert "not asked for" in error.message
    assert len(error.message) < 150
    assert model.server.asked[0].headers["accept-encoding"] == "gzip"


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress], ids=["gzip", "zlib"])
async def test_what_was_packed_small_is_unpacked_by_the_piece(
    model: Model, talk: Conversation, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(body, "MAX_BODY", MIB // 2)
    bomb = pack(b": \n\n" * (8 * MIB))
    reply = stream_of(bomb, **{"content-encoding": "gzip"})
    tracemalloc.start()
    try:
        error = await failure(model, talk, reply)
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()
    assert isinstance(error, ModelAnswerError)
    assert "more than 0.5 MiB" in error.message


async def test_what_cannot_be_unpacked_is_told(model: Model, talk: Conversation) -> None:
    error = await failure(model, talk, Raw([b"no gzip"], headers={"content-encoding": "gzip"}))
    assert isinstance(error, ModelAnswerError)
    assert "cannot be unpacked" in error.message


@pytest.mark.parametrize(
    "endless",
    [
        b": still here\n\n",
        b'data: {"type": "response.output_text.delta", "delta": "x"}\n\n',
        b'data: {"type": "keepalive"}\n\n',
        b"data:\n",
        b"{",
    ],
    ids=["comments", "text", "unknown", "lines", "whole"],
)
@pytest.mark.parametrize("wire", ["responses", "chat"])
async def test_an_answer_without_end_is_ended(
    model: Model, talk: Conversation, monkeypatch: pytest.MonkeyPatch, endless: bytes, wire: str
) -> None:
    monkeypatch.setattr(body, "MAX_BODY", MIB // 2)
    model.server.script(*[stream_of(*[endless * 1000] * 1000)] * 3)
    async with model.controller(client={"wire": wire}) as controller:
        with anyio.fail_after(15), pytest.raises(ModelAnswerError, match=r"more than 0\.5 MiB"):
            await controller.run("Do it.", talk)
    assert len(model.server.asked) == 1


async def test_json_of_many_small_values_is_refused(
    model: Model, talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body, "MAX_MARKS", 1000)
    error = await failure(model, talk, Raw([b'{"output": [' + b"[]," * 1000 + b"[]]}"]))
    assert isinstance(error, ModelAnswerError)


async def test_an_error_without_end_is_an_error_all_the_same(
    model: Model, talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox_skills.controller.openrouter.ERROR_SECONDS", 0.2)
    slow = Raw([b'{"error": ', 5.0], 403)
    huge = Raw([b"x" * MIB] * 3, 403)
    for reply in (slow, huge):
        with anyio.fail_after(4):
            assert (await failure(model, talk, reply)).status == 403


def test_lines_of_one_byte_count_what_they_take_to_hold() -> None:
    decoder = SseDecoder(ModelAnswerError)
    with pytest.raises(ModelAnswerError):
        decoder.feed(b"data:\n" * (MAX_EVENT // LINE_COST + 1))


def test_a_line_in_single_bytes_is_held_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox_skills.outgoing.sse.MAX_EVENT", 50_000)
    decoder = SseDecoder(ModelAnswerError)
    tracemalloc.start()
    try:
        with pytest.raises(ModelAnswerError):
            all(decoder.feed(b"x") == [] for _ in range(60_000))
        assert tracemalloc.get_traced_memory()[1] < 300_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("key", ["output_index", "content_index"])
def test_parts_without_end_are_refused(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setattr(pieces, "MAX_PARTS", 10)
    accumulator = ResponsesAccumulator()
    events: Any = [{"type": "response.output_text.delta", "delta": "", key: number} for number in range(20)]
    with pytest.raises(ModelAnswerError, match="more than 10 parts"):
        all(accumulator.feed(event) is None for event in events)


def test_calls_of_chunks_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "MAX_PARTS", 10)
    accumulator = ChatWire().accumulator()
    calls: Any = [{"index": number, "id": f"c{number}"} for number in range(20)]
    with pytest.raises(ModelAnswerError, match="more than 10 parts"):
        accumulator.feed({"choices": [{"delta": {"tool_calls": calls}}]})


@pytest.mark.parametrize("depth", [MAX_DEPTH - 5, MAX_DEPTH + 5, 900, 5000, 200_000])
async def test_json_in_json_is_no_bomb(model: Model, talk: Conversation, depth: int) -> None:
    echo = Echo()
    deep = b'data: {"type": "response.unknown", "x": ' + nested(depth).encode() + b"}\n\n"
    arguments = '{"word": "a", "x": ' + nested(depth) + "}"
    events = response_events(Say([call("echo", arguments), call("echo", {"word": "b"})], pieces=1))
    item = b'data: {"type": "response.output_item.done", "output_index": 7, "item": '
    item += b'{"type": "web_search_call", "x": ' + nested(depth).encode() + b"}}\n\n"
    model.server.script(stream_of(sse(deep, item, *events)), DONE)
    async with model.controller(echo.tool()) as controller:
        result = await controller.run("Do it.", talk)
    assert result.text == "Done."
    assert "b" in echo.words
    assert RunState.loads(result.state.dumps()) == result.state


async def test_calls_beyond_the_most_are_told_and_not_run(model: Model, talk: Conversation) -> None:
    echo = Echo()
    model.server.script(Say([call("echo", {"word": str(n)}) for n in range(MAX_CALLS + 3)]), DONE)
    async with model.controller(echo.tool()) as controller:
        result = await controller.run("Do it.", talk)
    assert len(echo.words) == MAX_CALLS
    told = [one["output"] for one in result.state.loop.items if one.get("type") == "function_call_output"]
    assert sum("was not run" in str(one) for one in told) == 3


def test_arguments_that_are_many_objects_are_read_in_linear_time() -> None:
    with pytest.raises(ValueError, match="not what JSON can be"):
        read_arguments("{}" * 2_000_000)
    with pytest.raises(ValueError, match="not JSON"):
        read_arguments("\N{ZERO WIDTH SPACE}" * 5_000_000)


def test_numbers_that_would_be_infinite_are_none() -> None:
    assert parsed('{"a": [1e999, -1e999, 1.5]}') == {"a": [None, None, 1.5]}
    with pytest.raises(ValueError, match="not what JSON can be"):
        read_arguments('{"a": 1e999}')


async def test_figures_that_nobody_can_print_are_none(model: Model, talk: Conversation) -> None:
    usage = '{"input_tokens": 9%s, "output_tokens": -5, "cost": 1e308}' % ("9" * 4200)
    item = json.dumps(call("echo"))
    answer = f'{{"output": [{item}], "usage": {usage}, "model": "{"m" * 5000}"}}'.encode()
    model.server.script(*[Raw([answer])] * 3, DONE)
    async with model.controller(Echo().tool(), client={"stream": False}) as controller:
        result = await controller.run("Do it.", talk)
    assert result.usage.input_tokens == 100  # of the last answer alone
    assert len(json.dumps(result.as_dict(), allow_nan=False)) < 1000
    assert len(result.state.model) <= 200
    assert RunState.loads(result.state.dumps()) == result.state


HEADERS = st.dictionaries(
    st.sampled_from(["retry-after", "retry-after-ms", "x-ratelimit-reset"]),
    st.text(max_size=20)
    | st.sampled_from(["Mon, 01 Jan 99999999999 00:00:00 GMT", "Fri, 31 Dec 0001 23:59:59 +9999", "-1e308"])
    | st.from_regex(r"\A[A-Z][a-z]{2}, \d{1,3} [A-Z][a-z]{2} \d{1,12} \d{1,3}:\d\d:\d\d [+-]\d{1,9}\Z"),
)


@given(HEADERS)
def test_any_hint_of_when_to_come_back_is_seconds_or_nothing(headers: dict[str, str]) -> None:
    error = failure_of(429, headers, {"error": {"message": "m", "metadata": {"headers": headers}}})
    assert error.retry_after is None or error.retry_after >= 0


ITEM: Any = st.dictionaries(
    st.sampled_from(
        [
            "type",
            "id",
            "call_id",
            "name",
            "arguments",
            "status",
            "role",
            "content",
            "reasoning_details",
            "output",
        ]
    ),
    JSON
    | st.sampled_from(["function_call", "function_call_output", "message", "reasoning", "user", "completed"])
    | st.sampled_from([[], {}, [{}], [[]]]),
    max_size=7,
)


@pytest.mark.slow
@pytest.mark.timeout(90)
@settings(max_examples=50, deadline=None)
@given(st.lists(ITEM, max_size=6), st.lists(EVENTS, max_size=3))
def test_whatever_an_answer_holds_the_conversation_goes_on(
    items: list[dict[str, Any]], events: list[dict[str, Any]]
) -> None:
    """Saved, read back, trimmed of calls, and sent again over either wire."""
    accumulator = ResponsesAccumulator()
    done = [
        {"type": "response.output_item.done", "output_index": n, "item": one} for n, one in enumerate(items)
    ]
    try:
        for event in [*events, *done]:
            accumulator.feed(event)
        accumulator.feed({"type": "response.completed", "response": {"output": [*items]}})
        answer = accumulator.end()
    except ModelError:
        return
    check_that_it_goes_on(answer)


DELTA: Any = st.dictionaries(
    st.sampled_from(["content", "reasoning_details", "tool_calls", "refusal", "reasoning", "role"]),
    JSON
    | st.lists(
        st.dictionaries(
            st.sampled_from(["index", "id", "type", "function", "text", "summary"]),
            JSON | st.dictionaries(st.sampled_from(["name", "arguments"]), JSON, max_size=2),
            max_size=4,
        ),
        max_size=3,
    ),
    max_size=4,
)
REASON = st.none() | st.sampled_from(["stop", "tool_calls", "length", "content_filter"]) | JSON


@pytest.mark.slow
@pytest.mark.timeout(90)
@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(DELTA, REASON), max_size=4), JSON)
def test_whatever_a_completion_holds_the_conversation_goes_on(
    chunks: list[tuple[Any, Any]],
    usage: Any,  # noqa: ANN401  # any JSON
) -> None:
    wire = ChatWire()
    accumulator = wire.accumulator()
    try:
        for delta, reason in chunks:
            accumulator.feed({"choices": [{"delta": delta, "finish_reason": reason}], "usage": usage})
        check_that_it_goes_on(accumulator.end())
    except ModelError:
        pass
    for delta, reason in chunks:
        try:
            whole = wire.answer({"choices": [{"message": delta, "finish_reason": reason}], "usage": usage})
        except ModelError:
            continue
        check_that_it_goes_on(whole)


def check_that_it_goes_on(answer: Answer) -> None:
    rules, state = Rules(), begin(RunState(Conversation("c", "t")).loop, [{"role": "user", "content": "Hi."}])
    state = answered(state, read_turn(answer, state.items), rules)
    saved = RunState(Conversation("c", "t"), state)
    assert RunState.loads(saved.dumps()) == saved
    ids = [one.call.id for one in state.pending if one.status == "open"]
    if ids:
        state = started(state, ids)
    for call_id in ids:
        state = call_done(state, call_id, "output", rules, remember=False)
    next_action(state)
    ended = RunState(Conversation("c", "t"), begin(state, [{"role": "user", "content": "And?"}]))
    assert RunState.loads(ended.dumps()) == ended
    for wire in (ResponsesWire(), ChatWire()):
        json.dumps(wire.body(ModelRequest("m", ended.loop.items), stream=True), allow_nan=False)


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
NO_HTTP = {
    "nothing": (),
    "garbage": (b"\x00\xff\x1b[2J no HTTP\r\n\r\n",),
    "endless headers": (HEAD, *[b"X-A: b\r\n" * 1000] * 1000),
    "one endless header": (HEAD, b"X-A: ", *[b"b" * 65536] * 100),
    "switched": (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",),
    "shorter than said": (HEAD + b'Content-Length: 500\r\n\r\n{"a": 1',),
    "negative length": (HEAD + b"Content-Length: -5\r\n\r\n",),
    "two lengths": (HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",),
    "endless extension": (CHUNKED + b"1;", *[b"x" * 65536] * 100),
    "endless trailers": (CHUNKED + b"0\r\n", *[b"X-T: y\r\n" * 1000] * 1000),
    "no chunk": (CHUNKED + b"\x1b[31m\r\n",),
}


@pytest.mark.parametrize("pieces_sent", NO_HTTP.values(), ids=NO_HTTP.keys())
async def test_what_is_no_http_is_a_torn_answer(model: Model, pieces_sent: tuple[bytes, ...]) -> None:
    async def serve(stream: anyio.abc.SocketStream) -> None:
        with suppress(anyio.BrokenResourceError, anyio.EndOfStream):
            async with stream:
                await stream.receive()
                for piece in pieces_sent:
                    await stream.send(piece)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        retry = RetryPolicy(attempts=1)
        async with model.client(base_url=f"http://127.0.0.1:{port}", retry=retry) as client:
            with anyio.fail_after(10), pytest.raises(StreamTruncatedError) as caught:
                await client.ask(ModelRequest("m", ({"role": "user", "content": "Hi."},)))
        group.cancel_scope.cancel()
    assert len(caught.value.message) < 200
    assert caught.value.message.isprintable()

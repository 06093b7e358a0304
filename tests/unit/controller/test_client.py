"""The client over a real server: both wires, faults of all kinds, retries, and the key."""

from __future__ import annotations

import gzip
import json
import ssl
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from sandbox_skills.controller.client_options import ClientOptions
from sandbox_skills.controller.events import ReasoningDelta, TextDelta, TurnRestarted
from sandbox_skills.controller.openrouter import OpenRouterClient
from sandbox_skills.controller.request import ModelRequest, NamedTool, ToolDefinition
from sandbox_skills.controller.turn import text_of
from sandbox_skills.errors import (
    BudgetError,
    ModelAnswerError,
    ModelError,
    ModelRefusedError,
    ModelUnavailableError,
    SettingsError,
    StreamTruncatedError,
)
from sandbox_skills.outgoing.retry_policy import RetryPolicy
from tests.model_server import (
    Drop,
    Raw,
    Say,
    call,
    reasoning,
    refusal,
    rendered,
    response_events,
    sse,
    stream_of,
    text,
)
from tests.unit.controller.conftest import KEY, QUICK

if TYPE_CHECKING:
    from sandbox_skills.controller.openrouter import Listener
    from sandbox_skills.controller.turn import Answer
    from tests.unit.controller.conftest import Model

pytestmark = pytest.mark.anyio

REQUEST = ModelRequest("scripted/model", ({"role": "user", "content": "Hi."},))
WIRES = pytest.mark.parametrize("wire", ["responses", "chat"])
STREAMS = pytest.mark.parametrize("stream", [True, False])


async def ask(model: Model, listener: Listener | None = None, **options: Any) -> Answer:  # noqa: ANN401  # as ClientOptions
    async with model.client(**options) as client:
        return await client.ask(REQUEST, listener)


async def failure(model: Model, **options: Any) -> ModelError:  # noqa: ANN401  # as ClientOptions
    with pytest.raises(ModelError) as caught:
        await ask(model, **options)
    return caught.value


@WIRES
@STREAMS
async def test_an_answer_is_the_same_however_it_comes(model: Model, wire: str, stream: object) -> None:
    model.server.script(Say([text("Grüße 🌍"), call("look", {"where": "dü"}, "call_1")]))
    heard: list[object] = []
    answer = await ask(model, heard.append, wire=wire, stream=stream)
    assert text_of(answer.items) == "Grüße 🌍"
    (made,) = [item for item in answer.items if item["type"] == "function_call"]
    assert (made["name"], json.loads(str(made["arguments"])), made["call_id"]) == (
        "look",
        {"where": "dü"},
        "call_1",
    )
    usage = answer.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cost, usage.cached_tokens) == (100, 20, 0.001, 40)
    assert answer.model == "scripted/model"
    assert answer.id.startswith("gen-")
    pieces = [one.text for one in heard if isinstance(one, TextDelta)]
    assert "".join(pieces) == ("Grüße 🌍" if stream else "")


@WIRES
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
async def test_a_stream_may_be_cut_anywhere(model: Model, wire: str, size: int) -> None:
    path = "/chat/completions" if wire == "chat" else "/responses"
    whole = b"".join(rendered(Say([text("Grüße 🌍")]), path=path, stream=True).pieces)  # type: ignore[arg-type]
    model.server.script(stream_of(*[whole[n : n + size] for n in range(0, len(whole), size)]))
    assert text_of((await ask(model, wire=wire)).items) == "Grüße 🌍"


@pytest.mark.parametrize("line_end", [b"\r\n", b"\r"])
async def test_line_ends_of_any_kind(model: Model, line_end: bytes) -> None:
    whole = sse(*response_events(Say([text("Hello")]))).replace(b"\n", line_end)
    model.server.script(stream_of(*[whole[n : n + 5] for n in range(0, len(whole), 5)]))
    assert text_of((await ask(model)).items) == "Hello"


async def test_gzip_and_a_wrong_content_type(model: Model) -> None:
    whole = sse(*response_events(Say([text("Hello")])))
    headers = {"content-encoding": "gzip", "content-type": "text/plain"}
    model.server.script(Raw([gzip.compress(whole)], headers=headers))
    assert text_of((await ask(model)).items) == "Hello"


@WIRES
async def test_a_server_that_does_not_stream_is_understood(model: Model, wire: str) -> None:
    model.server.script(lambda asked: rendered(Say([text("Whole")]), path=asked.path, stream=False))
    assert text_of((await ask(model, wire=wire)).items) == "Whole"


@pytest.mark.parametrize(
    "reply",
    [
        stream_of(b"", Drop()),
        stream_of(b'data: {"type": "response.crea', Drop()),
        stream_of(sse(*list(response_events(Say([text("Hello")])))[:4], done=False)),
        stream_of(sse(*list(response_events(Say([call("look")])))[:-1], done=False)),
        Raw([b"<html>502</html>"], headers={"content-type": "text/html"}),
        Raw([]),
        refusal(502, b"<html>bad gateway</html>"),
        refusal(524, b""),
        refusal(429, {"error": {"code": 429, "message": "slow down"}}, **{"retry-after": "0.01"}),
        refusal(
            200, {"error": {"code": 502, "message": "down", "metadata": {"provider_name": "P", "raw": "x"}}}
        ),
        refusal(200, {"status": "failed", "error": {"code": "server_error", "message": "m"}, "output": []}),
    ],
)
async def test_what_may_pass_is_asked_again_and_the_consumer_is_told(model: Model, reply: Raw) -> None:
    model.server.script(reply, Say([text("Hello")]))
    heard: list[object] = []
    answer = await ask(model, heard.append)
    assert text_of(answer.items) == "Hello"
    assert len(model.server.asked) == 2
    shown = ""
    for one in heard:
        shown = (
            ""
            if isinstance(one, TurnRestarted)
            else shown + one.text
            if isinstance(one, TextDelta)
            else shown
        )
    assert shown == "Hello"


async def test_nobody_is_told_of_a_restart_who_has_seen_nothing(model: Model) -> None:
    broken = list(response_events(Say([text("Hello")])))[:5]
    model.server.script(refusal(503, b""), stream_of(sse(*broken, done=False)), Say([text("Hello")]))
    heard: list[object] = []
    await ask(model, heard.append)
    assert [type(one) for one in heard] == [TextDelta] * 2 + [TurnRestarted] + [TextDelta] * 3


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (refusal(400, {"error": {"code": 400, "message": "no"}}), ModelRefusedError),
        (refusal(401, {"error": {"code": 401, "message": "no"}}), ModelRefusedError),
        (refusal(402, {"error": {"code": 402, "message": "no"}}), BudgetError),
        (refusal(404, {"error": {"message": "no", "error_type": "not_found"}}), ModelRefusedError),
        (refusal(200, {"object": "list"}), ModelAnswerError),
    ],
)
async def test_what_will_not_pass_is_asked_once(model: Model, reply: Raw, kind: type[ModelError]) -> None:
    model.server.script(reply)
    error = await failure(model)
    assert type(error) is kind
    assert not error.retryable
    assert len(model.server.asked) == 1


async def test_attempts_are_counted_and_the_last_error_is_raised(model: Model) -> None:
    model.server.script(*[refusal(503, {"error": {"code": 503, "message": f"no {n}"}}) for n in range(3)])
    error = await failure(model)
    assert isinstance(error, ModelUnavailableError)
    assert error.message == "no 2"


async def test_a_wait_beyond_the_budget_is_not_waited(model: Model) -> None:
    model.server.script(refusal(429, {"error": {"code": 429, "message": "later"}}, **{"retry-after": "3600"}))
    with anyio.fail_after(5):
        error = await failure(model)
    assert error.retry_after == 3600
    assert len(model.server.asked) == 1


async def test_silence_has_its_end(model: Model) -> None:
    model.server.script(stream_of(sse(next(response_events(Say([]))), done=False), 0.5))
    policy = RetryPolicy(attempts=1)
    error = await failure(model, idle_seconds=0.1, retry=policy)
    assert isinstance(error, ModelUnavailableError)
    model.server.script(stream_of(*[piece for _ in range(10) for piece in (b": \n\n", 0.05)]))
    error = await failure(model, answer_seconds=0.2, retry=policy)
    assert "more than 0.2 seconds" in error.message


async def test_nobody_there_is_told_with_the_host() -> None:
    async with OpenRouterClient(ClientOptions(base_url="http://127.0.0.1:9", retry=QUICK)) as client:
        with pytest.raises(ModelUnavailableError, match=r"127\.0\.0\.1:9 does not answer"):
            await client.ask(REQUEST)


async def test_reasoning_is_heard(model: Model) -> None:
    delta = {
        "type": "response.reasoning_summary_text.delta",
        "delta": "Hm",
        "output_index": 0,
        "summary_index": 0,
    }
    events = list(response_events(Say([reasoning(), text("Yes.")])))
    model.server.script(stream_of(sse(*events[:2], delta, *events[2:])))
    heard: list[object] = []
    await ask(model, heard.append)
    assert heard[0] == ReasoningDelta("Hm")


async def test_a_cancel_closes_the_connection(model: Model) -> None:
    model.server.script(stream_of(b": \n\n", 5.0), Say([text("Next")]))
    async with model.client() as client:
        with anyio.move_on_after(0.2) as scope:
            await client.ask(REQUEST)
        assert scope.cancelled_caught
        assert text_of((await client.ask(REQUEST)).items) == "Next"


async def test_an_answer_that_has_ended_keeps_its_connection(model: Model) -> None:
    model.server.default = lambda _: Say([text("Hello")])
    async with model.client() as client:
        for _ in range(5):
            await client.ask(REQUEST)
        assert client._http is not None
        pool = client._http._transport._pool  # type: ignore[attr-defined]
        assert len(pool.connections) == 1


@WIRES
async def test_a_request_has_what_is_set_and_no_null(model: Model, wire: str) -> None:
    model.server.script(Say([text("Yes.")]))
    request = ModelRequest(
        "a/b",
        ({"role": "user", "content": "Hi."},),
        instructions="Be brief.",
        tools=(ToolDefinition("look", "Looks.", {"type": "object", "properties": {}}),),
        tool_choice=NamedTool("look"),
        parallel_tool_calls=False,
        fallbacks=("c/d",),
        provider={"order": ["x"]},
        session_id="s",
        more={"seed": None, "top_p": 0.5},
    )
    async with model.client(wire=wire) as client:
        await client.ask(request)
    (asked,) = model.server.asked
    body = asked.body
    assert "null" not in json.dumps(body)
    assert body["models"] == ["a/b", "c/d"]
    assert body["provider"] == {"order": ["x"]}
    assert body["parallel_tool_calls"] is False
    assert body["top_p"] == 0.5
    assert asked.tools == ["look"]
    chat = wire == "chat"
    named = {"function": {"name": "look"}} if chat else {"name": "look"}
    assert body["tool_choice"] == {"type": "function", **named}
    assert body["max_tokens" if chat else "max_output_tokens"] == 16_384
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.headers["x-openrouter-title"] == "sandbox-skills"
    assert "referer" not in " ".join(asked.headers)


async def test_an_item_of_another_wire_is_not_sent(model: Model) -> None:
    model.server.script(Say([text("Yes.")]))
    item: dict[str, Any] = {"type": "reasoning", "reasoning_details": []}
    async with model.client() as client:
        await client.ask(ModelRequest("m", ({"role": "user", "content": "Hi."}, item)))
    assert len(model.server.bodies[0]["input"]) == 1


@pytest.mark.parametrize("address", ["ftp://host/v1", "no address", "https://", ""])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(SettingsError, match="no http"):
        OpenRouterClient(ClientOptions(base_url=address))


def test_a_key_is_not_sent_in_the_open() -> None:
    with pytest.raises(SettingsError, match="not encrypted"):
        OpenRouterClient(ClientOptions(base_url="http://models.example/v1", api_key=KEY))
    OpenRouterClient(ClientOptions(base_url="http://models.example/v1"))


@pytest.mark.parametrize("address", ["https://models.example/v1", "HTTPS://models.example/v1"])
async def test_certificates_are_checked(address: str) -> None:
    async with OpenRouterClient(ClientOptions(base_url=address)) as client:
        context = client._client()._transport._pool._ssl_context  # type: ignore[attr-defined]
        assert context.verify_mode is ssl.CERT_REQUIRED


async def test_the_environment_has_no_say(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    model.server.script(Say([text("Yes.")]))
    assert text_of((await ask(model)).items) == "Yes."


def test_truncated_is_a_kind_of_unavailable() -> None:
    assert issubclass(StreamTruncatedError, ModelUnavailableError)

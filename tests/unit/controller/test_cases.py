"""The thirty-eight cases in which loops of this kind were seen to fail elsewhere, each over a real server.

The numbers are those of the project's notes on OpenRouter; what each is about stands in its name.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from sandbox_skills.controller.client_options import ClientOptions
from sandbox_skills.controller.controller import Controller
from sandbox_skills.controller.history import DROPPED
from sandbox_skills.controller.openrouter import OpenRouterClient
from sandbox_skills.controller.options import ControllerOptions
from sandbox_skills.controller.own_tools import OwnTool, function_tool
from sandbox_skills.controller.request import with_few_marks
from sandbox_skills.errors import (
    BudgetError,
    ContextOverflowError,
    ModelAnswerError,
    ModelError,
    ModelRefusedError,
    ModelUnavailableError,
    SettingsError,
    StreamTruncatedError,
)
from tests.model_server import (
    Raw,
    Say,
    call,
    completion_chunks,
    reasoning,
    refusal,
    response_events,
    sse,
    stream_of,
    text,
)
from tests.unit.controller.conftest import KEY, Echo, Word

if TYPE_CHECKING:
    from sandbox_skills.controller.result import RunResult
    from sandbox_skills.toolsets.base import Conversation
    from tests.unit.controller.conftest import Model

    Json = dict[str, Any]

pytestmark = pytest.mark.anyio

DONE = Say([text("Done.")])


async def run(
    model: Model,
    talk: Conversation,
    *replies: Any,  # noqa: ANN401  # as ModelServer.script
    echo: Echo | None = None,
    **options: Any,  # noqa: ANN401  # as ControllerOptions
) -> RunResult:
    model.server.script(*replies)
    async with model.controller((echo or Echo()).tool(), **options) as controller:
        return await controller.run("Do it.", talk)


async def failure(model: Model, talk: Conversation, *replies: Any, **options: Any) -> ModelError:  # noqa: ANN401  # as run
    with pytest.raises(ModelError) as caught:
        await run(model, talk, *replies, **options)
    return caught.value


def outputs(body: Json) -> dict[str, str]:
    return {
        one["call_id"]: one["output"] for one in body["input"] if one.get("type") == "function_call_output"
    }


def calls(body: Json) -> list[Json]:
    return [one for one in body["input"] if one.get("type") == "function_call"]


async def test_case_01_malformed_arguments_are_told_and_corrected_at_most_twice(
    model: Model, talk: Conversation
) -> None:
    echo = Echo()
    bad = [Say([call("echo", '{"word": ' + "x" * 2000, f"c{n}")]) for n in range(3)]
    result = await run(model, talk, *bad, DONE, echo=echo)
    assert echo.words == []
    assert (result.stop, result.text) == ("malformed_calls", "Done.")
    told = outputs(model.server.bodies[1])["c0"]
    assert "not JSON" in told
    assert len(told) < 700
    assert model.server.bodies[3]["tool_choice"] == "none"


async def test_case_02_malformed_arguments_are_not_sent_again(model: Model, talk: Conversation) -> None:
    await run(model, talk, Say([call("echo", '{"word": ')]), DONE)
    assert calls(model.server.bodies[1])[0]["arguments"] == "{}"


@pytest.mark.parametrize("raw", ["", "  ", None])
async def test_case_03_empty_arguments_are_none(model: Model, talk: Conversation, raw: object) -> None:
    echo = Echo()
    await run(model, talk, Say([{**call("echo"), "arguments": raw or ""}]), DONE, echo=echo)
    assert echo.words == ["nothing"]


@pytest.mark.parametrize(
    ("raw", "words"), [({"word": "a"}, ["a"]), (None, ["nothing"]), ("[1]", []), ('"text"', []), ("7", [])]
)
async def test_case_04_an_object_is_taken_and_lists_and_scalars_are_not(
    model: Model, talk: Conversation, raw: object, words: list[str]
) -> None:
    echo = Echo()
    model.server.script(
        lambda _: Raw([json.dumps({"output": [{**call("echo"), "arguments": raw}]}).encode()]), DONE
    )
    async with model.controller(echo.tool(), client={"stream": False}) as controller:
        await controller.run("Do it.", talk)
    assert echo.words == words


@pytest.mark.parametrize("end", ["done", "item", "deltas"])
async def test_case_05_arguments_that_come_twice_count_once(
    model: Model, talk: Conversation, end: str
) -> None:
    echo = Echo()
    item = call("echo", {"word": "a"})
    events = list(response_events(Say([item], pieces=1)))
    deltas = [one for one in events if one["type"].endswith("arguments.delta")]
    doubled = {**deltas[0], "delta": '{}{"word": "a"}'}
    bare = {**item, "arguments": "" if end == "deltas" else item["arguments"]}
    last = {**events[-1], "response": {**events[-1]["response"], "output": []}}
    chosen = [events[0], events[2], doubled]
    chosen += [one for one in events if one["type"].endswith("arguments.done")] if end == "done" else []
    chosen += [{"type": "response.output_item.done", "output_index": 0, "item": bare}, last]
    await run(model, talk, stream_of(sse(*chosen)), DONE, echo=echo)
    assert echo.words == ["a"]


async def test_case_06_a_call_that_was_cut_is_not_run(model: Model, talk: Conversation) -> None:
    echo = Echo()
    cut = Say([call("echo", "", status="incomplete")], incomplete="max_output_tokens")
    result = await run(
        model, talk, cut, Say([call("echo", "{}", "c2", status="in_progress")]), DONE, echo=echo
    )
    assert echo.words == []
    assert all("cut off" in one for one in outputs(model.server.bodies[2]).values())
    assert result.stop == "completed"


async def test_case_07_a_call_id_that_comes_twice_is_two_calls(model: Model, talk: Conversation) -> None:
    echo = Echo()
    twice = Say([call("echo", {"word": "a"}, "same"), call("echo", {"word": "b"}, "same")])
    await run(model, talk, twice, Say([call("echo", {"word": "c"}, "same")]), DONE, echo=echo)
    assert sorted(echo.words) == ["a", "b", "c"]
    body = model.server.bodies[2]
    ids = [one["call_id"] for one in calls(body)]
    assert len(set(ids)) == 3
    assert [outputs(body)[one] for one in ids] == ["echo a", "echo b", "echo c"]


async def test_case_08_an_item_id_that_comes_twice_is_dropped(model: Model, talk: Conversation) -> None:
    one, two = (Say([{**call("echo", call_id=f"c{n}"), "id": "fc_2"}]) for n in range(2))
    await run(model, talk, one, two, DONE)
    assert [item.get("id") for item in calls(model.server.bodies[2])] == ["fc_2", None]


async def test_case_09_an_item_without_an_id_is_known_by_its_call_id(
    model: Model, talk: Conversation
) -> None:
    echo = Echo()
    item = {key: value for key, value in call("echo", {"word": "a"}, "c1").items() if key != "id"}
    await run(model, talk, Say([item]), DONE, echo=echo)
    assert outputs(model.server.bodies[1]) == {"c1": "echo a"}


async def test_case_10_a_long_call_id_is_shortened_on_both_sides(model: Model, talk: Conversation) -> None:
    await run(model, talk, Say([call("echo", {"word": "a"}, "x" * 80)]), DONE)
    body = model.server.bodies[1]
    (made,) = calls(body)
    assert len(made["call_id"]) <= 64
    assert outputs(body) == {made["call_id"]: "echo a"}


async def test_case_11_an_unknown_tool_is_told_with_the_tools_there_are(
    model: Model, talk: Conversation
) -> None:
    result = await run(model, talk, Say([call("no such tool!", call_id="c1")]), DONE)
    body = model.server.bodies[1]
    assert "The tools are: echo" in outputs(body)["c1"]
    assert calls(body)[0]["name"] == "no_such_tool_"
    assert result.stop == "completed"


async def test_case_12_the_same_tool_twice_in_an_answer_is_run_twice(
    model: Model, talk: Conversation
) -> None:
    echo = Echo()
    await run(model, talk, Say([call("echo", {"word": "a"}), call("echo", {"word": "a"})]), DONE, echo=echo)
    assert echo.words == ["a", "a"]


async def test_case_13_a_call_without_output_is_mended_once(model: Model, talk: Conversation) -> None:
    no_output = refusal(
        400, {"error": {"code": 400, "message": "No tool output found for function call c9."}}
    )
    model.server.script(no_output, DONE)
    async with model.controller(Echo().tool()) as controller:
        history = [
            {"role": "user", "content": "Hi."},
            call("echo", call_id="c9"),
            {"role": "user", "content": "Go."},
        ]
        result = await controller.run(history, talk)
    assert result.text == "Done."
    assert [set(outputs(body)) for body in model.server.bodies] == [{"c9"}, {"c9"}]


@pytest.mark.parametrize("words", ["<tool_call>{}</tool_call>", '<invoke name="echo">', "<function=echo>"])
async def test_case_14_a_call_written_as_text_is_not_run_and_asked_again_once(
    model: Model, talk: Conversation, words: str
) -> None:
    echo = Echo()
    result = await run(model, talk, Say([text(words)]), DONE, echo=echo)
    assert (result.text, echo.words) == ("Done.", [])
    assert words not in json.dumps(model.server.bodies[1])
    again = await run(model, talk, Say([text(words)]), Say([text(words)]), echo=echo)
    assert again.text == words


SIGNATURES = [
    "messages.3.content.0: Invalid `signature` in `thinking` block",
    "Function call is missing a thought_signature",
    "invalid_encrypted_content: the encrypted content could not be verified",
]


@pytest.mark.parametrize("message", SIGNATURES)
async def test_case_15_reasoning_that_is_refused_is_dropped_once(
    model: Model, talk: Conversation, message: str
) -> None:
    raw = {"provider_name": "Anthropic", "raw": json.dumps({"error": {"message": message}})}
    refused = refusal(400, {"error": {"code": 400, "message": "Provider returned error", "metadata": raw}})
    thinking = reasoning("Hm.", encrypted_content="abc", signature="s")
    result = await run(model, talk, Say([thinking, call("echo")]), refused, DONE)
    assert result.text == "Done."
    assert thinking in model.server.bodies[1]["input"]
    assert thinking not in model.server.bodies[2]["input"]
    error = await failure(model, talk, Say([thinking, call("echo")]), refused, refused)
    assert isinstance(error, ModelRefusedError)


async def test_case_16_a_conversation_stays_with_one_provider(model: Model, talk: Conversation) -> None:
    await run(model, talk, Say([reasoning(), call("echo")]), DONE)
    assert [body["session_id"] for body in model.server.bodies] == ["talk", "talk"]
    await run(model, talk, DONE, sticky=False)
    assert "session_id" not in model.server.bodies[2]


async def test_case_17_reasoning_of_another_model_is_dropped(model: Model, talk: Conversation) -> None:
    first, second = reasoning("One."), reasoning("Two.")
    model.server.script(
        Say([first, call("echo")]),
        Say([second, call("echo")], model="fallback/model"),
        Say([text("Done.")], model="fallback/model"),
    )
    async with model.controller(Echo().tool(), fallbacks=("fallback/model",)) as controller:
        await controller.run("Do it.", talk)
    assert first in model.server.bodies[1]["input"]
    sent = model.server.bodies[2]["input"]
    assert first not in sent
    assert second in sent


async def test_case_18_reasoning_goes_back_in_its_place_byte_for_byte(
    model: Model, talk: Conversation
) -> None:
    secret = "A+/=" * 100 + ".eyJlbmRwb2ludF9zbHVnIjoiIn0"
    items = [reasoning("One.", encrypted_content=secret), text("So:"), reasoning("Two."), call("echo")]
    await run(model, talk, Say(items), DONE)
    sent = model.server.bodies[1]["input"]
    assert sent[1 : 1 + len(items)] == items


async def test_case_19_an_end_without_an_end_counts_only_where_all_is_there(
    model: Model, talk: Conversation
) -> None:
    whole = list(response_events(Say([text("Hello.")])))[:-1]
    result = await run(model, talk, stream_of(sse(*whole, done=False)))
    assert result.text == "Hello."
    broken = [
        list(response_events(Say([text("Hello.")])))[:-2],
        list(response_events(Say([call("echo")])))[:-1],
    ]
    for events in broken:
        echo = Echo()
        error = await failure(model, talk, *[stream_of(sse(*events, done=False))] * 3, echo=echo)
        assert isinstance(error, StreamTruncatedError)
        assert error.retryable
        assert echo.words == []


async def test_case_20_an_end_without_output_has_what_was_streamed(model: Model, talk: Conversation) -> None:
    echo = Echo()
    events = list(response_events(Say([text("Look:"), call("echo", {"word": "a"})])))
    last = {"type": "response.completed", "response": {"id": "gen-1", "status": "completed"}}
    await run(model, talk, stream_of(sse(*events[:-1], last)), DONE, echo=echo)
    assert echo.words == ["a"]
    assert model.server.bodies[1]["input"][1]["content"][0]["text"] == "Look:"


@pytest.mark.parametrize("wire", ["responses", "chat"])
async def test_case_21_a_slow_end_is_not_waited_for(model: Model, talk: Conversation, wire: str) -> None:
    chat = wire == "chat"
    events = completion_chunks(Say([text("Hello.")])) if chat else response_events(Say([text("Hello.")]))
    model.server.script(stream_of(sse(*events, done=False), 5.0))
    async with model.controller(client={"wire": wire}) as controller:
        with anyio.fail_after(2):
            result = await controller.run("Do it.", talk)
    assert result.text == "Hello."


async def test_case_22_unknown_events_are_passed_over(model: Model, talk: Conversation) -> None:
    odd: list[Json | bytes] = [
        {"type": "response.keep_alive"},
        {"type": "keepalive", "sequence_number": 3},
        {"type": "response.fusion_call.progress", "output_index": 7, "delta": {"x": 1}},
        {"type": 5},
        b"data: not json\n\n",
        b'data: ["a", "list"]\n\n',
        b"event: ping\nid: 7\nretry: 10\n\n",
    ]
    events: list[Json | bytes] = []
    for event in response_events(Say([text("Hello.")])):
        events += [event, *odd]
    assert (await run(model, talk, stream_of(sse(*events)))).text == "Hello."


async def test_case_23_comments_are_passed_over(model: Model, talk: Conversation) -> None:
    events: list[Json | bytes] = [b": OPENROUTER PROCESSING\n\n", b": \n\n"]
    for event in response_events(Say([text("Hello.")])):
        events += [event, b": \n\n", b":\n"]
    assert (await run(model, talk, stream_of(sse(*events)))).text == "Hello."


@pytest.mark.parametrize("wire", ["responses", "chat"])
@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": 403, "message": "flagged"}},
        {"error": {"code": "invalid_prompt", "message": "flagged"}, "metadata": None},
        {
            "status": "failed",
            "error": {"code": "x", "message": "flagged"},
            "error_type": "refusal",
            "output": [],
        },
    ],
)
async def test_case_24_an_error_with_status_200_is_an_error(
    model: Model, talk: Conversation, wire: str, body: Json
) -> None:
    for stream in (True, False):
        error = await failure(model, talk, refusal(200, body), client={"wire": wire, "stream": stream})
        assert isinstance(error, ModelRefusedError)
        assert error.message == "flagged"


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "code": "server_error", "message": "broke", "param": None},
        {"type": "error", "error": {"code": 502, "message": "broke"}},
        {"type": "response.error", "error": {"code": "server_error", "message": "broke"}},
        {
            "type": "response.failed",
            "response": {"status": "failed", "error": {"code": "server_error", "message": "broke"}},
        },
        {"error": {"code": 502, "message": "broke"}},
        {
            "type": "response.completed",
            "response": {"status": "completed", "error": {"code": 500, "message": "broke"}},
        },
    ],
)
async def test_case_25_an_error_in_the_middle_of_a_stream_is_no_success(
    model: Model, talk: Conversation, event: Json
) -> None:
    events = list(response_events(Say([text("Hello.")])))[:5]
    error = await failure(model, talk, *[stream_of(sse(*events, event))] * 3)
    assert isinstance(error, ModelUnavailableError)
    assert error.message == "broke"


@pytest.mark.parametrize("reason", ["error", None])
async def test_case_25_an_error_in_a_chunk_is_an_error_whatever_the_reason(
    model: Model, talk: Conversation, reason: str | None
) -> None:
    chunks = list(completion_chunks(Say([text("Hello.")])))[:3]
    choice = {"index": 0, "delta": {"content": ""}, "finish_reason": reason}
    broken = {"error": {"code": 502, "message": "broke"}, "choices": [choice]}
    error = await failure(model, talk, *[stream_of(sse(*chunks, broken))] * 3, client={"wire": "chat"})
    assert error.message == "broke"


async def test_case_26_what_the_provider_said_is_told(model: Model, talk: Conversation) -> None:
    metadata = {
        "provider_name": "Some Cloud",
        "raw": "tools.0.name: too long " + "x" * 5000,
        "previous_errors": [{"code": 429, "message": "busy"}],
    }
    body = {"error": {"code": 400, "message": "Provider returned error", "metadata": metadata}}
    error = await failure(model, talk, refusal(400, body))
    assert "Some Cloud; tools.0.name: too long" in error.message
    assert len(error.provider) <= 500


@pytest.mark.parametrize(
    "message", ["No endpoints found that support tool use", "No endpoints found that support the tool_choice"]
)
async def test_case_27_a_model_without_tools_is_not_asked_again(
    model: Model, talk: Conversation, message: str
) -> None:
    error = await failure(model, talk, refusal(404, {"error": {"code": 404, "message": message}}))
    assert isinstance(error, ModelRefusedError)
    assert "model.name" in error.hint
    assert len(model.server.asked) == 1


async def test_case_28_no_credit_is_no_reason_to_ask_again(model: Model, talk: Conversation) -> None:
    message = "This request requires more credits, or fewer max_tokens. You requested up to 16384"
    error = await failure(model, talk, refusal(402, {"error": {"code": 402, "message": message}}))
    assert isinstance(error, BudgetError)
    assert "max_output_tokens" in error.hint
    assert len(model.server.asked) == 1
    assert model.server.bodies[0]["max_output_tokens"] == 16_384


OVERFLOW = {
    "error": {"code": 400, "message": "too long", "metadata": {"error_type": "context_length_exceeded"}}
}


async def test_case_29_a_conversation_that_is_too_long_is_trimmed_once(
    model: Model, talk: Conversation
) -> None:
    looks = [Say([call("echo", {"word": str(n)}, f"c{n}")]) for n in range(3)]
    result = await run(model, talk, *looks, refusal(400, OVERFLOW), DONE)
    assert result.text == "Done."
    assert outputs(model.server.bodies[-1]) == {"c0": DROPPED, "c1": "echo 1", "c2": "echo 2"}
    error = await failure(model, talk, refusal(400, OVERFLOW), refusal(400, OVERFLOW))
    assert isinstance(error, ContextOverflowError)
    assert not error.retryable


async def test_case_29_a_success_that_is_empty_for_want_of_room_is_trimmed_too(
    model: Model, talk: Conversation
) -> None:
    looks = [Say([call("echo", {"word": str(n)}, f"c{n}")]) for n in range(3)]
    result = await run(model, talk, *looks, Say([], incomplete="max_output_tokens"), DONE)
    assert result.text == "Done."
    assert outputs(model.server.bodies[-1])["c0"] == DROPPED


async def test_case_30_a_days_quota_is_not_waited_for(model: Model, talk: Conversation) -> None:
    metadata = {
        "limit_source": "openrouter_free_tier_daily",
        "headers": {"X-RateLimit-Reset": "99999999999999"},
    }
    body = {"error": {"code": 429, "message": "Rate limit exceeded", "metadata": metadata}}
    error = await failure(model, talk, refusal(429, body))
    assert isinstance(error, BudgetError)
    assert len(model.server.asked) == 1
    far = {
        "error": {
            "code": 429,
            "message": "slow",
            "metadata": {"headers": {"X-RateLimit-Reset": "99999999999999"}},
        }
    }
    error = await failure(model, talk, refusal(429, far))
    assert isinstance(error, ModelUnavailableError)
    assert len(model.server.asked) == 2


async def test_case_31_an_empty_last_answer_is_asked_for_again_once(model: Model, talk: Conversation) -> None:
    result = await run(model, talk, Say([call("echo")]), Say([]), DONE)
    assert result.text == "Done."
    result = await run(model, talk, Say([call("echo")]), Say([]), Say([text("")]))
    assert (result.status, result.stop, result.text) == ("done", "completed", "")
    error = await failure(model, talk, Say([call("echo")]), Say([]), Say([]), strict_final=True)
    assert isinstance(error, ModelAnswerError)


async def test_case_32_a_demanded_call_is_demanded_once(model: Model, talk: Conversation) -> None:
    await run(model, talk, Say([call("echo")]), DONE, tool_choice="required")
    assert [body["tool_choice"] for body in model.server.bodies] == ["required", "auto"]


async def test_case_33_a_limit_gives_one_more_answer_with_the_tools_kept(
    model: Model, talk: Conversation
) -> None:
    result = await run(model, talk, Say([call("echo")]), DONE, max_steps=1)
    assert (result.stop, result.text) == ("max_steps", "Done.")
    last = model.server.bodies[1]
    assert last["tool_choice"] == "none"
    assert last["tools"] == model.server.bodies[0]["tools"]
    assert "no more tools" in last["input"][-1]["content"]
    assert last["input"][-1] not in result.state.loop.items


async def test_case_33_a_limit_in_the_middle_of_a_call_answers_it(model: Model, talk: Conversation) -> None:
    async def sleep() -> str:
        await anyio.sleep(30)
        return "late"

    model.server.script(Say([call("sleep", call_id="c1")]), DONE)
    async with model.controller(function_tool(sleep), max_seconds=1.0) as controller:
        result = await controller.run("Do it.", talk)
    assert (result.stop, result.text) == ("max_seconds", "Done.")
    assert "stopped" in outputs(model.server.bodies[1])["c1"]


@pytest.mark.parametrize("name", ["has space", "x" * 65, "dot.name", ""])
def test_case_34_a_bad_name_is_refused_at_once(name: str) -> None:
    client = OpenRouterClient(ClientOptions())
    with pytest.raises(SettingsError, match="tool name"):
        Controller(client, ControllerOptions("m"), tools=[OwnTool(name, "Does.")])
    with pytest.raises(SettingsError, match="two tools"):
        Controller(client, ControllerOptions("m"), tools=[OwnTool("one", ""), OwnTool("one", "")])


@pytest.mark.parametrize("wire", ["responses", "chat"])
async def test_case_35_no_more_than_four_marks_of_what_is_cached(
    model: Model, talk: Conversation, wire: str
) -> None:
    part: Any = {"type": "input_text", "text": "Long.", "cache_control": {"type": "ephemeral"}}
    model.server.script(DONE)
    async with model.controller(client={"wire": wire}) as controller:
        await controller.run([{"role": "user", "content": [part] * 6}], talk)
    body = json.dumps(model.server.bodies[0])
    assert body.count("cache_control") == 4
    assert json.dumps(with_few_marks([part] * 3)).count("cache_control") == 3


async def test_case_36_a_second_end_that_says_the_calls_again_is_passed_over(
    model: Model, talk: Conversation
) -> None:
    echo = Echo()
    chunks = list(completion_chunks(Say([call("echo", {"word": "a"}, "c1")])))
    again = {
        "id": "c1",
        "index": 0,
        "type": "function",
        "function": {"name": "echo", "arguments": '{"word": "a"}'},
    }
    second = {"choices": [{"index": 0, "delta": {"tool_calls": [again]}, "finish_reason": "tool_calls"}]}
    reply = stream_of(sse(*chunks[:-1], second, chunks[-1]))
    await run(model, talk, reply, DONE, echo=echo, client={"wire": "chat"})
    assert echo.words == ["a"]


async def test_case_37_the_same_call_with_the_same_result_ends(model: Model, talk: Conversation) -> None:
    echo = Echo()
    same = [Say([call("echo", {"word": "a"}), call("echo", {"word": "a"})]) for _ in range(4)]
    result = await run(model, talk, *same, DONE, echo=echo)
    assert (result.stop, result.text) == ("repeated_calls", "Done.")
    assert len(echo.words) == 8


async def test_case_38_a_redirect_is_not_followed(model: Model, talk: Conversation) -> None:
    reply = Raw([], 307, {"location": "https://elsewhere.example/v1/responses"})
    error = await failure(model, talk, reply)
    assert isinstance(error, ModelRefusedError)
    assert "elsewhere.example" in error.message
    assert len(model.server.asked) == 1


async def test_case_38_the_key_is_in_no_error_and_no_text_of_ours(
    model: Model, talk: Conversation, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "sandbox_skills")
    error = await failure(model, talk, refusal(401, {"error": {"code": 401, "message": f"bad key {KEY}"}}))
    assert KEY not in f"{error} {error.message} {error.provider} {error.args}"
    assert KEY not in caplog.text
    assert KEY not in repr(ClientOptions(api_key=KEY))


async def test_case_38_a_huge_output_is_cut_and_said_to_be(model: Model, talk: Conversation) -> None:
    await run(model, talk, Say([call("echo", {"word": "x" * 1000}, "c1")]), DONE, max_tool_output=100)
    told = outputs(model.server.bodies[1])["c1"]
    assert told.endswith("[output truncated: 100 of 1005 characters]")


async def test_case_38_a_cancel_answers_the_call_and_the_conversation_goes_on(
    model: Model, talk: Conversation
) -> None:
    async def sleep(given: Word) -> str:
        await anyio.sleep(30 if given.word == "long" else 0)
        return "late"

    model.server.script(Say([call("sleep", {"word": "long"}, "c1"), call("sleep", {}, "c2")]), DONE)
    async with model.controller(function_tool(sleep)) as controller:
        async with controller.stream("Do it.", talk) as events:
            async for event in events:
                if event.event == "tool_finished":
                    events.cancel()
            assert event.event == "done"
        result = await controller.run("And now?", events.state)
    assert result.text == "Done."
    told = outputs(model.server.bodies[1])
    assert "cancelled" in told["c1"]
    assert told["c2"] == "late"

"""Models that work on the server: their words and calls are followed, allowed and stopped, and outlast the server."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.daemon.truth.agents import Beginning, LegRequest
from sandbox_skills.daemon.truth.ids import new_id
from sandbox_skills.daemon.truth.run import NewRun, RunKind, restarted
from sandbox_skills.toolsets.skill_runs import EMPTIED
from tests.daemon_host import opened_host
from tests.model_server import USAGE, ModelServer, Raw, Say, call, refusal, text

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator
    from pathlib import Path

    import httpx

    from tests.daemon_host import Host

pytestmark = pytest.mark.anyio

ASK = {"tools": {"load_skill": {"needs_approval": "always"}}}
LOAD = call("load_skill", {"skill": "greeter"}, "c1")
TOKENS, COST = sum(USAGE[:2]), USAGE[2]


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@asynccontextmanager
async def opened(tmp_path: Path, model: ModelServer, **given: object) -> AsyncGenerator[Host]:
    named = {"name": "scripted/model", "base_url": model.base_url, "api_key": "sk-test", "attempts": 1}
    async with opened_host(tmp_path, model=named, **given) as host:
        yield host


async def began(client: httpx.AsyncClient, **given: object) -> str:
    answer = await client.post("/v1/agents/runs", json={"input": "Say hello.", **given})
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == f"/v1/agents/runs/{answer.json()['id']}"
    return str(answer.json()["id"])


async def followed(client: httpx.AsyncClient, run_id: str, after: int = 0) -> list[dict[str, Any]]:
    """Returns the events behind a number, until the latest leg is over."""
    async with asyncio.timeout(15):
        answer = await client.get(
            f"/v1/agents/runs/{run_id}/events",
            params={"after": after},
            headers={"accept": "application/x-ndjson"},
        )
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines() if line.strip()]


async def told(client: httpx.AsyncClient, run_id: str) -> dict[str, Any]:
    run: dict[str, Any] = (await client.get(f"/v1/agents/runs/{run_id}")).json()
    return run


async def until_asked(model: ModelServer, times: int) -> None:
    async with asyncio.timeout(15):
        while len(model.asked) < times:  # noqa: ASYNC110  # another thread's
            await asyncio.sleep(0.02)


async def test_a_model_works_with_the_tenant_s_skills_and_is_followed(
    tmp_path: Path, model: ModelServer
) -> None:
    model.script(Say([LOAD]), Say([text("Hello, all of you.")]))
    any_model = {"agent_models": ["other/*"]}
    async with (
        opened(tmp_path, model, daemon=any_model) as host,
        host.client(await host.tenant("acme")) as client,
    ):
        run_id = await began(client, instructions="Be kind.", model="other/model")
        events = await followed(client, run_id)
        assert [one["seq"] for one in events] == list(range(1, len(events) + 1))
        kinds = [one["type"] for one in events]
        assert kinds[:2] == ["queued", "started"]
        assert kinds[-2:] == ["done", "finished"]
        assert {"turn_started", "tool_started", "tool_finished", "text", "turn_finished"} <= set(kinds)
        words = "".join(one["text"] for one in events if one["type"] == "text")
        assert words == "Hello, all of you."
        run = await told(client, run_id)
        assert (run["state"], run["text"], run["stop"], run["error"]) == (
            "finished",
            "Hello, all of you.",
            "completed",
            None,
        )
        assert await followed(client, run_id, after=events[-3]["seq"]) == events[-2:]
        assert (await client.get("/v1/runs")).json()["items"] == []
        listed = (await client.get("/v1/agents/runs")).json()["items"]
        assert [one["id"] for one in listed] == [run_id]
    first = model.bodies[0]
    assert first["model"] == "other/model"
    assert "Be kind." in first["instructions"]
    assert "greeter" in first["instructions"]


async def test_a_conversation_goes_on_with_what_is_said_next(tmp_path: Path, model: ModelServer) -> None:
    model.script(Say([text("One.")]), Say([text("Two.")]))
    async with opened(tmp_path, model) as host, host.client(await host.tenant("acme")) as client:
        run_id = await began(client)
        first = await followed(client, run_id)
        nothing = await client.post(f"/v1/agents/runs/{run_id}/resume", json={})
        assert (nothing.status_code, nothing.json()["code"]) == (409, "agent_run_busy")
        assert (
            await client.post(f"/v1/agents/runs/{run_id}/resume", json={"input": "And now?"})
        ).status_code == 202
        second = await followed(client, run_id, after=first[-1]["seq"])
        assert second[0]["seq"] == first[-1]["seq"] + 1
        assert (await told(client, run_id))["text"] == "Two."
    assert "One." in json.dumps(model.bodies[1])
    assert "And now?" in json.dumps(model.bodies[1])


@pytest.mark.parametrize(("decision", "state"), [("approve", "ok"), ("refuse", "rejected")])
async def test_a_call_waits_for_a_word_and_holds_nothing_meanwhile(
    tmp_path: Path, model: ModelServer, decision: str, state: str
) -> None:
    model.script(Say([LOAD]), Say([text("Done.")]))
    async with opened(tmp_path, model, policy=ASK) as host, host.client(await host.tenant("acme")) as client:
        run_id = await began(client)
        events = await followed(client, run_id)
        run = await told(client, run_id)
        assert run["state"] == "waiting"
        assert run["waiting"] == [
            {"id": "c1", "name": "load_skill", "arguments": {"skill": "greeter"}, "kind": "approval"}
        ]
        assert host.daemon.agent_worker.going == 0
        unknown = {"call_id": "c9", "decision": decision}
        path = f"/v1/agents/runs/{run_id}/approvals"
        assert (await client.post(path, json=unknown)).status_code == 409
        said = {"call_id": "c1", "decision": decision, "reason": "Not today."}
        assert (await client.post(path, json=said)).status_code == 202
        rest = await followed(client, run_id, after=events[-1]["seq"])
        assert (await told(client, run_id))["text"] == "Done."
        assert ("tool_finished" in {one["type"] for one in rest}) is (state == "ok")
    output = json.dumps(model.bodies[1]["input"])
    assert ("Not today." in output) is (decision == "refuse")
    assert ("echo hello" in output) is (decision == "approve")


async def test_several_calls_are_decided_on_one_by_one(tmp_path: Path, model: ModelServer) -> None:
    calls = [call("load_skill", {"skill": "greeter"}, f"c{number}") for number in (1, 2, 3)]
    model.script(Say(calls), Say([text("All.")]))
    async with opened(tmp_path, model, policy=ASK) as host, host.client(await host.tenant("acme")) as client:
        run_id = await began(client)
        await followed(client, run_id)
        for number in (1, 2, 3):
            body = {"call_id": f"c{number}", "decision": "approve"}
            answer = await client.post(f"/v1/agents/runs/{run_id}/approvals", json=body)
            assert answer.status_code == 202, answer.text
        async with asyncio.timeout(15):
            while (await told(client, run_id))["state"] != "finished":
                await followed(client, run_id)
        assert (await told(client, run_id))["text"] == "All."
    assert len(model.asked) == 2


async def test_who_wants_no_questions_gets_none(tmp_path: Path, model: ModelServer) -> None:
    model.script(Say([LOAD]), Say([text("Done.")]))
    async with opened(tmp_path, model, policy=ASK) as host, host.client(await host.tenant("acme")) as client:
        run_id = await began(client, approvals="never")
        await followed(client, run_id)
        assert (await told(client, run_id))["text"] == "Done."


async def test_a_model_that_fails_is_told_and_can_be_asked_again(tmp_path: Path, model: ModelServer) -> None:
    model.script(refusal(402, {"error": {"message": "no credits", "code": 402}}), Say([text("Now.")]))
    async with opened(tmp_path, model) as host, host.client(await host.tenant("acme")) as client:
        run_id = await began(client)
        await followed(client, run_id)
        run = await told(client, run_id)
        assert (run["state"], run["error"]["code"]) == ("failed", "model_budget_exceeded")
        assert (await client.post(f"/v1/agents/runs/{run_id}/resume", json={})).status_code == 202
        await followed(client, run_id)
        assert (await told(client, run_id))["text"] == "Now."
    assert model.bodies[0]["input"] == model.bodies[1]["input"]


async def test_a_run_is_cancelled_while_the_model_thinks_and_while_it_waits(
    tmp_path: Path, model: ModelServer
) -> None:
    model.script(Say([LOAD]))
    async with opened(tmp_path, model, policy=ASK) as host, host.client(await host.tenant("acme")) as client:
        run_id = await began(client)
        await followed(client, run_id)
        assert (await client.post(f"/v1/agents/runs/{run_id}/cancel")).json()["state"] == "cancelled"
        word = {"call_id": "c1", "decision": "approve"}
        assert (await client.post(f"/v1/agents/runs/{run_id}/approvals", json=word)).status_code == 409
        thinking = await began(client)
        model.script(Say([text("x")]))
        assert (await client.post(f"/v1/agents/runs/{thinking}/cancel")).status_code == 202
        await followed(client, thinking)
        assert (await told(client, thinking))["state"] in {"cancelled", "finished"}


async def test_a_conversation_outlasts_the_server(tmp_path: Path, model: ModelServer) -> None:
    model.script(Say([LOAD]))
    async with opened(tmp_path, model, policy=ASK) as host:
        key = await host.tenant("acme")
        async with host.client(key) as client:
            run_id = await began(client)
            events = await followed(client, run_id)
    model.script(Say([text("After the restart.")]))
    async with opened(tmp_path, model, policy=ASK) as host, host.client(key) as client:
        assert (await told(client, run_id))["state"] == "waiting"
        word = {"call_id": "c1", "decision": "approve"}
        assert (await client.post(f"/v1/agents/runs/{run_id}/approvals", json=word)).status_code == 202
        more = await followed(client, run_id, after=events[-1]["seq"])
        assert more[0]["seq"] == events[-1]["seq"] + 1
        assert (await told(client, run_id))["text"] == "After the restart."


async def test_a_conversation_that_a_death_broke_off_goes_on_where_it_was(
    tmp_path: Path, model: ModelServer
) -> None:
    model.script(Say([LOAD]), Raw([30.0]), Say([text("Where was I?")]))
    async with opened(tmp_path, model) as host, host.client(await host.tenant("acme")) as client:
        run_id = await began(client)
        await until_asked(model, 2)
        await host.daemon.queue.abandon(restarted())
        await followed(client, run_id)
        assert (await told(client, run_id))["state"] == "interrupted"
        assert (await client.post(f"/v1/agents/runs/{run_id}/resume", json={})).status_code == 202
        await followed(client, run_id)
        assert (await told(client, run_id))["text"] == "Where was I?"
    assert model.bodies[2]["input"] == model.bodies[1]["input"]
    calls = [one for one in model.bodies[2]["input"] if one.get("type") == "function_call"]
    assert len(calls) == 1


async def test_what_a_server_could_not_wait_for_is_no_cancel_and_goes_on_at_the_next(
    tmp_path: Path, model: ModelServer
) -> None:
    model.script(Say([LOAD]), Raw([30.0]), Raw([30.0]))
    async with opened(tmp_path, model) as host:
        key = await host.tenant("acme")
        async with host.client(key) as client:
            run_id = await began(client)
            await until_asked(model, 2)
            cancelled = await began(client)
            await until_asked(model, 3)
            await client.post(f"/v1/agents/runs/{cancelled}/cancel")
            await followed(client, cancelled)
            await host.daemon.drain(0)
            run = await told(client, run_id)
            assert (run["state"], run["error"]["code"]) == ("interrupted", "draining")
    model.script(Say([text("Here I am.")]))
    async with opened(tmp_path, model) as host, host.client(key) as client:
        assert (await told(client, cancelled))["state"] == "cancelled"
        assert (await client.post(f"/v1/agents/runs/{run_id}/resume", json={})).status_code == 202
        await followed(client, run_id)
        run = await told(client, run_id)
        assert (run["state"], run["text"], run["error"]) == ("finished", "Here I am.", None)


async def test_a_model_is_told_that_its_files_went_with_the_server_before(
    tmp_path: Path, model: ModelServer
) -> None:
    def run_call(number: int) -> dict[str, Any]:
        return call("skill_run", {"skill": "greeter", "command": "true"}, f"r{number}")

    load = call("skill_load", {"skill": "greeter"}, "l1")
    model.script(Say([load]), Say([run_call(1)]), Say([run_call(2)]), Say([text("Done.")]))
    async with opened(tmp_path, model) as host:
        key = await host.tenant("acme")
        async with host.client(key) as client:
            run_id = await began(client, toolset="workspace")
            await followed(client, run_id)
    assert EMPTIED not in json.dumps(model.bodies[-1])
    load_again = call("skill_load", {"skill": "greeter"}, "l2")
    model.script(Say([load_again]), Say([run_call(3)]), Say([text("Again.")]))
    async with opened(tmp_path, model) as host, host.client(key) as client:
        await client.post(f"/v1/agents/runs/{run_id}/resume", json={"input": "Once more."})
        await followed(client, run_id)
        assert (await told(client, run_id))["text"] == "Again."
    outputs = {one["call_id"]: one for one in model.bodies[-1]["input"] if "output" in one}
    assert EMPTIED in json.dumps(outputs["r3"])
    assert EMPTIED not in json.dumps(outputs["r2"])


async def test_nobody_sees_or_touches_another_tenant_s(tmp_path: Path, model: ModelServer) -> None:
    model.script(Say([text("Mine.")]))
    async with opened(tmp_path, model) as host, host.client(await host.tenant("a")) as client:
        run_id = await began(client)
        await followed(client, run_id)
        async with host.client(await host.tenant("b")) as other:
            path = f"/v1/agents/runs/{run_id}"
            word = {"call_id": "c1", "decision": "approve"}
            answers = [
                await other.get(path),
                await other.get(f"{path}/events"),
                await other.post(f"{path}/approvals", json=word),
                await other.post(f"{path}/resume", json={"input": "x"}),
                await other.post(f"{path}/cancel"),
            ]
            assert [one.status_code for one in answers] == [404] * 5
            assert (await other.get("/v1/agents/runs")).json()["items"] == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"input": ""}, 422),
        ({"input": "x", "toolset": "nope"}, 400),
        ({"input": "x", "session_id": "01JDZ6V7Z3M9QHTR4W8YB2C5KD"}, 404),
        ({"input": "x", "approvals": "always"}, 422),
        ({"input": "x", "model": "other/model"}, 403),
    ],
)
async def test_what_cannot_begin_is_refused_and_kept_nowhere(
    tmp_path: Path, model: ModelServer, body: dict[str, object], status: int
) -> None:
    async with opened(tmp_path, model) as host, host.client(await host.tenant("acme")) as client:
        assert (await client.post("/v1/agents/runs", json=body)).status_code == status
        assert (await client.get("/v1/agents/runs")).json()["items"] == []
    assert model.asked == []


async def test_the_same_request_again_is_the_same_conversation(tmp_path: Path, model: ModelServer) -> None:
    model.script(Say([text("Once.")]))
    async with opened(tmp_path, model) as host, host.client(await host.tenant("acme")) as client:
        keyed, body = {"Idempotency-Key": "k"}, {"input": "Say hello."}
        path = "/v1/agents/runs"
        both = await asyncio.gather(*(client.post(path, json=body, headers=keyed) for _ in range(4)))
        assert {one.status_code for one in both} == {202}
        ids = {one.json()["id"] for one in both}
        assert len(ids) == 1
        await followed(client, ids.pop())
        again = await client.post(path, json=body, headers=keyed)
        assert (again.json()["state"], again.json()["text"]) == ("finished", "Once.")
        other = await client.post(path, json={"input": "Say goodbye."}, headers=keyed)
        assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
        run = {"skill": "greeter", "argv": ["echo", "hello"]}
        assert (await client.post("/v1/runs", json=run, headers=keyed)).status_code == 422
        assert len((await client.get(path)).json()["items"]) == 1
    assert len(model.asked) == 1


async def test_what_the_queue_has_no_room_for_is_kept_nowhere(tmp_path: Path, model: ModelServer) -> None:
    async with opened(tmp_path, model) as host:
        key = await host.tenant("acme", limits={"queue": 0})
        async with host.client(key) as client:
            answer = await client.post("/v1/agents/runs", json={"input": "x"})
            assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
            assert (await client.get("/v1/agents/runs")).json()["items"] == []


async def test_a_conversation_whose_row_was_not_written_yet_is_begun_by_whoever_works_on_it(
    tmp_path: Path, model: ModelServer
) -> None:
    """A death between the two changes loses nothing: the run that was accepted says all that there is to know."""
    model.script(Say([text("Begun.")]))
    async with opened(tmp_path, model) as host:
        key = await host.tenant("acme")
        tenant = (await host.daemon.tenants.named("acme")).id
        request = {"model": "", "toolsets": [], "instructions": "", "session_id": "", "approvals": "ask"}
        leg = LegRequest(new_id(), begin=Beginning(request, "Say hello.", "test"))
        needs = frozenset({RunKind.AGENT.value})
        await host.daemon.queue.submit(NewRun(tenant, leg.kept(), kind=RunKind.AGENT, needs=needs))
        async with host.client(key) as client, asyncio.timeout(15):
            while (await client.get(f"/v1/agents/runs/{leg.agent_id}")).status_code != 200:  # noqa: ASYNC110  # nobody is told
                await asyncio.sleep(0.02)
            await followed(client, leg.agent_id)
            assert (await told(client, leg.agent_id))["text"] == "Begun."


async def test_a_tenant_names_the_models_that_an_admin_lets_it(tmp_path: Path, model: ModelServer) -> None:
    async with opened(tmp_path, model, daemon={"agent_models": ["open/*"]}) as host:
        limits = {"agents": {"models": ["mine/*"]}}
        async with (
            host.client(await host.tenant("acme")) as client,
            host.client(await host.tenant("own", limits=limits)) as own,
        ):
            path = "/v1/agents/runs"
            refused = await client.post(path, json={"input": "x", "model": "mine/large"})
            assert (refused.status_code, refused.json()["code"]) == (403, "policy_denied")
            assert "open/*" in refused.json()["hint"]
            assert (await own.post(path, json={"input": "x", "model": "open/large"})).status_code == 403
            model.script(*(Say([text("Yes.")]) for _ in range(3)))
            for who, name in ((client, "open/large"), (own, "mine/large"), (own, "scripted/model")):
                run_id = await began(who, model=name)
                await followed(who, run_id)
                assert (await told(who, run_id))["state"] == "finished"
    assert [one["model"] for one in model.bodies] == ["open/large", "mine/large", "scripted/model"]


async def test_what_an_admin_forbids_while_it_waits_is_not_asked(tmp_path: Path, model: ModelServer) -> None:
    model.script(Raw([30.0]))
    given = {"agent_models": ["*"], "agent_slots": 1}
    async with (
        opened(tmp_path, model, daemon=given) as host,
        host.client(await host.tenant("acme")) as client,
    ):
        acme = (await host.daemon.tenants.named("acme")).id
        first = await began(client)
        await until_asked(model, 1)
        run_id = await began(client, model="dear/model")
        await host.daemon.tenants.update(acme, limits={"agents": {"models": []}}, actor="test")
        await client.post(f"/v1/agents/runs/{first}/cancel")
        await followed(client, run_id)
        run = await told(client, run_id)
        assert (run["state"], run["error"]["code"]) == ("failed", "policy_denied")
    assert len(model.asked) == 1


async def test_a_leg_has_no_more_steps_than_its_tenant(tmp_path: Path, model: ModelServer) -> None:
    model.script(Say([LOAD]), Say([text("That was all.")]), Say([text("x")]))
    async with opened(tmp_path, model) as host:
        key = await host.tenant("acme", limits={"agents": {"steps": 1}})
        async with host.client(key) as client:
            run_id = await began(client)
            await followed(client, run_id)
            assert (await told(client, run_id))["stop"] == "max_steps"


async def shared_out(
    tmp_path: Path, model: ModelServer, ceiling: dict[str, Any], usual: dict[str, Any]
) -> tuple[dict[str, Any], int]:
    """Returns how a leg ended, and after how many answers with tools; its model would go on for ever.

    One more follows, which may call none: what the model has found out is not lost.
    """
    model.script(*[Say([LOAD])] * 6)
    named = {"name": "scripted/model", "base_url": model.base_url, "api_key": "sk-test", "attempts": 1}
    async with opened_host(tmp_path, model={**named, **usual}) as host:
        key = await host.tenant("acme", limits={"agents": ceiling})
        async with host.client(key) as client:
            run_id = await began(client)
            await followed(client, run_id)
            return await told(client, run_id), with_tools(model)


def with_tools(model: ModelServer) -> int:
    """Returns how often it was asked for an answer that may call tools."""
    return sum(body.get("tool_choice") != "none" for body in model.bodies)


@pytest.mark.parametrize(
    ("ceiling", "usual", "stop", "answers"),
    [
        ({"tokens": 2 * TOKENS}, {}, "max_tokens", 2),
        ({"tokens": 2 * TOKENS + 1}, {}, "max_tokens", 3),
        ({"tokens": 1}, {}, "max_tokens", 1),
        ({"tokens": 4 * TOKENS}, {"max_tokens": TOKENS}, "max_tokens", 1),
        ({"tokens": TOKENS}, {"max_tokens": 4 * TOKENS}, "max_tokens", 1),
        ({"cost": 2 * COST}, {}, "max_cost", 2),
        ({"cost": COST / 1000}, {}, "max_cost", 1),
        ({"cost": 4 * COST}, {"max_cost": COST}, "max_cost", 1),
        ({"cost": COST}, {"max_cost": 4 * COST}, "max_cost", 1),
        ({"cost": 3 * COST, "tokens": 2 * TOKENS, "steps": 4}, {}, "max_tokens", 2),
    ],
)
async def test_a_leg_ends_at_the_lower_of_what_the_tenant_and_the_server_allow(
    tmp_path: Path,
    model: ModelServer,
    ceiling: dict[str, Any],
    usual: dict[str, Any],
    stop: str,
    answers: int,
) -> None:
    run, asked = await shared_out(tmp_path, model, ceiling, usual)
    assert (run["state"], run["stop"], asked) == ("finished", stop, answers)
    assert len(model.asked) == answers + 1
    assert run["usage"]["cost"] == pytest.approx(len(model.asked) * COST)


async def test_each_leg_has_its_tenants_ceiling_anew_and_a_lower_one_counts_from_the_next(
    tmp_path: Path, model: ModelServer
) -> None:
    model.script(*[Say([LOAD])] * 6)
    async with opened(tmp_path, model) as host:
        key = await host.tenant("acme", limits={"agents": {"tokens": 2 * TOKENS}})
        acme = (await host.daemon.tenants.named("acme")).id
        async with host.client(key) as client:
            run_id = await began(client)
            await followed(client, run_id)
            assert with_tools(model) == 2
            await host.daemon.tenants.update(acme, limits={"agents": {"tokens": 1}}, actor="test")
            answer = await client.post(f"/v1/agents/runs/{run_id}/resume", json={"input": "Go on."})
            assert answer.status_code == 202, answer.text
            await followed(client, run_id)
            assert (await told(client, run_id))["stop"] == "max_tokens"
    assert with_tools(model) == 3


@pytest.mark.parametrize(
    "agents",
    [{"tokens": 0}, {"tokens": -1}, {"cost": 0}, {"cost": -0.5}, {"steps": 0}, {"tokens": 1.5}, {"x": 1}],
)
async def test_a_ceiling_that_is_none_is_refused(
    tmp_path: Path, model: ModelServer, agents: dict[str, Any]
) -> None:
    async with opened(tmp_path, model) as host, host.client(await host.tenant("root")) as admin:
        answer = await admin.post("/v1/admin/tenants", json={"name": "acme", "limits": {"agents": agents}})
        assert answer.status_code == 422, answer.text
        assert len((await admin.get("/v1/admin/tenants")).json()["items"]) == 1

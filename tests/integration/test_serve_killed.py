"""A server that is killed in the middle of its work: the next one has the records, and leaves nothing of the boxes."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.test_cli_interrupted import boxes
from tests.model_server import ModelServer, Raw, Say, call, text
from tests.serve_process import served, served_after

if TYPE_CHECKING:
    from collections.abc import Iterator

    import docker
    import httpx

    from tests.conftest import Program
    from tests.serve_process import Served

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(240)]

NO_POOL = {"SANDBOX_SKILLS_POOL__SIZE": "0"}
"""Whatever box there is then is one of a run's."""

TICKS = "trap '' TERM; setsid sleep 600 & for i in $(seq 6000); do echo tick $i; sleep 0.1; done"


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def lines(client: httpx.Client, path: str) -> Iterator[dict[str, Any]]:
    """Yields events as they come."""
    with client.stream("GET", path, headers={"Accept": "application/x-ndjson"}) as events:
        yield from (json.loads(line) for line in events.iter_lines() if line)


def killed_after_output(server: Served) -> tuple[str, int]:
    """Kills a server once a run of it has written something; returns the run and its last event that was told."""
    with server.client() as client:
        order = {"skill": "python-math", "command": TICKS}
        keyed = {"Idempotency-Key": "once"}
        run_id = str(client.post("/v1/runs", json=order, headers=keyed).json()["id"])
        seen = next(one for one in lines(client, f"/v1/runs/{run_id}/events") if one["type"] == "output")
        server.kill()
    return run_id, int(seen["seq"])


def test_a_run_that_was_going_is_told_as_lost_and_nothing_of_it_is_left(
    program: Program, daemon: docker.APIClient
) -> None:
    with served(program, **NO_POOL) as first:
        run_id, seq = killed_after_output(first)
    with served_after(program, first, **NO_POOL) as second, second.client() as client:
        # What is left is gone before anything is answered.
        assert boxes(daemon, program) == []
        run = client.get(f"/v1/runs/{run_id}").json()
        assert run["state"] == "finished"
        assert (run["outcome"]["type"], run["outcome"]["reason"]) == ("sandbox_error", "restarted")
        told = list(lines(client, f"/v1/runs/{run_id}/events"))
        assert [one["seq"] for one in told] == list(range(1, len(told) + 1))
        assert seq < len(told)
        assert told[-1]["type"] == "finished"
        # The same request is still that run, which is not done again by itself.
        keyed = {"Idempotency-Key": "once"}
        again = client.post("/v1/runs", json={"skill": "python-math", "command": TICKS}, headers=keyed)
        assert again.json()["id"] == run_id
        assert second.run({"skill": "python-math", "command": "echo on"})["result"]["stdout"] == "on\n"
    assert boxes(daemon, program) == []
    assert not list((program.data_dir / "sandboxes").glob("*"))


def test_a_session_keeps_what_was_snapshotted_and_goes_on(program: Program, daemon: docker.APIClient) -> None:
    with served(program, **NO_POOL) as first, first.client() as client:
        session = client.post("/v1/sessions", json={"name": "kept"}).json()["id"]
        client.put(f"/v1/sessions/{session}/files/work/a.txt", content=b"kept")
        assert client.post(f"/v1/sessions/{session}/snapshot").status_code == 200
        client.post("/v1/runs", json={"skill": "python-math", "command": TICKS, "session_id": session})
        killed_after_output(first)
    with served_after(program, first, **NO_POOL) as second, second.client() as client:
        assert boxes(daemon, program) == []
        assert client.get(f"/v1/sessions/{session}").json()["state"] == "idle"
        assert client.get(f"/v1/sessions/{session}/files/work/a.txt").content == b"kept"
        client.delete(f"/v1/sessions/{session}")
    assert boxes(daemon, program) == []


def test_a_model_whose_call_was_going_is_interrupted_and_goes_on_without_doing_it_again(
    program: Program, daemon: docker.APIClient, model: ModelServer
) -> None:
    environ = {
        **NO_POOL,
        "SANDBOX_SKILLS_MODEL__NAME": "scripted/model",
        "SANDBOX_SKILLS_MODEL__BASE_URL": model.base_url,
        "OPENROUTER_API_KEY": "sk-test",
    }
    asked = call("skill_run", {"skill": "python-math", "command": TICKS}, "c1")
    load = call("skill_load", {"skill": "python-math"}, "c0")
    model.script(Say([load]), Say([asked]), Say([text("I was away.")]), Raw([30.0]))
    with served(program, **environ) as first, first.client() as client:
        given = {"input": "Count.", "toolset": "workspace"}
        run_id = client.post("/v1/agents/runs", json=given).json()["id"]
        events = lines(client, f"/v1/agents/runs/{run_id}/events")
        seen = next(one for one in events if one.get("name") == "skill_run")
        until = time.monotonic() + 60
        while not boxes(daemon, program):
            assert time.monotonic() < until
            time.sleep(0.05)
        first.kill()
    with served_after(program, first, **environ) as second, second.client() as client:
        assert boxes(daemon, program) == []
        path = f"/v1/agents/runs/{run_id}"
        assert client.get(path).json()["state"] == "interrupted"
        assert client.post(f"{path}/resume", json={}).status_code == 202
        rest = list(lines(client, f"{path}/events?after={seen['seq']}"))
        assert rest[-1]["outcome"] == {"type": "exited", "code": 0}
        run = client.get(path).json()
        assert (run["state"], run["text"]) == ("finished", "I was away.")
    answers = [one for one in model.bodies[2]["input"] if one.get("type") == "function_call_output"]
    assert [one["call_id"] for one in answers] == ["c0", "c1"]
    assert "interrupted" in answers[-1]["output"]
    assert len(model.asked) == 3
    assert boxes(daemon, program) == []

"""`sandbox-skills serve` as its users have it: a process, a socket, and runs in real sandboxes."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING

import pytest

from tests.integration.test_cli_interrupted import boxes
from tests.serve_process import served

if TYPE_CHECKING:
    from collections.abc import Iterator

    import docker
    import httpx

    from tests.conftest import Program
    from tests.serve_process import Served

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(120)]

TICKS = "for i in $(seq 600); do echo tick $i; sleep 0.1; done"


@pytest.fixture
def server(program: Program) -> Iterator[Served]:
    with served(program) as server:
        yield server


def test_a_command_of_a_skill_is_run_in_a_sandbox(server: Served) -> None:
    run = server.run({"skill": "python-math", "command": "id -u; ls /skills; echo done > $OUTPUT_DIR/x.txt"})
    assert run["outcome"] == {"type": "exited", "code": 0}
    assert run["result"]["stdout"].splitlines()[0] != "0"
    assert run["result"]["primary_output"]["content"] == "done\n"


def test_output_is_heard_while_it_comes_and_hanging_up_ends_nothing(server: Served) -> None:
    order = {"skill": "python-math", "command": "echo first; sleep 3; echo second; exit 3"}
    with server.client() as client:
        run_id = client.post("/v1/runs", json=order).json()["id"]
        lines = {"Accept": "application/x-ndjson"}
        with client.stream("GET", f"/v1/runs/{run_id}/events", headers=lines) as events:
            event = next(one for one in map(json.loads, events.iter_lines()) if one["type"] == "output")
        assert event["text"] == "first\n"
        assert client.get(f"/v1/runs/{run_id}").json()["state"] in {"running", "finished"}
        run = client.get(f"/v1/runs/{run_id}", params={"wait": 30}).json()
        assert run["outcome"] == {"type": "exited", "code": 3}
        last = client.get(
            f"/v1/runs/{run_id}/events", headers={"Last-Event-ID": str(event["seq"]), **lines}
        ).text.splitlines()
    assert [json.loads(line)["type"] for line in last] == ["output", "finished"]


def test_a_cancelled_run_leaves_no_sandbox(
    server: Served, daemon: docker.APIClient, program: Program
) -> None:
    with server.client() as client:
        run_id = client.post("/v1/runs", json={"skill": "python-math", "command": TICKS}).json()["id"]
        with client.stream("GET", f"/v1/runs/{run_id}/events") as events:
            next(line for line in events.iter_lines() if line == "event: output")
        client.post(f"/v1/runs/{run_id}/cancel")
        run = client.get(f"/v1/runs/{run_id}", params={"wait": 30}).json()
    assert run["outcome"] == {"type": "stopped", "reason": "cancelled"}


def test_a_first_signal_lets_runs_end_and_takes_no_more(server: Served) -> None:
    with server.client() as client, server.client() as other:
        order = {"skill": "python-math", "command": "echo begun; sleep 6; echo over"}
        run_id = client.post("/v1/runs", json=order).json()["id"]
        with client.stream(
            "GET", f"/v1/runs/{run_id}/events", headers={"Accept": "application/x-ndjson"}
        ) as events:
            kinds: list[str] = []
            for line in events.iter_lines():
                event = json.loads(line)
                kinds.append(event["type"])
                if kinds.count("output") == 1 and event["type"] == "output":
                    server.process.send_signal(signal.SIGTERM)
                    _until_draining(other)
                    refused = other.post("/v1/runs", json=order)
                    assert (refused.status_code, refused.json()["code"]) == (503, "draining")
                    assert int(refused.headers["Retry-After"]) > 0
        assert kinds[-2:] == ["output", "finished"]
    assert server.process.wait(30) == 0


def test_a_second_signal_ends_them_at_once(
    server: Served, daemon: docker.APIClient, program: Program
) -> None:
    with server.client() as client:
        run_id = client.post("/v1/runs", json={"skill": "python-math", "command": TICKS}).json()["id"]
        with client.stream("GET", f"/v1/runs/{run_id}/events") as events:
            next(line for line in events.iter_lines() if line == "event: output")
        server.process.send_signal(signal.SIGTERM)
        _until_draining(client)
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 0
    assert time.monotonic() - began < 25  # far less than drain_seconds and the run
    assert boxes(daemon, program) == []


def _until_draining(client: httpx.Client) -> None:
    """Waits until the server has heard that it is to end."""
    while client.get("/readyz").json()["status"] != "draining":
        time.sleep(0.05)

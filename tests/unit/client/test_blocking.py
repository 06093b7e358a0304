"""The client without an event loop is the same client."""

from __future__ import annotations

import inspect
import threading
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.client import BlockingSkillsClient, ServerRefusedError, SkillsClient
from tests.unit.client.conftest import Lost, Reply, events, run_of

if TYPE_CHECKING:
    from tests.unit.client.conftest import ScriptedServer

SSE = {"Content-Type": "text/event-stream"}


def public(value: object) -> dict[str, Any]:
    return {name: getattr(value, name) for name in dir(value) if not name.startswith("_")}


def test_it_has_every_name_of_the_other_with_its_parameters(server: ScriptedServer) -> None:
    other = SkillsClient(server.options())
    with BlockingSkillsClient(server.options()) as client:
        assert public(client).keys() == public(other).keys() - {"aclose"}
        for subject, part in public(other).items():
            for name, function in public(part).items() if not callable(part) else ():
                ours = getattr(getattr(client, subject), name)
                assert inspect.signature(ours) == inspect.signature(function), name
                assert ours.__doc__ == function.__doc__


def test_values_lists_and_events_come_one_after_the_other(server: ScriptedServer) -> None:
    with BlockingSkillsClient(server.options()) as client:
        server.script(Lost(), Reply(run_of()))
        assert client.runs.run("hello", command="true").ok
        server.script(
            Reply({"items": [run_of(id="a")], "next_cursor": "n"}), Reply({"items": [run_of(id="b")]})
        )
        assert [run.id for run in client.runs.list()] == ["a", "b"]
        whole = events({"type": "queued"}, {"type": "started"}, {"type": "finished"})
        server.script(Reply(whole, headers=SSE, cut=len(whole) - 5), Reply(whole, headers=SSE))
        assert [event.type for event in client.runs.events("01R")] == ["queued", "started", "finished"]
        server.script(Reply(whole, headers=SSE), Reply({"limits": {}}))
        left = client.runs.events("01R")
        assert next(left).type == "queued"
        left.close()
        assert client.capabilities() == {"limits": {}}


def test_errors_are_the_same_and_leaving_ends_the_thread(server: ScriptedServer) -> None:
    before = threading.active_count()
    with BlockingSkillsClient(server.options()) as client:
        server.script(Reply({"code": "x", "detail": "no"}, 404))
        with pytest.raises(ServerRefusedError, match="no"):
            client.runs.get("01R")
    assert [thread.name for thread in threading.enumerate() if "skills client" in thread.name] == []
    assert threading.active_count() <= before + 1  # the server's own, which ends with its connection

"""The client over a server that answers, breaks off, sends elsewhere and says keys back."""

from __future__ import annotations

import logging
import zipfile
from io import BytesIO
from typing import TYPE_CHECKING

import anyio
import pytest

from sandbox_skills.client import (
    Rejected,
    SandboxFailed,
    ServerAnswerError,
    ServerOptions,
    ServerRefusedError,
    ServerUnavailableError,
    SkillsClient,
)
from sandbox_skills.errors import QuotaError, SettingsError, SkillNotFoundError
from sandbox_skills.spec import Exited, Signalled, Stopped
from tests.unit.client.conftest import KEY, Lost, Reply, events, run_of, scripted_server

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.client.conftest import ScriptedServer

pytestmark = pytest.mark.anyio

SSE = {"Content-Type": "text/event-stream"}


async def test_a_run_is_begun_with_the_key_and_comes_back_as_a_value(server: ScriptedServer) -> None:
    server.script(Reply(run_of("queued"), 202, {"Location": "/v1/runs/01R"}))
    async with SkillsClient(server.options()) as client:
        run = await client.runs.create("hello", command="echo hi", env={"A": "b"}, output_files=["out/**"])
    assert (run.id, run.state, run.outcome, run.finished, run.ok) == ("01R", "queued", None, False, False)
    assert run.skill is not None
    assert (run.skill.name, run.skill.source) == ("hello", "server")
    assert run.created_at is not None
    assert run.created_at.isoformat() == "2026-11-28T09:00:00+00:00"
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("POST", "/v1/runs")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.json == {
        "skill": "hello",
        "command": "echo hi",
        "env": {"A": "b"},
        "output_files": ["out/**"],
    }


@pytest.mark.parametrize(
    ("told", "outcome"),
    [
        ({"type": "exited", "code": 3}, Exited(3)),
        ({"type": "signalled", "signal": 9}, Signalled(9)),
        ({"type": "stopped", "reason": "memory"}, Stopped("memory")),
        (
            {
                "type": "sandbox_error",
                "code": "sandbox_lost",
                "message": "m",
                "hint": "h",
                "reason": "restarted",
            },
            SandboxFailed("sandbox_lost", "m", "h", "restarted"),
        ),
        (
            {"type": "rejected", "code": "policy_denied", "message": "m", "hint": "h"},
            Rejected("policy_denied", "m", "h"),
        ),
    ],
)
async def test_an_outcome_is_one_of_five(server: ScriptedServer, told: object, outcome: object) -> None:
    server.script(Reply(run_of(outcome=told, limits_hit=["memory"], more_than_we_know=1)))
    async with SkillsClient(server.options()) as client:
        run = await client.runs.get("01R")
    assert run.outcome == outcome
    assert (run.limits_hit, run.stdout) == (("memory",), "hi\n")


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", {"id": 1}, run_of(outcome={"type": "exploded"}), run_of("asleep")]
)
async def test_an_answer_that_cannot_be_understood_is_an_error(server: ScriptedServer, body: object) -> None:
    server.script(Reply(body))
    async with SkillsClient(server.options()) as client:
        with pytest.raises(ServerAnswerError, match="the server's answer is no"):
            await client.runs.get("01R")


async def test_a_run_whose_answer_was_lost_is_asked_for_by_the_same_key(server: ScriptedServer) -> None:
    server.script(Lost(), Reply({"detail": "later"}, 503, {"Retry-After": "0"}), Reply(run_of()))
    async with SkillsClient(server.options()) as client:
        run = await client.runs.create("hello", command="true", wait=5)
    assert run.ok
    assert len({asked.headers["idempotency-key"] for asked in server.asked}) == 1
    assert [asked.path for asked in server.asked] == ["/v1/runs?wait=5"] * 3


async def test_so_is_a_run_of_a_model(server: ScriptedServer) -> None:
    server.script(Lost(), Reply({"id": "01A"}), Reply({"id": "01B"}), Reply({"id": "01C"}))
    async with SkillsClient(server.options()) as client:
        for key in ("", "", "mine"):
            await client.agents.create({"input": "x"}, idempotency_key=key)
    keys = [asked.headers["idempotency-key"] for asked in server.asked]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
    assert keys[-1] == "mine"


async def test_two_runs_have_two_keys_and_ones_own_counts(server: ScriptedServer) -> None:
    server.script(*[Reply(run_of())] * 3)
    async with SkillsClient(server.options()) as client:
        for _ in range(2):
            await client.runs.create("hello", command="true")
        await client.runs.create("hello", command="true", idempotency_key="mine")
    keys = [asked.headers["idempotency-key"] for asked in server.asked]
    assert len(set(keys)) == 3
    assert keys[2] == "mine"


async def test_what_would_be_done_twice_is_asked_once(server: ScriptedServer) -> None:
    async with SkillsClient(server.options()) as client:
        for call in (
            lambda: client.tools.call({"name": "x"}),
            client.sessions.create,
            lambda: client.agents.resume("01A", {"input": "x"}),
        ):
            server.script(Lost())
            with pytest.raises(ServerUnavailableError, match="does not answer"):
                await call()
    assert len(server.asked) == 3


async def test_what_is_refused_is_not_asked_again(server: ScriptedServer) -> None:
    async with SkillsClient(server.options()) as client:
        server.script(Reply({"code": "skill_not_found", "detail": "no", "near": ["hello"]}, 404))
        with pytest.raises(SkillNotFoundError) as caught:
            await client.skills.get("helo")
        assert caught.value.near == ("hello",)
        server.script(Reply({"code": "quota_exceeded", "detail": "full"}, 429))
        with pytest.raises(QuotaError):
            await client.runs.get("01R")
        server.script(Reply({"code": "fault", "detail": "oh"}, 500))
        with pytest.raises(ServerUnavailableError) as failed:
            await client.runs.get("01R")
        assert failed.value.code == "fault"
    assert len(server.asked) == 3


async def test_a_quota_that_passes_is_waited_for(server: ScriptedServer) -> None:
    server.script(Reply({"code": "rate", "detail": "slow"}, 429, {"Retry-After": "0"}), Reply(run_of()))
    async with SkillsClient(server.options()) as client:
        assert (await client.runs.get("01R")).ok


async def test_a_server_that_is_not_there_is_told_after_the_last_attempt() -> None:
    with scripted_server() as gone:
        options = gone.options()
    async with SkillsClient(options) as client:
        with pytest.raises(ServerUnavailableError, match="does not answer") as caught:
            await client.runs.get("01R")
    assert "serve" in caught.value.hint
    assert caught.value.status is None


async def test_what_was_removed_before_its_answer_was_lost_is_removed(server: ScriptedServer) -> None:
    async with SkillsClient(server.options()) as client:
        server.script(Lost(), Reply({"detail": "no"}, 404))
        await client.sessions.close("01S")
        server.script(Reply({"detail": "no"}, 404))
        with pytest.raises(ServerRefusedError):
            await client.sessions.close("01S")


async def test_a_redirect_is_not_followed_and_nobody_else_gets_the_key(server: ScriptedServer) -> None:
    with scripted_server() as other:
        for status in (301, 302, 303, 307, 308):
            server.script(Reply(status=status, headers={"Location": f"{other.url}/v1/runs/01R"}))
            async with SkillsClient(server.options()) as client:
                with pytest.raises(ServerRefusedError, match="redirects to") as caught:
                    await client.runs.get("01R")
            assert caught.value.status == status
        assert other.asked == []


async def test_the_key_is_told_nobody(server: ScriptedServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.script(Reply({"code": "unknown_key", "detail": f"no key {KEY}", "hint": f"not {KEY}"}, 401))
    async with SkillsClient(server.options()) as client:
        with pytest.raises(ServerRefusedError) as caught:
            await client.runs.get("01R")
        assert KEY not in f"{client!r} {server.options()!r}"
    assert caught.value.message == "no key [redacted]"
    assert KEY not in f"{caught.value!r} {caught.value.hint} {caplog.text}"


async def test_proxies_and_netrc_of_the_environment_are_nobodys_word(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with scripted_server() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        server.script(Reply(run_of()))
        async with SkillsClient(server.options(api_key="")) as client:
            await client.runs.get("01R")
        assert proxy.asked == []
    assert "authorization" not in server.asked[0].headers


def test_a_key_is_not_sent_in_the_clear_and_an_address_is_one() -> None:
    with pytest.raises(SettingsError, match="not encrypted"):
        SkillsClient(ServerOptions("http://example.com", KEY))
    with pytest.raises(SettingsError, match=r"server\.url is no http"):
        SkillsClient(ServerOptions("example.com"))


class TestEvents:
    async def test_they_go_on_after_the_last_one_that_came(self, server: ScriptedServer) -> None:
        first = events(
            {"type": "queued"}, {"type": "started"}, {"type": "output", "stream": "stdout", "text": "é"}
        )
        rest = events(
            {"type": "output", "stream": "stderr", "text": "b"},
            {"type": "finished", "outcome": {"type": "exited", "code": 0}},
            first=3,
        )
        server.script(
            Lost(), Reply(first, headers=SSE, cut=first.rindex(b"id: 3") + 20), Reply(rest, headers=SSE)
        )
        async with SkillsClient(server.options()) as client:
            found = [event async for event in client.runs.events("01R")]
        assert [(event.seq, event.type) for event in found] == [
            (1, "queued"),
            (2, "started"),
            (3, "output"),
            (4, "finished"),
        ]
        assert (found[2].stream, found[2].text) == ("stderr", "b")
        assert [asked.headers.get("last-event-id") for asked in server.asked] == [None, None, "2"]

    async def test_one_that_came_already_is_not_told_twice(self, server: ScriptedServer) -> None:
        whole = events({"type": "queued"}, {"type": "started"}, {"type": "finished"})
        server.script(Reply(whole, headers=SSE, cut=len(whole) - 3), Reply(whole, headers=SSE))
        async with SkillsClient(server.options()) as client:
            assert [event.seq async for event in client.runs.events("01R")] == [1, 2, 3]
            server.script(Reply(whole, headers=SSE))
            assert [event.seq async for event in client.runs.events("01R", after=2)] == [3]
        assert server.asked[-1].headers["last-event-id"] == "2"

    async def test_a_stream_that_ends_too_soon_is_asked_for_again_until_the_budget_is_used_up(
        self, server: ScriptedServer
    ) -> None:
        server.script(*[Reply(events({"type": "queued"}), headers=SSE)] * 9)
        async with SkillsClient(server.options()) as client:
            with pytest.raises(ServerUnavailableError, match="broke off"):
                [event async for event in client.runs.events("01R")]
        assert len(server.asked) == 4  # the first came on: attempts are counted from its event

    async def test_what_is_kept_no_longer_is_the_servers_word(self, server: ScriptedServer) -> None:
        server.script(Reply({"code": "events_lost", "detail": "gone"}, 410))
        async with SkillsClient(server.options()) as client:
            with pytest.raises(ServerRefusedError) as caught:
                [event async for event in client.runs.events("01R", after=1)]
        assert (caught.value.code, caught.value.status) == ("events_lost", 410)

    @pytest.mark.parametrize("data", [b"data: x\n\n", b'data: {"seq": 1}\n\n', b'data: {"type": "a"}\n\n'])
    async def test_what_is_none_is_an_error(self, server: ScriptedServer, data: bytes) -> None:
        server.script(Reply(data, headers=SSE))
        async with SkillsClient(server.options()) as client:
            with pytest.raises(ServerAnswerError, match="an event that is none"):
                [event async for event in client.runs.events("01R")]

    async def test_those_of_a_conversation_go_on_through_its_legs(self, server: ScriptedServer) -> None:
        whole = events({"type": "done"}, {"type": "finished"}, {"type": "text"}, {"type": "finished"})
        second = whole.index(b"id: 3")
        server.script(Reply(whole, headers=SSE, cut=second), Reply(whole[second:], headers=SSE))
        async with SkillsClient(server.options()) as client:
            assert [event.seq async for event in client.agents.events("01A")] == [1, 2, 3, 4]
        assert server.asked[1].headers["last-event-id"] == "2"

    async def test_to_wait_is_to_hear_the_end_and_to_ask_what_came_of_it(
        self, server: ScriptedServer
    ) -> None:
        server.script(
            Reply(run_of("running"), 202),
            Reply(events({"type": "started"}, {"type": "finished"}), headers=SSE),
            Reply(run_of()),
        )
        async with SkillsClient(server.options()) as client:
            assert (await client.runs.run("hello", command="true", seconds=10)).ok

    async def test_waiting_has_an_end(self, server: ScriptedServer) -> None:
        async with SkillsClient(server.options()) as client:
            server.script(*[Reply(events({"type": "queued"}), headers=SSE)] * 9)
            with pytest.raises(TimeoutError):
                await client.runs.wait("01R", seconds=0.001)


class TestDownloads:
    DATA = bytes(range(256)) * 40

    async def test_one_goes_on_at_the_byte_that_is_missing(self, server: ScriptedServer) -> None:
        data, tag = self.DATA, {"ETag": '"a"'}
        server.script(
            Reply(data, headers=tag, cut=1000),
            Reply(
                data[1000:], 206, {**tag, "Content-Range": f"bytes 1000-{len(data) - 1}/{len(data)}"}, cut=500
            ),
            Reply(data[1500:], 206, {**tag, "Content-Range": f"bytes 1500-{len(data) - 1}/{len(data)}"}),
        )
        async with SkillsClient(server.options()) as client:
            found = b"".join([piece async for piece in client.artifacts.content("a/b.txt", 0)])
        assert found == data
        assert [asked.headers.get("range") for asked in server.asked] == [None, "bytes=1000-", "bytes=1500-"]
        assert server.asked[1].headers["if-range"] == '"a"'
        assert server.asked[0].path == "/v1/artifacts/a%2Fb.txt/versions/0/content"

    async def test_where_the_server_begins_again_only_the_rest_is_told(self, server: ScriptedServer) -> None:
        server.script(Reply(self.DATA, cut=1000), Reply(self.DATA))
        async with SkillsClient(server.options()) as client:
            found = [piece async for piece in client.skills.content("hello")]
        assert b"".join(found) == self.DATA

    async def test_another_file_in_its_place_is_an_error(self, server: ScriptedServer) -> None:
        server.script(
            Reply(self.DATA, headers={"ETag": '"a"'}, cut=1000), Reply(self.DATA, headers={"ETag": '"b"'})
        )
        async with SkillsClient(server.options()) as client:
            with pytest.raises(ServerAnswerError, match="changed while it was fetched"):
                [piece async for piece in client.sessions.file("01S", "out/a")]

    async def test_another_part_than_was_asked_for_is_an_error(self, server: ScriptedServer) -> None:
        server.script(
            Reply(self.DATA, cut=1000), Reply(self.DATA[999:], 206, {"Content-Range": "bytes 999-1/2"})
        )
        async with SkillsClient(server.options()) as client:
            with pytest.raises(ServerAnswerError, match="another part"):
                [piece async for piece in client.sessions.file("01S", "out/a")]

    async def test_a_server_that_always_breaks_off_has_an_end(self, server: ScriptedServer) -> None:
        server.script(*[Reply(self.DATA, cut=0)] * 9)
        async with SkillsClient(server.options()) as client:
            with pytest.raises(ServerUnavailableError):
                [piece async for piece in client.artifacts.content("a", 0)]
        assert len(server.asked) == 4


async def test_a_list_is_read_page_by_page(server: ScriptedServer) -> None:
    server.script(
        Reply({"items": [run_of(id="a"), run_of(id="b")], "next_cursor": "c/1"}),
        Reply({"items": [run_of(id="c")], "next_cursor": None}),
    )
    async with SkillsClient(server.options()) as client:
        assert [run.id async for run in client.runs.list(state="finished")] == ["a", "b", "c"]
    assert [asked.path for asked in server.asked] == [
        "/v1/runs?state=finished",
        "/v1/runs?state=finished&after=c%2F1",
    ]


async def test_names_are_steps_of_the_address_and_never_more(server: ScriptedServer) -> None:
    server.script(*[Reply({"id": "x", "state": "active", "name": "n", "path": "p"})] * 9)
    async with SkillsClient(server.options()) as client:
        await client.sessions.get("../admin/tenants")
        await client.skills.get("..")
        await client.skills.get("a?b#c")
        await client.sessions.put_file("01S", "../../work/ü.txt", b"x")
    assert [asked.path for asked in server.asked] == [
        "/v1/sessions/..%2Fadmin%2Ftenants",
        "/v1/skills/%2E%2E",
        "/v1/skills/a%3Fb%23c",
        "/v1/sessions/01S/files/%2E%2E/%2E%2E/work/%C3%BC.txt",
    ]


async def test_a_file_is_sent_whole_at_every_attempt(server: ScriptedServer, tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 700_000)
    server.script(
        Reply({"detail": "later"}, 503), Reply({"path": "work/big"}), Reply({"path": "a", "size": 3})
    )
    async with SkillsClient(server.options()) as client:
        await client.sessions.put_file("01S", "work/big", tmp_path / "big")
        await client.sessions.put_file("01S", "work/small", b"abc")
    assert [len(asked.body) for asked in server.asked] == [700_000, 700_000, 3]


async def test_a_skill_is_sent_as_a_zip_below_its_name(server: ScriptedServer, tmp_path: Path) -> None:
    folder = tmp_path / "hello"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: hello\n---\n")
    (folder / "scripts/run.sh").write_text("#!/bin/sh\n")
    server.script(
        Reply({"name": "hello", "version": 1, "digest": "d", "size": 3, "files": 2}, 201),
        Reply({"valid": True}),
    )
    async with SkillsClient(server.options()) as client:
        version = await client.skills.upload(folder)
        assert await client.skills.validate(folder) == {"valid": True}
    assert (version.name, version.version, version.digest) == ("hello", 1, "d")
    body = server.asked[0].body
    assert b'name="file"; filename="hello.zip"' in body
    with zipfile.ZipFile(BytesIO(body[body.index(b"PK\x03\x04") :].rpartition(b"\r\n--")[0])) as archive:
        assert archive.namelist() == ["hello/SKILL.md", "hello/scripts/run.sh"]


async def test_a_cancelled_call_leaves_the_client_usable(server: ScriptedServer) -> None:
    async with SkillsClient(server.options()) as client:
        server.script(Reply({"detail": "later"}, 503, {"Retry-After": "5"}))
        with anyio.move_on_after(0.2) as scope:
            await client.runs.get("01R")
        assert scope.cancelled_caught
        server.script(Reply(run_of()))
        assert (await client.runs.get("01R")).ok

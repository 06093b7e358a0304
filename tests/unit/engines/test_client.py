"""The host against a box that breaks every rule it can: no call hangs, no lie is believed."""

from __future__ import annotations

import asyncio
import json
import resource
import time
from contextlib import ExitStack
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.engines import client as client_module
from sandbox_skills.engines import process as process_module
from sandbox_skills.engines.classify import Death
from sandbox_skills.engines.collecting import CollectRequest
from sandbox_skills.engines.link import LATE_BYTES, Link
from sandbox_skills.engines.requests import Answer, GetRequest, PutRequest, RunRequest
from sandbox_skills.engines.wire import HEADER, MAX_DATA, PROTOCOL, Kind, encode
from sandbox_skills.errors import (
    CommandError,
    EngineError,
    InputError,
    PathEscapeError,
    RequestError,
    RunnerProtocolError,
    SandboxLostError,
    WorkspaceFullError,
)
from sandbox_skills.spec import KIB, MIB, CollectLimits, Command, Exited, Limits, Stopped, TerminalSize

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from typing import Protocol

    from sandbox_skills.engines.client import RunnerClient
    from sandbox_skills.engines.requests import Request
    from sandbox_skills.spec import FoundFile

    class BoxEnd(Protocol):
        """The double of conftest."""

        async def heard(self, kind: Kind) -> int: ...
        async def listen(self) -> None: ...
        def say(self, kind: Kind, ref: int, payload: bytes | dict[str, Any] = b"") -> None: ...
        def raw(self, data: bytes) -> None: ...
        async def flood(self, data: bytes) -> None: ...
        def hello(self, **body: object) -> None: ...
        def hang_up(self) -> None: ...

    Call = Callable[[RunnerClient], Awaitable[object]]

pytestmark = pytest.mark.anyio

SHORT = 0.2
"""Seconds that waits of the product are cut down to."""

PATIENCE = 5.0
"""Seconds after which a test says that the host hangs."""

ENDED: dict[str, Any] = {
    "exit": 0,
    "signal": None,
    "stopped": None,
    "oom_kills": 0,
    "pids_max": 0,
    "disk_full": False,
    "inodes_full": False,
    "stdout_bytes": 0,
    "stderr_bytes": 0,
    "wall": 0.1,
    "cpu": 0.1,
    "max_rss": 1,
    "clean": True,
}

GONE = (RunnerProtocolError, SandboxLostError)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "ANSWER_SECONDS", SHORT)
    monkeypatch.setattr(process_module, "STOP_SECONDS", SHORT)


class Sink:
    blocking = False

    def begin(self, file: FoundFile, /) -> None: ...
    def write(self, data: bytes, /) -> None: ...
    def end(self) -> None: ...


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def got(client: RunnerClient, max_bytes: int = KIB) -> bytes:
    async with client.get(PurePosixPath("a"), max_bytes=max_bytes) as parts:
        return b"".join([part async for part in parts])


LIMITS = Limits(wall_seconds=SHORT, stdout_bytes=KIB, stderr_bytes=KIB, output_bytes=4 * KIB)

CALLS: dict[Kind, Call] = {
    Kind.PING: lambda client: client.ping(),
    Kind.PREPARE: lambda client: client.prepare(dirs=[PurePosixPath("a")]),
    Kind.FACTS: lambda client: client.facts(None),
    Kind.PUT: lambda client: client.put(PurePosixPath("a"), chunks(b"abc")),
    Kind.GET: got,
    Kind.COLLECT: lambda client: client.collect(["*"], CollectLimits(total_bytes=KIB), Sink()),
    Kind.RUN: lambda client: client.run(Command(("true",)), limits=LIMITS),
}


async def talked_to(client: RunnerClient) -> object:
    async with client.start(Command(("true",)), limits=LIMITS, tty=TerminalSize()) as process:
        return await process.wait()


def one_of_each() -> list[Request[Any]]:
    requests: list[Request[Any]] = [Answer(Kind.PONG), PutRequest(), GetRequest(9), RunRequest(LIMITS, None)]
    return [*requests, CollectRequest(["**"], CollectLimits(), Sink())]


hostile_frames = st.builds(
    encode,
    st.sampled_from([kind for kind in Kind if kind >= Kind.HELLO]),
    st.integers(0, 6),
    st.one_of(
        st.binary(max_size=12),
        st.sampled_from(
            [ENDED, {"size": 0}, {"code": "failed", "message": ""}, {"limits_hit": [], "skipped": {}}]
        ),
        st.fixed_dictionaries(
            {
                "path": st.text(max_size=3),
                "size": st.integers(-1, 9),
                "mode": st.just(0),
                "take": st.integers(-1, 9),
            }
        ),
    ),
)

calls = pytest.mark.parametrize("kind", CALLS, ids=lambda kind: kind.name.lower())


async def fails(client: RunnerClient, kind: Kind, *errors: type[BaseException]) -> None:
    """The call raises one of the errors, in time; so does every call after it, at once."""
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(errors or GONE):
            await CALLS[kind](client)
        assert not client.alive
        for call in CALLS.values():
            with pytest.raises(errors or GONE):
                await call(client)


class TestHello:
    async def test_it_is_returned(self, client: RunnerClient, double: BoxEnd) -> None:
        double.hello(pid=1)
        assert await client.hello(PATIENCE) == {"protocol": PROTOCOL, "pid": 1}

    @pytest.mark.parametrize("protocol", [0, PROTOCOL + 1, None, "1", [], "x" * 100_000])
    async def test_another_protocol_ends_the_box_and_names_the_fix(
        self, client: RunnerClient, double: BoxEnd, protocol: object
    ) -> None:
        double.hello(protocol=protocol)
        with pytest.raises(RunnerProtocolError) as caught:
            await client.hello(PATIENCE)
        assert caught.value.hint == "sandbox-skills image build"
        assert len(caught.value.message) < 200
        assert not client.alive

    async def test_one_that_never_comes_is_a_lost_box(self, client: RunnerClient) -> None:
        with pytest.raises(SandboxLostError):
            await client.hello(SHORT)
        assert not client.alive

    async def test_one_that_ends_the_channel_instead_is_a_lost_box(
        self, client: RunnerClient, double: BoxEnd
    ) -> None:
        double.hang_up()
        with pytest.raises(SandboxLostError):
            await client.hello(PATIENCE)

    @pytest.mark.parametrize("second", [encode(Kind.HELLO, 0, b"{}"), encode(Kind.PONG, 0, b"{}")])
    async def test_anything_after_it_that_nobody_asked_for_is_a_breach(
        self, client: RunnerClient, double: BoxEnd, second: bytes
    ) -> None:
        double.hello()
        double.raw(second)
        await client.hello(PATIENCE)
        await fails(client, Kind.PING, RunnerProtocolError)

    async def test_anything_before_it_is_a_breach(self, client: RunnerClient, double: BoxEnd) -> None:
        double.say(Kind.PONG, 1)
        double.hello()
        with pytest.raises(RunnerProtocolError):
            await client.hello(PATIENCE)


class TestBreaches:
    @calls
    async def test_the_end_of_the_channel_is_a_lost_box(
        self, client: RunnerClient, double: BoxEnd, kind: Kind
    ) -> None:
        async def box() -> None:
            await double.heard(kind)
            double.hang_up()

        async with asyncio.TaskGroup() as group:
            group.create_task(box())
            await fails(client, kind, SandboxLostError)

    @calls
    async def test_the_end_within_a_frame_is_a_lost_box(
        self, client: RunnerClient, double: BoxEnd, kind: Kind
    ) -> None:
        async def box() -> None:
            ref = await double.heard(kind)
            double.raw(encode(Kind.ENDED, ref, ENDED)[:-1])
            double.hang_up()

        async with asyncio.TaskGroup() as group:
            group.create_task(box())
            await fails(client, kind, SandboxLostError)

    @calls
    async def test_silence_is_a_lost_box(self, client: RunnerClient, double: BoxEnd, kind: Kind) -> None:
        started = time.monotonic()
        await fails(client, kind, SandboxLostError)
        assert time.monotonic() - started < 20 * SHORT

    @calls
    @pytest.mark.parametrize(
        "answer",
        [
            pytest.param(lambda ref: b"HTTP/1.1 500 Oops\r\n\r\n", id="text"),
            pytest.param(lambda ref: HEADER.pack(1, ref, 0), id="a kind of the host"),
            pytest.param(lambda ref: HEADER.pack(Kind.PONG, ref, 1 << 30), id="too long"),
            pytest.param(lambda ref: HEADER.pack(Kind.STDOUT, ref, 0), id="empty output"),
            pytest.param(lambda ref: encode(Kind.PONG, ref + 1), id="the future"),
            pytest.param(lambda ref: encode(Kind.HELLO, ref, b"{}"), id="another hello"),
            pytest.param(lambda ref: encode(Kind.ERROR, ref, b"[]"), id="error as a list"),
            pytest.param(
                lambda ref: encode(Kind.ERROR, ref, {"code": "quit", "message": ""}), id="unknown code"
            ),
            pytest.param(
                lambda ref: encode(Kind.ERROR, ref, {"code": {}, "message": ""}), id="code as object"
            ),
            pytest.param(lambda ref: encode(Kind.ERROR, ref, b"\xff\xfe"), id="no text"),
        ],
    )
    async def test_what_no_runner_says_is_a_breach(
        self, client: RunnerClient, double: BoxEnd, kind: Kind, answer: Callable[[int], bytes]
    ) -> None:
        async def box() -> None:
            double.raw(answer(await double.heard(kind)))

        async with asyncio.TaskGroup() as group:
            group.create_task(box())
            await fails(client, kind, RunnerProtocolError)

    @calls
    @pytest.mark.parametrize("reply", [kind for kind in Kind if kind > Kind.HELLO and kind is not Kind.ERROR])
    async def test_an_answer_to_something_else_is_a_breach_or_means_nothing(
        self, client: RunnerClient, double: BoxEnd, kind: Kind, reply: Kind
    ) -> None:
        async def box() -> None:
            ref = await double.heard(kind)
            double.say(reply, ref, b"{}")
            double.hang_up()

        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(box())
            try:
                await CALLS[kind](client)
            except GONE:
                assert not client.alive

    @calls
    async def test_a_refusal_is_an_error_and_the_box_lives(
        self, client: RunnerClient, double: BoxEnd, kind: Kind
    ) -> None:
        async def box() -> None:
            ref = await double.heard(kind)
            double.say(Kind.ERROR, ref, {"code": "not_found", "message": "no such thing"})
            double.say(Kind.PONG, await double.heard(Kind.PING))

        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(box())
            with pytest.raises(InputError, match="no such thing"):
                await CALLS[kind](client)
            assert await client.ping() < PATIENCE

    @calls
    async def test_a_flood_is_a_breach_and_nothing_of_it_is_kept(
        self, client: RunnerClient, double: BoxEnd, kind: Kind
    ) -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        async def box() -> None:
            ref = await double.heard(kind)
            first = encode(Kind.FILES, ref, {"files": [["a", 9, 0, 9]]})
            double.raw(first if kind is Kind.COLLECT else b"")
            flooding = Kind.STDOUT if kind is Kind.RUN else Kind.DATA
            await double.flood(encode(flooding, ref, bytes(MAX_DATA)))

        async with asyncio.TaskGroup() as group:
            group.create_task(box())
            await fails(client, kind, RunnerProtocolError)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * KIB

    @given(stream=st.lists(st.one_of(hostile_frames, st.binary(max_size=20)), max_size=6), cut=st.booleans())
    async def test_whatever_comes_the_link_goes_on_or_ends_for_good(
        self, stream: list[bytes], *, cut: bool
    ) -> None:
        link = Link("box")
        with ExitStack() as stack:
            requests = [stack.enter_context(link.asked(request)) for request in one_of_each()]
            data = b"".join(stream)[: -1 if cut else None]
            for start in range(0, len(data), 7):
                link.received(memoryview(data)[start : start + 7])
            if not link.alive:
                assert all(request.done for request in requests)
                with pytest.raises(RunnerProtocolError), link.asked(Answer(Kind.PONG)):
                    pass


class TestLate:
    async def test_what_is_on_its_way_for_a_cancelled_request_is_dropped(
        self, client: RunnerClient, double: BoxEnd
    ) -> None:
        task = asyncio.ensure_future(got(client))
        ref = await double.heard(Kind.GET)
        task.cancel()
        await asyncio.wait([task])
        assert await double.heard(Kind.KILL) == ref
        double.say(Kind.DATA, ref, b"late")
        double.say(Kind.ERROR, ref, {"code": "failed", "message": "cancelled"})
        ping = asyncio.ensure_future(client.ping())
        double.say(Kind.PONG, await double.heard(Kind.PING))
        await ping

    async def test_more_than_can_be_on_its_way_is_a_breach(
        self, client: RunnerClient, double: BoxEnd
    ) -> None:
        task = asyncio.ensure_future(got(client))
        ref = await double.heard(Kind.GET)
        task.cancel()
        await asyncio.wait([task])
        for _ in range(LATE_BYTES // MAX_DATA + 1):
            double.say(Kind.DATA, ref, bytes(MAX_DATA))
        await fails(client, Kind.PING, RunnerProtocolError)

    async def test_anything_for_a_request_that_was_answered_is_a_breach(
        self, client: RunnerClient, double: BoxEnd
    ) -> None:
        ping = asyncio.ensure_future(client.ping())
        ref = await double.heard(Kind.PING)
        double.say(Kind.PONG, ref)
        await ping
        double.say(Kind.PONG, ref)
        await fails(client, Kind.PING, RunnerProtocolError)


class TestRun:
    async def test_a_run_that_never_ends_is_given_up_after_its_time(
        self, client: RunnerClient, double: BoxEnd
    ) -> None:
        started = time.monotonic()
        with pytest.raises(SandboxLostError):
            await client.run(Command(("true",)), limits=Limits(wall_seconds=SHORT))
        assert 2 * SHORT <= time.monotonic() - started < 20 * SHORT
        assert not client.alive

    async def test_output_goes_on_for_ever_only_until_the_time_is_over(
        self, client: RunnerClient, double: BoxEnd
    ) -> None:
        async def box() -> None:
            ref = await double.heard(Kind.RUN)
            while client.alive:
                double.say(Kind.STDOUT, ref, b"x")
                await asyncio.sleep(0.01)

        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(box())
            with pytest.raises(SandboxLostError):
                await client.run(Command(("true",)), limits=LIMITS)

    @pytest.mark.parametrize("times", [1, 3])
    async def test_a_cancel_waits_until_the_run_is_gone(
        self, client: RunnerClient, double: BoxEnd, times: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(process_module, "STOP_SECONDS", PATIENCE)
        task = asyncio.ensure_future(client.run(Command(("true",))))
        ref = await double.heard(Kind.RUN)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(SHORT / 4)
        assert await double.heard(Kind.KILL) == ref
        assert not task.done()
        double.say(Kind.ENDED, ref, {**ENDED, "exit": None, "stopped": "cancelled"})
        with pytest.raises(asyncio.CancelledError):
            await task
        assert client.alive

    async def test_a_cancel_scope_does_too(self, client: RunnerClient, double: BoxEnd) -> None:
        async def box() -> None:
            ref = await double.heard(Kind.KILL)
            await asyncio.sleep(SHORT / 4)
            double.say(Kind.ENDED, ref, {**ENDED, "exit": None, "stopped": "cancelled"})

        async with asyncio.TaskGroup() as group:
            group.create_task(box())
            with anyio.move_on_after(SHORT / 4) as scope:
                await client.run(Command(("true",)))
        assert scope.cancelled_caught
        assert client.alive

    async def test_a_cancelled_run_that_stays_costs_the_box(
        self, client: RunnerClient, double: BoxEnd
    ) -> None:
        with anyio.move_on_after(SHORT / 4) as scope:
            await client.run(Command(("true",)))
        assert scope.cancelled_caught
        assert not client.alive

    @pytest.mark.parametrize("cancelled", [False, True])
    async def test_processes_that_would_not_die_cost_the_box(
        self, client: RunnerClient, double: BoxEnd, *, cancelled: bool
    ) -> None:
        task = asyncio.ensure_future(client.run(Command(("true",))))
        ref = await double.heard(Kind.RUN)
        if cancelled:
            task.cancel()
            await double.heard(Kind.KILL)
        double.say(Kind.ENDED, ref, {**ENDED, "clean": False})
        await asyncio.wait([task])
        assert not client.alive
        if not cancelled:
            assert (task.result().ending, task.result().sandbox_lives) == (Exited(0), False)

    async def test_a_sink_that_raises_ends_the_run_and_not_the_box(
        self, client: RunnerClient, double: BoxEnd
    ) -> None:
        def sink(stream: str, data: bytes, /) -> None:
            raise LookupError("the sink's own")

        task = asyncio.ensure_future(client.run(Command(("true",)), on_output=sink))
        ref = await double.heard(Kind.RUN)
        double.say(Kind.STDOUT, ref, b"x")
        assert await double.heard(Kind.KILL) == ref
        double.say(Kind.ENDED, ref, {**ENDED, "exit": None, "stopped": "cancelled", "stdout_bytes": 1})
        with pytest.raises(LookupError, match="the sink's own"):
            await task
        assert client.alive

    @pytest.mark.parametrize("death", [Death(oom=True, exit_code=137)])
    async def test_a_box_that_died_for_memory_is_an_outcome(
        self, client: RunnerClient, double: BoxEnd, death: Death
    ) -> None:
        task = asyncio.ensure_future(client.run(Command(("true",))))
        double.say(Kind.STDOUT, await double.heard(Kind.RUN), b"so far")
        double.hang_up()
        outcome = await task
        assert (outcome.ending, outcome.stdout, outcome.sandbox_lives) == (
            Stopped("memory"),
            b"so far",
            False,
        )

    async def test_a_second_run_is_refused_and_the_first_goes_on(
        self, client: RunnerClient, double: BoxEnd
    ) -> None:
        task = asyncio.ensure_future(client.run(Command(("true",))))
        ref = await double.heard(Kind.RUN)
        with pytest.raises(EngineError, match="runs another command"):
            await client.run(Command(("true",)))
        double.say(Kind.ENDED, ref, ENDED)
        assert (await task).ok

    async def test_nothing_is_sent_for_what_cannot_be_run(self, client: RunnerClient, double: BoxEnd) -> None:
        with pytest.raises(CommandError):
            await client.run(Command(("a\0b",)))
        with pytest.raises(RequestError, match="longer than"):
            await client.run(Command(("x" * 3 * MIB,)))
        double.hello()
        assert await client.hello(PATIENCE)
        assert client.alive

    async def test_a_program_that_was_left_is_killed_and_waited_for(
        self, client: RunnerClient, double: BoxEnd
    ) -> None:
        async def box() -> None:
            ref = await double.heard(Kind.KILL)
            await asyncio.sleep(SHORT / 4)
            double.say(Kind.ENDED, ref, {**ENDED, "exit": None, "stopped": "cancelled"})

        async with asyncio.TaskGroup() as group:
            group.create_task(box())
            with pytest.raises(LookupError):
                async with client.start(Command(("true",))) as process:
                    raise LookupError
        assert (await process.wait()).ending == Stopped("cancelled")
        assert client.alive

    async def test_one_that_ended_unwatched_and_unclean_costs_the_box(
        self, client: RunnerClient, double: BoxEnd
    ) -> None:
        async with client.start(Command(("true",))):
            double.say(Kind.ENDED, await double.heard(Kind.RUN), {**ENDED, "clean": False})
            await asyncio.sleep(SHORT / 4)
        assert not client.alive

    @pytest.mark.parametrize("granted", [{"bytes": 4}, {"bytes": -1}, {"bytes": "1"}, {}, {"bytes": True}])
    async def test_room_for_input_that_was_never_sent_is_a_breach(
        self, client: RunnerClient, double: BoxEnd, granted: dict[str, object]
    ) -> None:
        async with asyncio.timeout(PATIENCE), client.start(Command(("true",), stdin=b"abc")) as process:
            double.say(Kind.STDIN_CREDIT, await double.heard(Kind.RUN), granted)
            with pytest.raises(RunnerProtocolError):
                await process.wait()

    async def test_a_box_that_vanishes_ends_a_writer(self, client: RunnerClient, double: BoxEnd) -> None:
        async with asyncio.timeout(PATIENCE), client.start(Command(("true",))) as process:
            writing = asyncio.ensure_future(process.write(bytes(2 * MIB)))
            await double.heard(Kind.RUN)
            double.hang_up()
            assert not await writing
            with pytest.raises(SandboxLostError):
                await process.wait()

    async def test_what_cannot_be_a_terminal_is_refused_before_anything_is_sent(
        self, client: RunnerClient
    ) -> None:
        with pytest.raises(CommandError):
            async with client.start(Command(("true",)), tty=TerminalSize(0, 80)):
                pytest.fail("there is no such terminal")

    async def test_a_program_that_never_ends_is_given_up_after_its_time(
        self, client: RunnerClient, double: BoxEnd
    ) -> None:
        started = time.monotonic()
        with pytest.raises(SandboxLostError):
            await talked_to(client)
        assert 2 * SHORT <= time.monotonic() - started < 20 * SHORT


class TestFiles:
    @pytest.mark.parametrize("path", ["../a", "/etc/a", "a/../../b", "."])
    async def test_a_path_that_leaves_is_refused_before_anything_is_sent(
        self, client: RunnerClient, path: str
    ) -> None:
        name = PurePosixPath(path)
        with pytest.raises(PathEscapeError):
            await client.put(name, chunks())
        with pytest.raises(PathEscapeError):
            async with client.get(name, max_bytes=1):
                pass
        with pytest.raises(PathEscapeError):
            await client.prepare(dirs=[name])
        with pytest.raises(PathEscapeError):
            await client.prepare(links={name: PurePosixPath("x")})
        assert client.alive

    async def test_a_box_that_reads_nothing_does_not_hold_a_put(self, client: RunnerClient) -> None:
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(SandboxLostError):
                await client.put(PurePosixPath("a"), chunks(bytes(2 * MIB)))

    async def test_a_source_that_raises_gives_up_the_put_and_not_the_box(
        self, client: RunnerClient, double: BoxEnd
    ) -> None:
        async def broken() -> AsyncIterator[bytes]:
            yield b"half"
            raise TimeoutError("the source's own")

        with pytest.raises(TimeoutError, match="the source's own"):
            await client.put(PurePosixPath("a"), broken())
        assert await double.heard(Kind.KILL) == 1
        assert client.alive

    async def test_a_refused_put_stops_sending(self, client: RunnerClient, double: BoxEnd) -> None:
        sent = 0

        async def endless() -> AsyncIterator[bytes]:
            nonlocal sent
            while True:
                sent += 1
                yield bytes(KIB)
                await asyncio.sleep(0)

        async def box() -> None:
            ref = await double.heard(Kind.PUT)
            double.say(Kind.ERROR, ref, {"code": "no_space", "message": "full"})
            await double.listen()

        listening = asyncio.ensure_future(box())
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(WorkspaceFullError):
                await client.put(PurePosixPath("a"), endless())
        assert sent < 1000
        listening.cancel()

    async def test_a_file_is_not_read_after_it_was_left(self, client: RunnerClient, double: BoxEnd) -> None:
        async def box() -> None:
            double.say(Kind.DATA, await double.heard(Kind.GET), b"abc")

        async with asyncio.TaskGroup() as group:
            group.create_task(box())
            async with client.get(PurePosixPath("a"), max_bytes=KIB) as parts:
                assert await anext(parts) == b"abc"
        with pytest.raises(EngineError, match="not being read"):
            await anext(parts)
        assert client.alive
        assert await double.heard(Kind.KILL) == 1

    async def test_a_slow_reader_is_not_a_slow_box(self, client: RunnerClient, double: BoxEnd) -> None:
        async def box() -> None:
            ref = await double.heard(Kind.GET)
            double.say(Kind.DATA, ref, b"abc")
            double.say(Kind.END, ref, {"size": 3, "truncated": False})

        async with asyncio.TaskGroup() as group:
            group.create_task(box())
            async with client.get(PurePosixPath("a"), max_bytes=KIB) as parts:
                await asyncio.sleep(2 * SHORT)
                assert b"".join([part async for part in parts]) == b"abc"

    async def test_a_trickle_ends_when_its_time_is_over(self, client: RunnerClient, double: BoxEnd) -> None:
        async def box() -> None:
            ref = await double.heard(Kind.GET)
            while client.alive:
                double.say(Kind.DATA, ref, b"x")
                await asyncio.sleep(SHORT / 10)

        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(box())
            with pytest.raises(SandboxLostError):
                await got(client)

    async def test_no_pattern_sends_nothing(self, client: RunnerClient, double: BoxEnd) -> None:
        collection = await client.collect([], CollectLimits(), Sink())
        assert collection.files == ()


class TestCancel:
    @calls
    @pytest.mark.parametrize("by_scope", [False, True], ids=["task", "scope"])
    async def test_a_cancel_is_heard_at_once_and_the_box_lives(
        self, client: RunnerClient, double: BoxEnd, kind: Kind, *, by_scope: bool
    ) -> None:
        async def call() -> None:
            if by_scope:
                with anyio.fail_after(SHORT / 4):
                    await CALLS[kind](client)
            else:
                await CALLS[kind](client)

        task = asyncio.ensure_future(call())
        ref = await double.heard(kind)
        if not by_scope:
            task.cancel()
        assert await double.heard(Kind.KILL) == ref
        if kind is Kind.RUN:
            double.say(Kind.ENDED, ref, {**ENDED, "exit": None, "stopped": "cancelled"})
        with pytest.raises((asyncio.CancelledError, TimeoutError)):
            await task
        ping = asyncio.ensure_future(client.ping())
        double.say(Kind.PONG, await double.heard(Kind.PING))
        await ping
        assert client.alive

    @calls
    async def test_closing_wakes_whoever_waits(
        self, client: RunnerClient, double: BoxEnd, kind: Kind
    ) -> None:
        task = asyncio.ensure_future(_awaited(CALLS[kind](client)))
        await double.heard(kind)
        client.close()
        with pytest.raises(SandboxLostError, match="was closed"):
            await task


async def _awaited(call: Awaitable[object]) -> object:
    return await call


def test_the_payloads_of_the_double_are_what_a_runner_sends() -> None:
    assert json.loads(encode(Kind.ENDED, 1, ENDED)[HEADER.size :]) == ENDED

"""Interactive programs of a session, over the fake engine."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Literal

import anyio
import pytest

from sandbox_skills.engines.fake import FakeEngine, FakeSandbox
from sandbox_skills.errors import (
    CommandError,
    EngineError,
    ProgramNotFoundError,
    QuotaError,
    SandboxLostError,
    SessionClosedError,
)
from sandbox_skills.spec import Command, Exited, Limits, SandboxSpec, Signalled, Stopped, TerminalSize
from sandbox_skills.workspace.interactive import InteractivePrograms, registry
from sandbox_skills.workspace.interactive import program as program_module
from sandbox_skills.workspace.live_output import LiveOutput, OutputChunk

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from sandbox_skills.engines.fake_programs import Running
    from sandbox_skills.spec import Outcome

    Programs = InteractivePrograms[str]

pytestmark = pytest.mark.anyio

ASK = Command(("sh", "-c", 'printf "Name: "; read name; echo "hello $name"'))
CAT = Command(("cat",))


async def told(outcome: Outcome) -> str:
    return f"ended {outcome.ending}"


async def drip(run: Running) -> int:
    """Says a word every 30 ms, for as long as it is told."""
    for n in range(int(run.command.argv[1])):
        run.write(b"%d\n" % n)
        await asyncio.sleep(0.03)
    return 0


async def deaf(run: Running) -> int:
    """Reads nothing."""
    await asyncio.sleep(60)
    return 0


@asynccontextmanager
async def session(**bounds: float) -> AsyncGenerator[tuple[Programs, FakeSandbox]]:
    engine = FakeEngine({"drip": drip, "deaf": deaf}, concurrent_runs=4)
    async with engine.open(SandboxSpec(needs=frozenset())) as sandbox:
        assert isinstance(sandbox, FakeSandbox)
        kept = bounds.get("kept_seconds", 60.0)
        most = int(bounds.get("max_programs", 16))
        async with InteractivePrograms[str](sandbox, max_programs=most, kept_seconds=kept) as programs:
            yield programs, sandbox


@pytest.fixture
async def programs(anyio_backend: object) -> AsyncIterator[Programs]:
    async with session() as (opened, _):
        yield opened


class TestTalking:
    @pytest.mark.parametrize("tty", [None, TerminalSize()])
    async def test_a_question_is_polled_answered_and_its_end_told_once(
        self, programs: Programs, tty: TerminalSize | None
    ) -> None:
        program = await programs.start(ASK, on_exit=told, tty=tty)
        poll = await program.poll()
        assert (poll.status, poll.text, poll.result) == ("running", "Name: ", None)
        assert poll.interaction is not None
        assert (poll.interaction.kind, poll.interaction.hint) == ("prompt", "Name:")
        assert await program.write("World", submit=True)
        last = await program.poll(yield_seconds=5)
        assert (last.status, last.interaction, last.result) == ("exited", None, "ended Exited(code=0)")
        assert last.outcome is not None
        assert last.outcome.ending == Exited(0)
        shown = "Name: hello World\n" if tty is None else "Name: World\nhello World\n"
        assert last.text == shown
        again = await program.poll(offset=0)
        assert (again.text, again.result) == (shown, last.result)

    async def test_its_first_input_is_given_and_stays_open(self, programs: Programs) -> None:
        program = await programs.start(Command(("cat",), stdin=b"first\n"), on_exit=told)
        assert (await program.poll()).text == "first\n"
        await program.write("second\n")
        assert (await program.poll()).text == "second\n"
        program.close_stdin()
        assert (await program.poll(yield_seconds=5)).status == "exited"

    async def test_offsets_are_line_numbers_that_any_call_may_go_back_to(self, programs: Programs) -> None:
        program = await programs.start(CAT, on_exit=told)
        await program.write("a\nb\nc\nd\ne\n")
        first = await program.poll(limit=2)
        assert (first.text, first.lines.next_offset, first.lines.left) == ("a\nb\n", 2, 3)
        assert (await program.poll(limit=1)).text == "c\n"
        assert (await program.poll(offset=first.lines.next_offset, limit=9)).text == "c\nd\ne\n"
        assert (await program.poll(yield_seconds=0)).text == ""

    async def test_what_was_answered_is_no_question_any_more(self, programs: Programs) -> None:
        menu = 'echo "1) one"; echo "2) two"; printf "Choose: "; read a; printf "working"; read b'
        program = await programs.start(Command(("sh", "-c", menu)), on_exit=told, tty=TerminalSize())
        found = (await program.poll()).interaction
        assert found is not None
        assert found.kind == "selection"
        await program.write("1", submit=True)
        assert (await program.poll()).interaction is None

    async def test_a_program_that_ended_takes_nothing(self, programs: Programs) -> None:
        program = await programs.start(Command(("true",)), on_exit=told)
        await program.poll(yield_seconds=5)
        assert not await program.write("x")
        assert await program.kill() == "exited"

    async def test_typing_what_nobody_reads_can_be_given_up(self, programs: Programs) -> None:
        program = await programs.start(Command(("deaf",)), on_exit=told)
        with anyio.move_on_after(0.05) as scope:
            await program.write("x" * 5_000_000)
        assert scope.cancelled_caught
        assert await programs.kill(program.id) == "killed"

    async def test_the_terminal_can_be_resized_but_not_to_nothing(self, programs: Programs) -> None:
        text = "read x; stty"
        program = await programs.start(Command(("sh", "-c", text)), on_exit=told, tty=TerminalSize())
        program.resize(TerminalSize(10, 20))
        with pytest.raises(CommandError):
            program.resize(TerminalSize(0, 20))

    async def test_a_terminal_is_plain_unless_the_caller_knows_better(self, programs: Programs) -> None:
        for env, shown in (({}, "dumb\n"), ({"TERM": "xterm"}, "xterm\n")):
            command = Command(("printenv", "TERM"), env=env)
            program = await programs.start(command, on_exit=told, tty=TerminalSize())
            assert (await program.poll(yield_seconds=5)).text == shown
        bare = await programs.start(Command(("printenv", "TERM")), on_exit=told)
        assert (await bare.poll(yield_seconds=5)).text == ""


class TestWaiting:
    async def test_a_poll_waits_for_quiet_after_something_was_said(self, programs: Programs) -> None:
        started = time.monotonic()
        program = await programs.start(Command(("drip", "5")), on_exit=told)
        async with asyncio.timeout(10):
            poll = await program.poll(yield_seconds=60)
        assert poll.text.split() == ["0", "1", "2", "3", "4"]
        assert time.monotonic() - started >= 0.12

    async def test_a_poll_of_a_silent_program_takes_as_long_as_it_may(self, programs: Programs) -> None:
        program = await programs.start(CAT, on_exit=told)
        started = time.monotonic()
        async with asyncio.timeout(10):
            assert (await program.poll(yield_seconds=0.2)).text == ""
        assert time.monotonic() - started >= 0.2

    @pytest.mark.parametrize("seconds", [0, -1, float("nan")])
    async def test_a_poll_that_is_to_wait_no_time_does_not(self, programs: Programs, seconds: float) -> None:
        program = await programs.start(CAT, on_exit=told)
        async with asyncio.timeout(10):
            assert (await program.poll(yield_seconds=seconds)).status == "running"

    async def test_a_poll_of_one_that_never_stops_does_too(self, programs: Programs) -> None:
        program = await programs.start(Command(("drip", "1000")), on_exit=told)
        started = time.monotonic()
        async with asyncio.timeout(10):
            poll = await program.poll(yield_seconds=0.2)
        assert poll.text.startswith("0\n")
        assert time.monotonic() - started >= 0.2

    async def test_what_came_before_the_poll_need_not_come_again(self, programs: Programs) -> None:
        program = await programs.start(ASK, on_exit=told)
        await asyncio.sleep(0.1)
        async with asyncio.timeout(10):
            assert (await program.poll(yield_seconds=60)).text == "Name: "

    async def test_two_polls_at_once_both_return(self, programs: Programs) -> None:
        program = await programs.start(ASK, on_exit=told)
        await program.poll()
        polls = [asyncio.ensure_future(program.poll(offset=0, yield_seconds=5)) for _ in range(3)]
        await asyncio.sleep(0.01)
        await program.write("x", submit=True)
        assert {(await poll).text for poll in polls} == {"Name: hello x\n"}


class TestEnding:
    async def test_a_kill_asks_first(self, programs: Programs) -> None:
        program = await programs.start(CAT, on_exit=told)
        assert await programs.kill(program.id) == "killed"
        poll = await program.poll()
        assert (poll.status, poll.result) == ("killed", f"ended {Signalled(15)}")
        with pytest.raises(ProgramNotFoundError):
            programs.get(program.id)

    async def test_a_kill_insists(self, programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(program_module, "KILL_SECONDS", 0.05)
        monkeypatch.setattr("sandbox_skills.engines.fake.FakeProcess.signal", lambda *_: None)
        program = await programs.start(CAT, on_exit=told)
        assert await program.kill() == "killed"
        assert (await program.poll()).result == f"ended {Stopped('cancelled')}"

    async def test_a_kill_that_is_given_up_insists_at_once(
        self, programs: Programs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sandbox_skills.engines.fake.FakeProcess.signal", lambda *_: None)
        program = await programs.start(CAT, on_exit=told)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(programs.kill(program.id), 0.05)
        poll = await program.poll(yield_seconds=1)
        assert (poll.status, poll.result) == ("killed", f"ended {Stopped('cancelled')}")

    async def test_one_that_ended_by_itself_is_not_forgotten_by_a_kill(self, programs: Programs) -> None:
        program = await programs.start(Command(("true",)), on_exit=told)
        await program.poll(yield_seconds=5)
        assert await programs.kill(program.id) == "exited"
        assert programs.get(program.id) is program

    async def test_the_wall_limit_is_an_ending(self, programs: Programs) -> None:
        program = await programs.start(CAT, on_exit=told, limits=Limits(wall_seconds=0.05))
        assert (await program.poll(yield_seconds=5)).result == f"ended {Stopped('wall_time')}"

    async def test_ended_ones_are_forgotten_after_their_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async with session(kept_seconds=60) as (programs, _):
            program = await programs.start(Command(("true",)), on_exit=told)
            running = await programs.start(CAT, on_exit=told)
            await program.poll(yield_seconds=5)
            assert programs.get(program.id) is program
            later = SimpleNamespace(monotonic=lambda: time.monotonic() + 60)
            monkeypatch.setattr(registry, "time", later)
            with pytest.raises(ProgramNotFoundError):
                programs.get(program.id)
            assert programs.get(running.id) is running

    async def test_the_oldest_that_ended_makes_room_and_a_running_one_does_not(self) -> None:
        async with session(max_programs=2) as (programs, _):
            done = [await programs.start(Command(("true",)), on_exit=told) for _ in range(2)]
            for program in done:
                await program.poll(yield_seconds=5)
            running = [await programs.start(CAT, on_exit=told) for _ in range(2)]
            with pytest.raises(ProgramNotFoundError):
                programs.get(done[0].id)
            with pytest.raises(QuotaError):
                await programs.start(CAT, on_exit=told)
            assert all(programs.get(program.id) is program for program in running)

    async def test_leaving_the_session_kills_all_and_calls_nobody(self) -> None:
        calls: list[Outcome] = []

        async def note(outcome: Outcome) -> str:
            calls.append(outcome)
            return ""

        async with session() as (programs, sandbox):
            program = await programs.start(CAT, on_exit=note)
            waiting = asyncio.ensure_future(program.poll(yield_seconds=60))
            await asyncio.sleep(0.01)
            await programs.aclose()
            with pytest.raises(SessionClosedError):
                await waiting
            assert (await sandbox.run(Command(("true",)))).ok
        assert calls == []

    async def test_one_that_was_only_just_started_is_killed_too(self) -> None:
        async with session() as (programs, sandbox):
            program = await programs.start(CAT, on_exit=told)
            await programs.aclose()
            with pytest.raises(SessionClosedError):
                await program.poll()
            assert sandbox._runs == 0

    async def test_a_box_that_is_lost_is_told_by_the_next_poll(self) -> None:
        async with session() as (programs, sandbox):
            program = await programs.start(CAT, on_exit=told)
            sandbox.lose()
            with pytest.raises(SandboxLostError):
                await program.poll(yield_seconds=5)
            with pytest.raises(SandboxLostError):
                await programs.start(CAT, on_exit=told)

    async def test_a_fault_of_the_hook_is_told_by_the_poll(self, programs: Programs) -> None:
        async def broken(outcome: Outcome) -> str:
            raise LookupError("the hook's own")

        program = await programs.start(Command(("true",)), on_exit=broken)
        for _ in range(2):
            with pytest.raises(LookupError, match="the hook's own"):
                await program.poll(yield_seconds=5)

    async def test_the_result_is_there_when_it_is_said_to_have_ended(self, programs: Programs) -> None:
        collected = asyncio.Event()

        async def slow(outcome: Outcome) -> str:
            await collected.wait()
            return "collected"

        program = await programs.start(Command(("true",)), on_exit=slow)
        assert (await program.poll(yield_seconds=0.02)).status == "running"
        collected.set()
        assert (await program.poll(yield_seconds=5)).result == "collected"


class TestRegistry:
    async def test_ids_are_long_and_none_is_another(self, programs: Programs) -> None:
        started = [await programs.start(Command(("true",)), on_exit=told) for _ in range(4)]
        assert len({program.id for program in started}) == 4
        assert all(len(program.id) == 32 for program in started)
        with pytest.raises(ProgramNotFoundError):
            programs.get(started[0].id[:-1])

    async def test_what_cannot_start_is_told_and_leaves_nothing(self, programs: Programs) -> None:
        with pytest.raises(CommandError):
            await programs.start(Command(()), on_exit=told)
        with pytest.raises(CommandError):
            await programs.start(CAT, on_exit=told, tty=TerminalSize(0, 0))
        for _ in range(4):
            await programs.start(CAT, on_exit=told)
        with pytest.raises(EngineError, match="runs another"):
            await programs.start(CAT, on_exit=told)
        assert len(programs._owned) == 4

    async def test_output_is_heard_live_too(self, programs: Programs) -> None:
        live = LiveOutput()
        program = await programs.start(Command(("echo", "hi")), on_exit=told, sink=live)
        await program.poll(yield_seconds=5)
        live.close()
        assert [event async for event in live] == [OutputChunk(0, "stdout", b"hi\n")]

    async def test_a_sink_that_raises_ends_the_program(self, programs: Programs) -> None:
        def broken(stream: Literal["stdout", "stderr"], data: bytes, /) -> None:
            raise LookupError("the sink's own")

        program = await programs.start(Command(("echo", "hi")), on_exit=told, sink=broken)
        with pytest.raises(LookupError, match="the sink's own"):
            await program.poll(yield_seconds=5)

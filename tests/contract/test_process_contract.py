"""What base.py promises of programs that are talked to, over every engine."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Literal

import anyio
import pytest

from sandbox_skills.errors import CommandError, EngineError, SandboxLostError
from sandbox_skills.spec import MIB, Command, Exited, Limits, SandboxSpec, Signalled, Stopped, TerminalSize

if TYPE_CHECKING:
    from sandbox_skills.engines.base import Engine, Sandbox

pytestmark = pytest.mark.anyio

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "TERM": "dumb"}

ASK = 'printf "Name: "; read name; echo "hello $name"'

TTY = TerminalSize()

terminals = pytest.mark.parametrize("tty", [None, TTY], ids=["pipes", "tty"])


class Heard:
    """Live output, and a way to wait for some of it."""

    def __init__(self) -> None:
        self.said = b""
        self._more = asyncio.Event()

    def __call__(self, stream: Literal["stdout", "stderr"], data: bytes, /) -> None:
        self.said += data
        self._more.set()

    async def until(self, pattern: bytes) -> None:
        async with asyncio.timeout(10):
            while not re.search(pattern, self.said):
                self._more.clear()
                await self._more.wait()


def command(*argv: str, stdin: bytes | None = None) -> Command:
    return Command(argv, env=ENV, stdin=stdin)


@terminals
async def test_a_question_is_answered(sandbox: Sandbox, tty: TerminalSize | None) -> None:
    heard = Heard()
    async with sandbox.start(command("sh", "-c", ASK), tty=tty, on_output=heard) as process:
        await heard.until(rb"Name: $")
        assert await process.write(b"World\n")
        outcome = await process.wait()
    assert outcome.ending == Exited(0)
    assert outcome.stdout.endswith(b"hello World\r\n" if tty else b"hello World\n")
    assert heard.said == outcome.stdout


@terminals
async def test_the_first_input_is_the_commands_and_stays_open(
    sandbox: Sandbox, tty: TerminalSize | None
) -> None:
    heard = Heard()
    async with sandbox.start(command("cat", stdin=b"first\n"), tty=tty, on_output=heard) as process:
        await heard.until(rb"first")
        await process.write(b"second\n")
        await heard.until(rb"second")
        process.close_stdin()
        assert (await process.wait()).ending == Exited(0)


async def test_a_terminal_echoes_and_ends_lines_as_terminals_do(sandbox: Sandbox) -> None:
    heard = Heard()
    async with sandbox.start(command("cat"), tty=TTY, on_output=heard) as process:
        await process.write(b"abc\r")
        await heard.until(rb"^abc\r\nabc\r\n$")


async def test_both_streams_of_a_terminal_are_one(sandbox: Sandbox) -> None:
    async with sandbox.start(command("cat", "no-such-file"), tty=TTY) as process:
        outcome = await process.wait()
    assert outcome.ending == Exited(1)
    assert b"no-such-file" in outcome.stdout
    assert (outcome.stderr, outcome.stderr_bytes) == (b"", 0)


async def test_a_terminal_has_the_size_it_was_given(sandbox: Sandbox) -> None:
    async with sandbox.start(command("stty", "size"), tty=TerminalSize(50, 132)) as process:
        assert (await process.wait()).stdout == b"50 132\r\n"
    async with sandbox.start(command("stty", "size")) as process:
        assert (await process.wait()).ending == Exited(1)


async def test_the_interrupt_key_interrupts(sandbox: Sandbox) -> None:
    heard = Heard()
    async with sandbox.start(command("cat"), tty=TTY, on_output=heard) as process:
        await process.write(b"x\n")
        await heard.until(rb"x\r\nx")
        await process.write(b"\x03")
        assert (await process.wait()).ending == Signalled(2)


@terminals
async def test_the_end_of_the_input_is_seen(sandbox: Sandbox, tty: TerminalSize | None) -> None:
    async with sandbox.start(command("cat"), tty=tty) as process:
        process.close_stdin()
        assert (await process.wait()).ending == Exited(0)
        assert not await process.write(b"x")


@terminals
@pytest.mark.parametrize(("name", "number"), [("INT", 2), ("TERM", 15)])
async def test_a_signal_reaches_the_program(
    sandbox: Sandbox, tty: TerminalSize | None, name: Literal["INT", "TERM"], number: int
) -> None:
    heard = Heard()
    async with sandbox.start(command("cat", stdin=b"up\n"), tty=tty, on_output=heard) as process:
        await heard.until(rb"up")
        process.signal(name)
        assert (await process.wait()).ending == Signalled(number)


@terminals
async def test_a_kill_is_an_ending_for_all_who_wait(sandbox: Sandbox, tty: TerminalSize | None) -> None:
    async with sandbox.start(command("sleep", "60"), tty=tty) as process:
        waiting = [asyncio.ensure_future(process.wait()) for _ in range(3)]
        await asyncio.sleep(0.05)
        process.kill()
        assert {(await one).ending for one in waiting} == {Stopped("cancelled")}
    assert (await process.wait()).ending == Stopped("cancelled")
    assert (await sandbox.run(command("true"))).ok


@terminals
async def test_leaving_kills_and_the_box_lives(sandbox: Sandbox, tty: TerminalSize | None) -> None:
    with pytest.raises(LookupError):
        async with sandbox.start(command("sleep", "60"), tty=tty):
            raise LookupError
    assert (await sandbox.run(command("true"))).ok


async def test_a_cancelled_wait_leaves_the_program(sandbox: Sandbox) -> None:
    async with sandbox.start(command("cat")) as process:
        with anyio.move_on_after(0.05) as scope:
            await process.wait()
        assert scope.cancelled_caught
        assert await process.write(b"still here")
        process.close_stdin()
        assert (await process.wait()).stdout == b"still here"


async def test_more_input_than_is_read_makes_the_writer_wait(sandbox: Sandbox) -> None:
    async with sandbox.start(command("sleep", "60")) as process:
        with anyio.move_on_after(0.3) as scope:
            await process.write(bytes(20 * MIB))
        assert scope.cancelled_caught
        assert await sandbox.ping() < 5


async def test_a_large_input_of_a_run_arrives_whole(sandbox: Sandbox) -> None:
    data = bytes(range(256)) * (20 * MIB // 256)
    outcome = await sandbox.run(command("cat", stdin=data), limits=Limits(stdout_bytes=len(data)))
    assert outcome.stdout == data


@terminals
async def test_the_wall_limit_ends_it(sandbox: Sandbox, tty: TerminalSize | None) -> None:
    async with sandbox.start(command("cat"), tty=tty, limits=Limits(wall_seconds=0.2)) as process:
        assert (await process.wait()).ending == Stopped("wall_time")


@terminals
async def test_the_output_limit_ends_it(sandbox: Sandbox, tty: TerminalSize | None) -> None:
    limits = Limits(output_bytes=4 * MIB, stdout_bytes=1000)
    async with sandbox.start(command("yes"), tty=tty, limits=limits) as process:
        outcome = await process.wait()
    assert (outcome.ending, len(outcome.stdout)) == (Stopped("output"), 1000)


async def test_a_command_that_is_not_there_exits_127(sandbox: Sandbox) -> None:
    async with sandbox.start(command("no-such-program"), tty=TTY) as process:
        assert (await process.wait()).ending == Exited(127)


async def test_it_counts_as_a_run(sandbox: Sandbox) -> None:
    async with sandbox.start(command("cat")):
        with pytest.raises(EngineError, match="runs another"):
            await sandbox.run(command("true"))
        with pytest.raises(EngineError, match="runs another"):
            async with sandbox.start(command("true")):
                pytest.fail("there is one already")
    assert (await sandbox.run(command("true"))).ok


async def test_what_cannot_be_is_refused(sandbox: Sandbox) -> None:
    for bad, tty in ((Command(()), None), (command("true"), TerminalSize(0, 1))):
        with pytest.raises(CommandError):
            async with sandbox.start(bad, tty=tty):
                pytest.fail("that cannot be started")
    async with sandbox.start(command("true"), tty=TTY) as process:
        with pytest.raises(CommandError):
            process.resize(TerminalSize(1, 5000))


async def test_a_box_that_was_left_ends_it(engine: Engine, spec: SandboxSpec) -> None:
    async with engine.open(spec) as sandbox:
        pass
    with pytest.raises(SandboxLostError):
        async with sandbox.start(command("true")):
            pytest.fail("the box is gone")

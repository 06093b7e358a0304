"""Interactive programs in real boxes: interpreters, shells, menus, full screens, and those that will not go."""

from __future__ import annotations

import asyncio
import re
import resource
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

import pytest

from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.errors import ProgramNotFoundError, SandboxLostError
from sandbox_skills.spec import MIB, Command, Exited, Limits, SandboxSpec, Stopped, TerminalSize
from sandbox_skills.workspace.interactive import InteractivePrograms
from sandbox_skills.workspace.interactive import program as program_module
from sandbox_skills.workspace.interactive.lines import MAX_LINES
from sandbox_skills.workspace.manager import Argv, RunRequest, WorkspaceManager
from tests.docker_host import connection

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import Path

    import docker

    from sandbox_skills.engines.base import Engine, Sandbox
    from sandbox_skills.spec import Outcome
    from sandbox_skills.workspace.interactive import InteractiveProgram, Poll
    from sandbox_skills.workspace.staging import SkillStore

    Programs = InteractivePrograms["Outcome"]
    Program = InteractiveProgram["Outcome"]

pytestmark = [pytest.mark.anyio, pytest.mark.docker]

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/workspace/home", "LANG": "C.UTF-8", "PS1": "$ "}

TTY = TerminalSize()

T = TypeVar("T")


@pytest.fixture(scope="module")
async def engine(
    anyio_backend: object, store: SkillStore, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Engine]:
    """One that lets programs run side by side."""
    options = DockerEngineOptions(
        tmp_path_factory.mktemp("engine"), connection(), skills_dir=store.mount_dir, concurrent_runs=3
    )
    engine = DockerEngine(options)
    yield engine
    await engine.aclose()


@asynccontextmanager
async def opened(engine: Engine) -> AsyncGenerator[tuple[Programs, Sandbox]]:
    async with engine.open(SandboxSpec()) as sandbox, InteractivePrograms["Outcome"](sandbox) as programs:
        yield programs, sandbox


@pytest.fixture
async def programs(engine: Engine) -> AsyncIterator[Programs]:
    async with opened(engine) as (programs, _):
        yield programs


async def as_it_is(outcome: Outcome) -> Outcome:
    return outcome


async def started(
    programs: Programs, *argv: str, term: str = "dumb", limits: Limits | None = None
) -> Program:
    command = Command(argv, env={**ENV, "TERM": term})
    return await programs.start(command, on_exit=as_it_is, tty=TTY, limits=limits or Limits(wall_seconds=60))


async def said(program: InteractiveProgram[T], pattern: str) -> Poll[T]:
    """Polls until what was said since the last poll matches."""
    text = ""
    async with asyncio.timeout(10):
        while True:
            poll = await program.poll(yield_seconds=1, limit=10_000)
            text += poll.text
            if re.search(pattern, text):
                return poll
            assert poll.status == "running", text


async def ended(program: InteractiveProgram[T]) -> Poll[T]:
    async with asyncio.timeout(15):
        while (poll := await program.poll(yield_seconds=5, limit=10_000)).status == "running":
            pass
    return poll


async def processes(sandbox: Sandbox) -> list[str]:
    """What runs in a box beside the runner and the shell that looks."""
    look = "for d in /proc/[0-9]*; do tr '\\0' ' ' <$d/cmdline; echo; done"
    outcome = await sandbox.run(Command(("bash", "-c", look), env=ENV))
    lines = outcome.stdout.decode().splitlines()
    return [line for line in lines if line.strip() and "runner.py" not in line and "/proc/" not in line]


class TestTalking:
    async def test_an_interpreter_is_asked_and_answers(self, programs: Programs) -> None:
        program = await started(programs, "python3", "-q")
        poll = await said(program, r">>> $")
        assert poll.interaction is not None
        assert poll.interaction.kind == "prompt"
        await program.write("6 * 7", submit=True)
        assert (await said(program, r"^>>> 6 \* 7\n42\n>>> $")).interaction is not None
        await program.write("import this_is_not_there", submit=True)
        await said(program, r"ModuleNotFoundError")
        program.close_stdin()
        assert (await ended(program)).result is not None

    @pytest.mark.parametrize(
        ("argv", "prompt"),
        [(("python3",), ">>>"), (("node",), ">"), (("python3", "-c", "breakpoint()"), "(Pdb)")],
    )
    async def test_a_greeting_is_no_question_and_the_prompt_below_it_is(
        self, programs: Programs, argv: tuple[str, ...], prompt: str
    ) -> None:
        program = await started(programs, *argv)
        asked: list[str] = []
        async with asyncio.timeout(10):
            while not asked or asked[-1] != prompt:
                poll = await program.poll(yield_seconds=0)
                asked += [poll.interaction.hint] if poll.interaction is not None else []
                await asyncio.sleep(0.01)
        assert set(asked) == {prompt}

    async def test_a_question_and_a_menu_are_told_apart(self, programs: Programs) -> None:
        text = 'read -p "Name: " name; select x in apple pear; do echo "$name takes $x"; break; done'
        program = await started(programs, "bash", "-c", text)
        first = (await said(program, "Name: $")).interaction
        assert first is not None
        assert (first.kind, first.hint) == ("prompt", "Name:")
        await program.write("Ann", submit=True)
        second = (await said(program, r"#\? $")).interaction
        assert second is not None
        assert second.kind == "selection"
        await program.write("2", submit=True)
        poll = await ended(program)
        assert poll.text.endswith("Ann takes pear\n")
        assert poll.result is not None
        assert poll.result.ending == Exited(0)

    async def test_one_that_has_ended_asks_for_nothing(self, programs: Programs) -> None:
        text = "printf '1) one\n2) two\nChoose: '; read x; printf 'Continue?'; read y; printf 'Bye?'"
        program = await started(programs, "bash", "-c", text)
        for pattern, kind in ((r"Choose: $", "selection"), (r"Continue\?$", "prompt")):
            asked = (await said(program, pattern)).interaction
            assert asked is not None
            assert asked.kind == kind
            await program.write("1", submit=True)
        poll = await ended(program)
        assert (poll.status, poll.interaction) == ("exited", None)
        assert poll.text.endswith("Bye?")

    async def test_a_password_is_asked_for_and_not_shown(self, programs: Programs) -> None:
        text = 'import getpass; print(len(getpass.getpass("Password: ")))'
        program = await started(programs, "python3", "-c", text)
        assert (await said(program, "Password: $")).interaction is not None
        await program.write("tuna-fish", submit=True)
        assert (await ended(program)).text == "Password: \n9\n"

    async def test_a_shell_has_jobs_and_an_interrupt_key(self, programs: Programs) -> None:
        program = await started(programs, "bash", "--norc", "-i")
        await said(program, r"\$ $")
        await program.write("sleep 50", submit=True)
        await said(program, "sleep 50\n")
        await program.write("\x03")
        await said(program, r"\^C\n\$ $")
        await program.write("sleep 51 & jobs; echo code $?", submit=True)
        poll = await said(program, r"code 0\n\$ $")
        assert "Running" in poll.text
        assert "no job control" not in (await program.poll(offset=0)).text
        await program.write("exit 7", submit=True)
        poll = await ended(program)
        assert poll.result is not None
        assert poll.result.ending == Exited(7)

    async def test_a_new_size_is_seen(self, programs: Programs) -> None:
        program = await started(programs, "bash", "--norc", "-i")
        await said(program, r"\$ $")
        await program.write("stty size", submit=True)
        await said(program, r"24 80\n")
        program.resize(TerminalSize(50, 132))
        await program.write("stty size; tput cols", submit=True)
        await said(program, r"50 132\n132\n")

    async def test_a_full_screen_program_is_drawn_and_quit(self, programs: Programs) -> None:
        program = await started(programs, "top", "-d", "60", term="xterm")
        poll = await said(program, r"load average")
        assert "\x1b[" in poll.lines.text
        assert "\x1b" not in poll.text
        await program.write("q")
        poll = await ended(program)
        assert poll.result is not None
        assert poll.result.ending == Exited(0)

    async def test_a_program_that_prints_a_page_needs_no_terminal_kind(self, programs: Programs) -> None:
        program = await started(programs, "top", "-b", "-n", "1")
        assert "load average" in (await ended(program)).text

    async def test_the_end_of_file_key_and_a_closed_input_end_a_reader(self, programs: Programs) -> None:
        for close in (False, True):
            program = await started(programs, "cat")
            await program.write("abc", submit=True)
            await said(program, "abc\nabc\n")
            if close:
                program.close_stdin()
            else:
                await program.write("\x04")
            poll = await ended(program)
            assert poll.result is not None
            assert poll.result.ending == Exited(0)


async def test_what_was_typed_into_an_interpreter_of_a_skill_is_collected(
    engine: Engine, store: SkillStore, tmp_path: Path
) -> None:
    (tmp_path / "sums").mkdir()
    (tmp_path / "sums" / "SKILL.md").write_text("x")
    (tmp_path / "sums" / "sums.py").write_text("total = 40 + 2\n")
    request = RunRequest(Argv(("python3", "-q")), outputs=("out/*",))
    async with WorkspaceManager(engine, store).session(tenant="t") as session:
        staged = await session.stage(tmp_path / "sums")
        program = await session.start_program(staged, request, tty=TTY)
        for line in ("import sums, os", "os.chdir(os.environ['OUTPUT_DIR'])", "f = open('x.txt', 'w')"):
            await said(program, r">>> $")
            await program.write(line, submit=True)
        await said(program, r">>> $")
        await program.write("print(sums.total, file=f); f.close(); exit(3)", submit=True)
        poll = await ended(program)
    assert poll.result is not None
    assert poll.result.outcome.ending == Exited(3)
    assert [(str(file.path), file.data) for file in poll.result.files] == [("out/x.txt", b"42\n")]


class TestFloods:
    async def test_a_hundred_megabytes_are_kept_within_bounds(self, programs: Programs) -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        limits = Limits(wall_seconds=18, output_bytes=200 * MIB)
        text = "yes 0123456789abcdefghijklmnopqrstuvwxyz | head -c 100000000"
        program = await started(programs, "bash", "-c", text, limits=limits)
        while (poll := await program.poll(yield_seconds=5, limit=1)).status == "running":
            assert not poll.lines.partial or len(poll.lines.partial) < 100
        assert poll.result is not None
        assert poll.result.ending == Exited(0)
        # Each line feed comes with a carriage return.
        lines = 100_000_000 // 37
        assert poll.result.stdout_bytes == 100_000_000 + lines
        last = await program.poll(offset=0, limit=MAX_LINES + 1)
        kept = len(last.lines.lines)
        while last.lines.left:
            last = await program.poll(limit=MAX_LINES + 1)
            kept += len(last.lines.lines)
        assert (kept, last.lines.next_offset) == (MAX_LINES, lines)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024

    async def test_output_over_its_limit_ends_the_program(self, programs: Programs) -> None:
        program = await started(programs, "yes", limits=Limits(output_bytes=2 * MIB))
        poll = await ended(program)
        assert poll.result is not None
        assert poll.result.ending == Stopped("output")

    async def test_lines_typed_ahead_are_not_lost(self, programs: Programs) -> None:
        program = await started(programs, "bash", "-c", "stty -echo; echo up; sleep 0.5; wc -l")
        await said(program, "up\n")
        assert await program.write("one line\n" * 200_000)
        program.close_stdin()
        assert (await ended(program)).text.strip() == "200000"


class TestEnding:
    async def test_one_that_will_not_go_is_gone_two_seconds_later(self, engine: Engine) -> None:
        async with opened(engine) as (programs, sandbox):
            stubborn = "trap '' HUP TERM INT QUIT; (setsid sleep 300 & sleep 301) & echo up; while :; do sleep 1; done"
            program = await started(programs, "bash", "-c", stubborn)
            await said(program, "up\n")
            before = time.monotonic()
            async with asyncio.timeout(10):
                assert await programs.kill(program.id) == "killed"
            assert time.monotonic() - before > 1.9
            assert await processes(sandbox) == []

    async def test_one_that_listens_may_tidy_up(
        self, programs: Programs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(program_module, "KILL_SECONDS", 60.0)
        program = await started(
            programs, "bash", "-c", "trap 'echo bye; exit 3' TERM; echo up; sleep 60 & wait"
        )
        await said(program, "up\n")
        async with asyncio.timeout(10):  # it waits for its end, and not for the KILL
            assert await program.kill() == "killed"
        poll = await program.poll()
        assert poll.text.endswith("bye\n")
        assert poll.result is not None
        assert poll.result.ending == Exited(3)

    async def test_one_that_was_killed_is_unknown_and_one_that_ended_is_after_its_time(
        self, engine: Engine
    ) -> None:
        async with (
            engine.open(SandboxSpec()) as sandbox,
            InteractivePrograms["Outcome"](sandbox, kept_seconds=0.3) as programs,
        ):
            sleeper = await started(programs, "sleep", "5")
            assert await programs.kill(sleeper.id) == "killed"
            with pytest.raises(ProgramNotFoundError):
                programs.get(sleeper.id)
            program = await started(programs, "true")
            await ended(program)
            await asyncio.sleep(0.5)
            with pytest.raises(ProgramNotFoundError, match="no program of that id"):
                programs.get(program.id)

    async def test_an_orphan_that_holds_the_terminal_dies_with_its_program(self, engine: Engine) -> None:
        async with opened(engine) as (programs, sandbox):
            text = "(trap '' HUP; setsid sleep 300 & sleep 301 & disown -a) ; echo gone"
            program = await started(programs, "bash", "-c", text)
            poll = await ended(program)
            assert poll.text == "gone\n"
            assert poll.result is not None
            assert poll.result.sandbox_lives
            assert await processes(sandbox) == []

    async def test_a_box_that_is_lost_is_told(self, engine: Engine, daemon: docker.APIClient) -> None:
        async with opened(engine) as (programs, sandbox):
            program = await started(programs, "cat")
            await program.write("x", submit=True)
            await said(program, "x")
            await asyncio.to_thread(daemon.kill, sandbox.id)
            with pytest.raises(SandboxLostError):
                await ended(program)

    async def test_two_programs_and_a_run_share_a_box_and_nothing_else(self, engine: Engine) -> None:
        async with opened(engine) as (programs, sandbox):
            talks = [await started(programs, "bash", "-c", f"read x; echo {n}-$x; exit {n}") for n in (4, 5)]
            outcome = await sandbox.run(Command(("bash", "-c", "echo alone; (setsid sleep 60 &)"), env=ENV))
            assert outcome.stdout == b"alone\n"
            assert len(await processes(sandbox)) == 2
            for n, talk in zip((4, 5), talks, strict=True):
                await talk.write("in", submit=True)
                poll = await ended(talk)
                assert poll.text == f"in\n{n}-in\n"
                assert poll.result is not None
                assert poll.result.ending == Exited(n)

    async def test_closing_the_session_ends_all_at_once(
        self, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(program_module, "KILL_SECONDS", 60.0)
        async with opened(engine) as (programs, sandbox):
            for _ in range(3):
                await started(programs, "bash", "-c", "trap '' TERM HUP; sleep 60 & wait; sleep 60")
            async with asyncio.timeout(10):
                await programs.aclose()
            assert await processes(sandbox) == []


HOST = """
import asyncio, sys
from pathlib import Path
from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.spec import Command, SandboxSpec, TerminalSize
from tests.docker_host import connection

async def main():
    engine = DockerEngine(DockerEngineOptions(Path(sys.argv[1]), connection()))
    command = Command(("bash", "-c", "trap '' HUP TERM; echo up; sleep 300"), env={"PATH": "/usr/bin:/bin"})
    async with engine.open(SandboxSpec()) as sandbox:
        up = asyncio.Event()
        async with sandbox.start(command, tty=TerminalSize(), on_output=lambda *_: up.set()):
            await up.wait()
            print(sandbox.id, flush=True)
            await asyncio.sleep(300)

asyncio.run(main())
"""


async def test_a_host_that_dies_takes_the_program_and_its_box(
    daemon: docker.APIClient, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data_dir = tmp_path_factory.mktemp("dying")
    host = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOST, str(data_dir), stdout=asyncio.subprocess.PIPE
    )
    assert host.stdout is not None
    name = (await host.stdout.readline()).decode().strip()
    host.kill()
    await host.wait()
    assert name.startswith("sandbox-")
    deadline = time.monotonic() + 10
    while daemon.containers(all=True, filters={"name": name}):
        assert time.monotonic() < deadline, "the box outlived its host"
        await asyncio.sleep(0.05)

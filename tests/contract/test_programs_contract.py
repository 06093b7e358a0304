"""Interactive programs of sessions, over every engine: a run like any other, but for being talked to."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.engines.fake import FakeEngine
from sandbox_skills.errors import (
    CommandError,
    EngineError,
    PathEscapeError,
    ProgramNotFoundError,
    SessionBusyError,
    SessionClosedError,
    SessionExpiredError,
    SessionLostError,
)
from sandbox_skills.spec import Exited, Signalled, Stopped, TerminalSize
from sandbox_skills.workspace.inputs import Input
from sandbox_skills.workspace.live_output import LiveOutput, OutputChunk
from sandbox_skills.workspace.live_session import LiveSession
from sandbox_skills.workspace.manager import Argv, RunRequest
from tests.docker_host import connection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sandbox_skills.engines.base import Engine
    from sandbox_skills.workspace.interactive import InteractiveProgram, Poll
    from sandbox_skills.workspace.manager import RunResult, Session
    from sandbox_skills.workspace.staging import SkillStore
    from tests.contract.conftest import World

    Program = InteractiveProgram[RunResult]

pytestmark = pytest.mark.anyio

TTY = TerminalSize()
CAT = RunRequest(Argv(("cat",)), outputs=("out/*",))
NOTE = RunRequest(Argv(("tee", "/workspace/out/x.txt")), outputs=("out/*",))
LONG = RunRequest(Argv(("sleep", "30")))


@pytest.fixture(scope="module")
async def wide_docker(
    anyio_backend: object, store: SkillStore, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[DockerEngine]:
    engine = DockerEngine(
        DockerEngineOptions(
            data_dir=tmp_path_factory.mktemp("engine"),
            connection=connection(),
            skills_dir=store.mount_dir,
            marker=store.marker(),
            concurrent_runs=2,
        )
    )
    yield engine
    await engine.aclose()


@pytest.fixture(params=["fake", pytest.param("docker", marks=pytest.mark.docker)])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Engines whose boxes have two programs at once: what is refused below, the session refuses."""
    if request.param == "fake":
        return FakeEngine(concurrent_runs=2)
    return cast("Engine", request.getfixturevalue("wide_docker"))


async def started(
    world: World, session: Session | LiveSession, request: RunRequest, tty: TerminalSize | None = None
) -> Program:
    if isinstance(session, LiveSession):
        return await session.start_program(world.staged(session), request, tty=tty)
    return await session.start_program(await session.stage(world.folder / "skill"), request, tty=tty)


async def ended(program: Program) -> Poll[RunResult]:
    async with asyncio.timeout(10):
        while (poll := await program.poll(yield_seconds=5)).status == "running":
            pass
    return poll


def saved(result: RunResult | None) -> dict[str, bytes | None]:
    assert result is not None
    return {str(file.path): file.data for file in result.files}


def told(world: World) -> list[tuple[str, str]]:
    """Returns status and code of each audit event."""
    return [(event.status, event.code) for event in world.audit.events]


class TestOfASession:
    @pytest.mark.parametrize("tty", [None, TTY])
    async def test_what_it_wrote_is_in_its_result_and_one_event_tells_of_it(
        self, world: World, tty: TerminalSize | None
    ) -> None:
        async with world.manager.session(tenant="t", name="s") as session:
            program = await started(world, session, NOTE, tty)
            assert session.programs.get(program.id) is program
            assert await program.write("hello\n")
            assert (await program.poll(yield_seconds=5)).status == "running"
            assert world.audit.events == []
            program.close_stdin()
            poll = await ended(program)
            assert poll.outcome is not None
            assert poll.outcome.ending == Exited(0)
            assert saved(poll.result) == {"out/x.txt": b"hello\n"}
            assert (await ended(program)).result is poll.result
        assert poll.result is not None
        (event,) = world.audit.events
        assert (event.status, event.session, event.run_id) == ("ended", "s", poll.result.run_id)
        assert event.outputs == ("out/x.txt",)
        assert event.interactive

    async def test_it_has_the_inputs_and_the_standard_input_of_a_run(self, world: World) -> None:
        (world.folder / "in").write_text("from the host")
        given = (Input(world.folder / "in", "work/inputs/in"),)
        reader = RunRequest(Argv(("cat", "/workspace/work/inputs/in")), inputs=given)
        async with world.manager.session(tenant="t") as session:
            poll = await ended(await started(world, session, reader))
            assert poll.text == "from the host"
            assert poll.result is not None
            assert [row.name for row in poll.result.staged_inputs] == ["work/inputs/in"]
            program = await started(world, session, replace(NOTE, stdin=b"first "))
            await program.write("second")
            program.close_stdin()
            assert saved((await ended(program)).result) == {"out/x.txt": b"first second"}

    async def test_its_output_is_heard_live_in_numbered_pieces(self, world: World) -> None:
        live = LiveOutput()
        async with world.manager.session(tenant="t") as session:
            staged = await session.stage(world.folder / "skill")
            program = await session.start_program(staged, CAT, sink=live)
            for text in ("one", "two"):
                await program.write(text)
                await program.poll(yield_seconds=5)
            assert await program.kill() == "killed"
        live.close()
        assert [piece async for piece in live] == [
            OutputChunk(0, "stdout", b"one"),
            OutputChunk(1, "stdout", b"two"),
        ]

    async def test_one_that_is_killed_has_its_outputs_and_one_event(self, world: World) -> None:
        async with world.manager.session(tenant="t") as session:
            staged = await session.stage(world.folder / "skill")
            await session.run(staged, replace(NOTE, stdin=b"before"))
            program = await started(world, session, CAT, TTY)
            assert await session.programs.kill(program.id) == "killed"
            poll = await program.poll()
            assert (poll.status, saved(poll.result)) == ("killed", {"out/x.txt": b"before"})
            assert poll.result is not None
            assert poll.result.outcome.ending in {Signalled(15), Signalled(1), Stopped("cancelled")}
            with pytest.raises(ProgramNotFoundError):
                session.programs.get(program.id)
        assert told(world) == [("ended", ""), ("ended", "")]

    async def test_one_that_cannot_start_is_refused_and_leaves_nothing(self, world: World) -> None:
        async with world.manager.session(tenant="t") as session:
            with pytest.raises(PathEscapeError):
                await started(world, session, replace(CAT, cwd="../.."))
            with pytest.raises(CommandError):
                await started(world, session, CAT, TerminalSize(0, 0))
            running = [await started(world, session, CAT) for _ in range(2)]
            with pytest.raises(EngineError, match="runs another"):
                await started(world, session, CAT)
            assert len(session.programs._owned) == 2
            assert all(program.running for program in running)
        codes = ["path_escape", "command_invalid", "engine_error", "CancelledError", "CancelledError"]
        assert [code for _, code in told(world)] == codes

    async def test_a_start_that_is_cancelled_at_any_moment_leaves_nothing(self, world: World) -> None:
        async with world.manager.session(tenant="t") as session:
            staged = await session.stage(world.folder / "skill")
            for moment in range(12):
                starting = asyncio.ensure_future(session.start_program(staged, CAT))
                for _ in range(moment):
                    await asyncio.sleep(0)
                starting.cancel()
                await asyncio.wait([starting])
                await session.programs.aclose()
            both = (session.run(staged, replace(CAT, stdin=b"room for two")) for _ in range(2))
            assert all(result.outcome.ok for result in await asyncio.gather(*both))
        assert {status for status, _ in told(world)} == {"cancelled", "ended"}

    async def test_leaving_the_session_kills_it_and_that_is_told(self, world: World) -> None:
        async with world.manager.session(tenant="t") as session:
            program = await started(world, session, CAT)
        assert not program.running
        with pytest.raises(SessionClosedError):
            await program.poll()
        assert told(world) == [("cancelled", "CancelledError")]


class TestOfALiveSession:
    async def test_who_knows_its_id_can_talk_to_it_and_its_files_stay(self, world: World) -> None:
        async with world.sessions() as sessions:
            one, other = [await sessions.open("a", tenant="t") for _ in range(2)]
            program_id = (await started(world, one, NOTE, TTY)).id
            program = other.programs.get(program_id)
            await program.write("hello", submit=True)
            program.close_stdin()
            assert saved((await ended(program)).result) == {"out/x.txt": b"hello\n"}
            assert await world.read(one, "out/x.txt") == "hello\n"
        assert [(event.status, event.session) for event in world.audit.events] == [("ended", "a")] * 2
        assert [event.interactive for event in world.audit.events] == [True, False]

    async def test_the_session_is_not_idle_while_it_lives(self, world: World) -> None:
        async with world.sessions(replace(world.policy, idle_seconds=0.3)) as sessions:
            session = await sessions.open("a", tenant="t")
            program = await started(world, session, CAT)
            await asyncio.sleep(0.6)
            assert (session.info.busy, session.info.idle) == (True, 0.0)
            assert await session.programs.kill(program.id) == "killed"
            await world.expired(sessions)
            with pytest.raises(SessionExpiredError):
                await started(world, session, CAT)
            with pytest.raises(SessionExpiredError):
                _ = session.programs
        assert told(world) == [("ended", ""), ("refused", "session_expired")]

    @pytest.mark.parametrize("concurrency", ["serialise", "refuse"])
    async def test_nothing_waits_for_its_end(self, world: World, concurrency: str) -> None:
        policy = replace(world.policy, concurrency=concurrency)  # type: ignore[arg-type]  # one of its words
        async with world.sessions(policy) as sessions:
            session = await sessions.open("a", tenant="t")
            program = await started(world, session, CAT)
            with pytest.raises(SessionBusyError, match="interactive"):
                await world.run(session)
            with pytest.raises(SessionBusyError):
                await started(world, session, CAT)
            with pytest.raises(SessionBusyError):
                await session.snapshot(world.folder / "tar")
            await program.kill()
            await world.run(session)
        assert [code for _, code in told(world)] == ["session_busy", "session_busy", "", ""]

    async def test_it_waits_for_its_turn_and_can_be_given_up_meanwhile(self, world: World) -> None:
        async with world.sessions() as sessions:
            session = await sessions.open("a", tenant="t")
            running = asyncio.ensure_future(world.run(session, LONG))
            await world.in_use(session)
            given_up = asyncio.ensure_future(started(world, session, CAT))
            await world.in_use(session, 2)
            given_up.cancel()
            with pytest.raises(asyncio.CancelledError):
                await given_up
            waiting = asyncio.ensure_future(started(world, session, CAT))
            await world.in_use(session, 2)
            assert (running.done(), waiting.done()) == (False, False)
            running.cancel()
            program = await waiting
            assert running.done()
            assert list(session.programs._owned) == [program.id]
            await program.kill()
        assert [status for status, _ in told(world)] == ["cancelled", "cancelled", "ended"]

    async def test_or_runs_beside_others_where_that_is_the_policy(self, world: World) -> None:
        parallel = replace(world.policy, concurrency="parallel", concurrent_runs=2)
        async with world.sessions(parallel) as sessions:
            session = await sessions.open("a", tenant="t")
            program = await started(world, session, CAT)
            await world.write(session, "out/beside", "run")
            program.close_stdin()
            assert saved((await ended(program)).result) == {"out/beside": b"run"}

    async def test_closing_the_session_kills_it_for_all_who_wait(self, world: World) -> None:
        async with world.sessions() as sessions:
            session = await sessions.open("a", tenant="t")
            program = await started(world, session, CAT)
            waiting = asyncio.ensure_future(program.poll(yield_seconds=60))
            await asyncio.sleep(0.05)
            await sessions.close("a", tenant="t")
            with pytest.raises(SessionClosedError):
                await waiting
            with pytest.raises(SessionClosedError):
                _ = session.programs
        assert told(world) == [("cancelled", "CancelledError")]

    async def test_a_session_that_grows_too_old_ends_it_and_keeps_the_files(self, world: World) -> None:
        async with world.sessions() as sessions:
            session = await sessions.open("a", tenant="t")
            await world.write(session, "out/x", "kept")
            program = await started(world, session, CAT)
            await world.grow_too_old(sessions)
            await world.expired(sessions)
            with pytest.raises(SessionClosedError):
                await program.poll()
            left = sessions.snapshot_of("a", tenant="t")
            assert left is not None
            again = await sessions.open("a", tenant="t", restore=left)
            assert await world.read(again, "out/x") == "kept"

    async def test_a_box_that_is_lost_ends_the_session(
        self, world: World, request: pytest.FixtureRequest
    ) -> None:
        async with world.sessions() as sessions:
            session = await sessions.open("a", tenant="t")
            program = await started(world, session, CAT)
            world.lose(request)
            with pytest.raises(SessionLostError):
                await ended(program)
            with pytest.raises(SessionLostError):
                await started(world, session, CAT)
        assert [status for status, _ in told(world)] == ["sandbox_error"] * 2

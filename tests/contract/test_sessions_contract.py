"""Sessions by name, over every engine: how they begin, who shares them, how they end, and what goes on after that."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.errors import (
    EngineUnavailableError,
    GrantConflictError,
    QuotaError,
    SessionBusyError,
    SessionClosedError,
    SessionExpiredError,
    SessionLostError,
    SnapshotError,
)
from sandbox_skills.spec import WORKSPACE, Guarantee, Outcome, Stopped
from sandbox_skills.workspace import kept_session
from sandbox_skills.workspace import sessions as module
from sandbox_skills.workspace.manager import Argv, RunRequest
from sandbox_skills.workspace.snapshot import Snapshot

if TYPE_CHECKING:
    from sandbox_skills.engines.base import Engine
    from sandbox_skills.workspace.live_session import LiveSession
    from tests.contract.conftest import World

pytestmark = pytest.mark.anyio

TRUE = RunRequest(Argv(("true",)))
SLEEP = RunRequest(Argv(("sleep", "0.3")))
LONG = RunRequest(Argv(("sleep", "30")))


class TestUse:
    async def test_files_stay_from_run_to_run_in_one_box(self, world: World) -> None:
        async with world.sessions() as sessions:
            await world.write(await sessions.open("a", tenant="t"), "out/x", "kept")
            assert await world.read(await sessions.open("a", tenant="t"), "out/x") == "kept"
            (info,) = sessions.sessions(tenant="t")
            assert (info.id, info.generation, info.busy) == ("a", 0, False)
        assert world.engine.opened == 1

    async def test_callers_at_the_same_time_get_the_same_one(self, world: World) -> None:
        async with world.sessions() as sessions:
            world.engine.slow = 0.05
            got = await asyncio.gather(*(sessions.open("a", tenant="t") for _ in range(5)))
            await world.write(got[0], "out/x", "shared")
            assert {await world.read(one, "out/x") for one in got} == {"shared"}
        assert world.engine.opened == 1

    async def test_sessions_and_tenants_share_nothing(self, world: World) -> None:
        async with world.sessions() as sessions:
            one = await sessions.open("a", tenant="t")
            await world.write(one, "out/x", "mine")
            for session_id, tenant in (("b", "t"), ("a", "other")):
                other = await sessions.open(session_id, tenant=tenant)
                result = await other.run(
                    await other.stage(world.folder / "skill"), replace(TRUE, outputs=("**",))
                )
                assert result.files == ()
            assert [info.id for info in sessions.sessions(tenant="t")] == ["a", "b"]
            assert [info.id for info in sessions.sessions(tenant="other")] == ["a"]

    async def test_runs_at_the_same_time_take_turns(self, world: World) -> None:
        async with world.sessions() as sessions:
            session = await sessions.open("a", tenant="t")
            await asyncio.gather(*(world.run(session, SLEEP) for _ in range(3)))
        assert [event.status for event in world.audit.events] == ["ended"] * 3

    async def test_each_record_names_the_filter_of_system_calls_where_there_is_one(
        self, world: World, engine: Engine
    ) -> None:
        async with world.sessions() as sessions:
            await world.run(await sessions.open("a", tenant="t"))
        (event,) = world.audit.events
        filtered = Guarantee.SECCOMP in engine.guarantees
        assert re.fullmatch("[0-9a-f]{64}" if filtered else "", event.seccomp)

    async def test_or_are_refused_where_that_is_the_policy(self, world: World) -> None:
        async with world.sessions(replace(world.policy, concurrency="refuse")) as sessions:
            session = await sessions.open("a", tenant="t")
            first = asyncio.ensure_future(world.run(session, LONG))
            await world.in_use(session)
            with pytest.raises(SessionBusyError):
                await world.run(session)
            assert not first.done()
            first.cancel()
            await asyncio.wait([first])
            await world.run(session)
        assert [event.code for event in world.audit.events] == ["session_busy", "CancelledError", ""]

    async def test_one_session_too_many_is_refused(self, world: World) -> None:
        async with world.sessions(replace(world.policy, max_per_tenant=1)) as sessions:
            await sessions.open("a", tenant="t")
            await sessions.open("a", tenant="t")
            with pytest.raises(QuotaError):
                await sessions.open("b", tenant="t")
            await sessions.open("b", tenant="other")
            await sessions.close("a", tenant="t")
            await sessions.open("b", tenant="t")

    async def test_a_run_that_is_cancelled_leaves_the_session_usable(self, world: World) -> None:
        async with world.sessions() as sessions:
            session = await sessions.open("a", tenant="t")
            await world.write(session, "out/x", "kept")
            running = asyncio.ensure_future(world.run(session, LONG))
            await world.in_use(session)
            waiting = asyncio.ensure_future(world.run(session))
            await world.in_use(session, 2)
            for task in (waiting, running):
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert await world.read(session, "out/x") == "kept"
        assert [event.status for event in world.audit.events] == ["ended", "cancelled", "cancelled", "ended"]

    async def test_a_run_that_is_cancelled_at_any_moment_is_over_when_that_is_said(
        self, world: World
    ) -> None:
        async with world.manager.session(tenant="t") as session:
            staged = await session.stage(world.folder / "skill")
            for moment in range(12):
                running = asyncio.ensure_future(session.run(staged, LONG))
                for _ in range(moment):
                    await asyncio.sleep(0)
                running.cancel()
                await asyncio.wait([running])
                assert (await session.run(staged, TRUE)).outcome.ok


class TestEnds:
    @pytest.mark.parametrize("seconds", [0.2, 1.1])
    async def test_an_idle_session_expires_and_that_is_said(self, world: World, seconds: float) -> None:
        async with world.sessions(replace(world.policy, idle_seconds=seconds)) as sessions:
            session = await sessions.open("a", tenant="t")
            await world.run(session, replace(SLEEP, invocation=Argv(("sleep", str(2 * seconds)))))
            ended = time.monotonic()
            assert len(sessions.sessions(tenant="t")) == 1
            await world.expired(sessions)
            assert time.monotonic() - ended > 0.9 * seconds
            assert world.engine.now == 0
            with pytest.raises(SessionExpiredError, match=rf"{seconds:g} s without a run"):
                await world.run(session)
            with pytest.raises(SessionExpiredError):
                await sessions.open("a", tenant="t")
            assert (await sessions.open("a", tenant="t", anew=True)).info.generation == 1
            assert (await sessions.open("a", tenant="t")).info.generation == 1
        assert [event.code for event in world.audit.events] == ["", "session_expired"]

    async def test_one_that_is_held_is_not_idle(self, world: World) -> None:
        async with world.sessions(replace(world.policy, idle_seconds=0.2)) as sessions:
            session = await sessions.open("a", tenant="t")
            with session.held() as held:
                await asyncio.sleep(0.4)
                assert await held.sandbox.ping() >= 0
                await world.run(session)
            await world.expired(sessions)
            with pytest.raises(SessionExpiredError), session.held():
                pass

    async def test_it_goes_on_from_what_it_left(self, world: World) -> None:
        async with world.sessions(replace(world.policy, idle_seconds=0.3)) as sessions:
            await world.write(await sessions.open("a", tenant="t"), "work/x", "kept")
            await world.expired(sessions)
            with pytest.raises(SessionExpiredError) as raised:
                await sessions.open("a", tenant="t")
            assert raised.value.resumable
            assert sessions.snapshot_of("a", tenant="other") is None
            left = sessions.snapshot_of("a", tenant="t")
            assert left is not None
            session = await sessions.open("a", tenant="t", restore=left)
            assert await world.read(session, "work/x") == "kept"
            assert not left.path.exists()

    async def test_one_that_grows_too_old_ends_after_its_run(self, world: World) -> None:
        async with world.sessions() as sessions:
            session = await sessions.open("a", tenant="t")
            last = asyncio.ensure_future(world.run(session, SLEEP))
            await world.in_use(session)
            late = asyncio.ensure_future(world.run(session))
            await world.in_use(session, 2)
            await world.grow_too_old(sessions)
            with pytest.raises(SessionExpiredError, match="after 120 s"):
                await world.run(session)
            assert not last.done()
            await last
            with pytest.raises(SessionExpiredError):
                await late
            await world.expired(sessions)

    async def test_closing_ends_what_runs_and_frees_the_name(self, world: World) -> None:
        async with world.sessions() as sessions:
            session = await sessions.open("a", tenant="t")
            await world.write(session, "out/x", "gone")
            running = asyncio.ensure_future(world.run(session, LONG))
            await world.in_use(session)
            await sessions.close("a", tenant="t")
            assert world.engine.now == 0
            with pytest.raises(SessionClosedError):
                await running
            with pytest.raises(SessionClosedError):
                await world.run(session)
            await sessions.close("a", tenant="t")
            again = await sessions.open("a", tenant="t")
            with pytest.raises(AssertionError):
                await world.read(again, "out/x")

    async def test_a_name_is_free_as_soon_as_its_session_is_closed(self, world: World) -> None:
        async with world.sessions() as sessions:
            for _ in range(2):
                await (await sessions.open("a", tenant="t")).close()
                await sessions.open("a", tenant="t")
                await sessions.close("a", tenant="t")

    async def test_what_gave_its_place_to_another_has_left_its_files(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(kept_session, "REST_SECONDS", 0.0)
        async with world.sessions() as sessions:
            await world.write(await sessions.open("a", tenant="t"), "out/x", "kept")
            assert await sessions.make_room(tenant="t")
            left = sessions.snapshot_of("a", tenant="t")
            assert left is not None
            assert await world.read(await sessions.open("a", tenant="t", restore=left), "out/x") == "kept"

    async def test_leaving_the_manager_ends_every_session(self, world: World) -> None:
        async with world.sessions() as sessions:
            session = await sessions.open("a", tenant="t")
            running = asyncio.ensure_future(world.run(session, LONG))
            await world.in_use(session)
        with pytest.raises(SessionClosedError):
            await running
        with pytest.raises(SessionClosedError):
            await sessions.open("b", tenant="t")

    async def test_a_box_that_cannot_be_opened_leaves_no_session(self, world: World) -> None:
        async with world.sessions() as sessions:
            world.engine.failing = True
            results = await asyncio.gather(
                *(sessions.open("a", tenant="t") for _ in range(3)), return_exceptions=True
            )
            assert {type(one) for one in results} == {EngineUnavailableError}
            world.engine.failing = False
            await world.run(await sessions.open("a", tenant="t"))

    async def test_nobody_waits_so_nothing_is_opened(self, world: World) -> None:
        async with world.sessions() as sessions:
            world.engine.slow = 60
            opening = [asyncio.ensure_future(sessions.open("a", tenant="t")) for _ in range(2)]
            await asyncio.sleep(0.05)
            opening[0].cancel()
            await asyncio.sleep(0.01)
            assert world.engine.now == 1
            opening[1].cancel()
            await asyncio.wait(opening)
            await world.expired(sessions)
            assert (world.engine.now, world.engine.opened) == (0, 0)
            world.engine.slow = 0
            await world.run(await sessions.open("a", tenant="t"))

    async def test_one_cancelled_before_it_began_is_gone(self, world: World) -> None:
        async with world.sessions() as sessions:
            opening = asyncio.ensure_future(sessions.open("a", tenant="t"))
            await asyncio.sleep(0)
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
            await world.expired(sessions)


class TestLost:
    async def test_a_lost_box_is_said_and_goes_on_from_a_snapshot(
        self, world: World, request: pytest.FixtureRequest
    ) -> None:
        path = world.folder / "mine.tar"
        async with world.sessions() as sessions:
            session = await sessions.open("a", tenant="t")
            await world.write(session, "out/x", "kept")
            snapshot = await session.snapshot(path)
            assert (snapshot.files, snapshot.bytes, dict(snapshot.skipped)) == (1, 4, {})
            assert path.stat().st_mode & 0o777 == 0o600
            running = asyncio.ensure_future(world.run(session, LONG))
            await world.in_use(session)
            await asyncio.sleep(0.1)  # then the command has been sent to the box, as a rule
            world.lose(request)
            with pytest.raises(SessionLostError):
                await running
            with pytest.raises(SessionLostError):
                await world.run(session)
            await world.expired(sessions)
            with pytest.raises(SessionLostError):
                await sessions.open("a", tenant="t")
            with pytest.raises(SnapshotError, match="no such snapshot"):
                await sessions.open("a", tenant="other", restore=snapshot)
            with pytest.raises(SnapshotError, match="cannot be read"):
                await sessions.open("a", tenant="t", restore=replace(snapshot, path=world.folder / "none"))
            with pytest.raises(SessionLostError):  # a restore that failed is not forgotten as a loss
                await sessions.open("a", tenant="t")
            session = await sessions.open("a", tenant="t", restore=snapshot)
            assert await world.read(session, "out/x") == "kept"
            with pytest.raises(SessionClosedError, match="is open"):
                await sessions.open("a", tenant="t", restore=snapshot)
        assert path.exists()
        path.unlink()


async def test_a_run_that_takes_its_box_along_ends_the_session(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    died = Outcome(Stopped("memory"), limits_hit=frozenset({"memory"}), sandbox_lives=False)
    async with world.sessions() as sessions:
        session = await sessions.open("a", tenant="t")
        staged = await session.stage(world.folder / "skill")

        async def die(*given: object, **named: object) -> Outcome:
            return died

        monkeypatch.setattr(world.engine.boxes[-1], "run", die)
        assert (await session.run(staged, TRUE)).outcome == died
        with pytest.raises(SessionLostError):
            await session.run(staged, TRUE)
        await world.expired(sessions)
        assert sessions.sessions(tenant="t") == ()


async def test_secrets_and_those_who_may_be_after_them_are_kept_apart_beyond_a_snapshot(world: World) -> None:
    (world.folder / "other").mkdir()
    (world.folder / "other" / "SKILL.md").write_text("y")
    granted = replace(TRUE, grants={"TOKEN": "s3cret"})
    async with world.sessions() as sessions:

        async def run(session: LiveSession, folder: str, request: RunRequest = TRUE) -> None:
            await session.run(await session.stage(world.folder / folder), request)

        secret, foul = [await sessions.open(name, tenant="t") for name in ("secret", "foul")]
        await run(secret, "skill", granted)
        await run(foul, "other")
        left = [await one.snapshot(world.folder / one.id) for one in (secret, foul)]
        after_secret, after_foul, unknown = [
            await sessions.open(name, tenant="t", restore=snapshot)
            for name, snapshot in (
                ("1", left[0]),
                ("2", left[1]),
                ("3", Snapshot(left[0].path, "t", left[0].files, left[0].bytes)),
            )
        ]
        await run(after_secret, "skill", granted)
        with pytest.raises(GrantConflictError, match="given secrets"):
            await run(after_secret, "other")
        for one in (after_foul, unknown):
            with pytest.raises(GrantConflictError, match="another skill ran"):
                await run(one, "skill", granted)
            await run(one, "skill")


async def test_a_pin_goes_on_beyond_a_snapshot(world: World) -> None:
    async with world.sessions() as sessions:
        session = await sessions.open("a", tenant="t")
        with session.held() as workspace:
            workspace.memory.pins["x", WORKSPACE / "work/x"] = 3
        left = await session.snapshot(world.folder / "tar")
        again = await sessions.open("b", tenant="t", restore=left)
        with again.held() as workspace:
            assert workspace.memory.pins == {("x", WORKSPACE / "work/x"): 3}


async def test_what_expired_sessions_leave_is_bounded_for_each_tenant(world: World) -> None:
    policy = replace(world.policy, idle_seconds=0.05, kept_bytes=250_000)
    async with world.sessions(policy) as sessions:
        for name, tenant in (("0", "other"), ("1", "t"), ("2", "t"), ("3", "t")):
            session = await sessions.open(name, tenant=tenant)
            await world.write(session, "out/x", "x" * 100_000)
            await world.expired(sessions)
        assert sessions.snapshot_of("1", tenant="t") is None
        kept = [
            sessions.snapshot_of("0", tenant="other"),
            *(sessions.snapshot_of(name, tenant="t") for name in "23"),
        ]
        assert [one is not None and one.path.stat().st_size == one.size for one in kept] == [True] * 3
        assert len(list(world.folder.glob("kept/*/*.tar"))) == 3
        with pytest.raises(SessionExpiredError, match="its workspace is gone") as told:
            await sessions.open("1", tenant="t")
        assert not told.value.resumable


async def test_only_so_many_ends_are_remembered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REMEMBERED", 1)
    async with world.sessions(replace(world.policy, idle_seconds=0.05)) as sessions:
        for name in ("a", "b"):
            await sessions.open(name, tenant="t")
            await world.expired(sessions)
        assert len(list(world.folder.glob("kept/*/*.tar"))) == 1
        with pytest.raises(SessionExpiredError):
            await sessions.open("b", tenant="t")
        assert (await sessions.open("a", tenant="t")).info.generation == 0
        await sessions.close("b", tenant="t")
        assert list(world.folder.glob("kept/*/*.tar")) == []


async def test_leaving_the_manager_waits_for_no_run_of_a_session_that_is_too_old(world: World) -> None:
    async with world.sessions() as sessions:
        session = await sessions.open("a", tenant="t")
        running = asyncio.ensure_future(world.run(session, LONG))
        await world.in_use(session)
        await world.grow_too_old(sessions)
    with pytest.raises(SessionExpiredError):
        await running

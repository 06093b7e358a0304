"""Settings become what they say: a program wired over the fake engine."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.directories import Account
from sandbox_skills.errors import InputError, SessionBusyError
from sandbox_skills.settings import load_settings
from sandbox_skills.spec import BASE_GUARANTEES, Guarantee, Stopped
from sandbox_skills.wiring import doctor_options, live, opened, sandbox_spec, store_root
from sandbox_skills.workspace.input_refs import InputRef
from sandbox_skills.workspace.manager import Argv, RunRequest
from sandbox_skills.workspace.output_spec import OutputRequest

if TYPE_CHECKING:
    from sandbox_skills.settings import Settings

pytestmark = pytest.mark.anyio

TRUE = RunRequest(Argv(("true",)))


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    (tmp_path / "skill").mkdir()
    (tmp_path / "skill" / "SKILL.md").write_text("x")
    return tmp_path / "skill"


def wired(tmp_path: Path, **overrides: object) -> Settings:
    given = {name.replace("__", "."): value for name, value in overrides.items()}
    return load_settings({"data_dir": str(tmp_path / "data"), "engine": "fake", **given}, environ={})


def audited(tmp_path: Path) -> list[dict[str, object]]:
    path = tmp_path / "data" / "audit" / "runs.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def test_every_run_is_written_down_for_this_user_alone(tmp_path: Path, skill: Path) -> None:
    async with opened(wired(tmp_path)) as live:
        await live.manager.run(skill, TRUE, tenant="t")
        await (await live.sessions.open("s", tenant="u")).run(
            await live.manager.stage(skill, tenant="u"), TRUE
        )
    assert [(row["tenant"], row["session"], row["status"]) for row in audited(tmp_path)] == [
        ("t", "", "ended"),
        ("u", "s", "ended"),
    ]
    assert (tmp_path / "data" / "audit" / "runs.jsonl").stat().st_mode & 0o777 == 0o600


async def test_or_not_where_the_settings_say_so(tmp_path: Path, skill: Path) -> None:
    async with opened(wired(tmp_path, audit__enabled=False)) as live:
        await live.manager.run(skill, TRUE, tenant="t")
    assert audited(tmp_path) == []


async def test_outputs_are_saved_below_the_data_directory(tmp_path: Path, skill: Path) -> None:
    request = RunRequest(
        Argv(("tee", "/workspace/out/a")),
        stdin=b"x",
        wanted=OutputRequest(("out/*",), save_as_artifacts=True),
    )
    async with opened(wired(tmp_path)) as live:
        result = await live.manager.run(skill, request, tenant="t")
    assert result.report is not None
    assert [one.ref for one in result.report.artifacts] == ["artifact://out/a@0"]
    assert list((tmp_path / "data" / "artifacts").iterdir())


async def test_host_folders_are_those_of_the_settings(tmp_path: Path, skill: Path) -> None:
    request = replace(TRUE, inputs=(InputRef(f"host://{skill}/SKILL.md"),))
    async with opened(wired(tmp_path)) as live:
        with pytest.raises(InputError, match="in no folder"):
            await live.manager.run(skill, request, tenant="t")
    async with opened(wired(tmp_path, inputs__host_roots=[str(skill)])) as live:
        result = await live.manager.run(skill, request, tenant="t")
    assert [row.name for row in result.staged_inputs] == ["work/inputs/SKILL.md"]


@pytest.mark.parametrize("chosen", [False, True])
async def test_python_is_forked_where_the_settings_say_so(
    tmp_path: Path, skill: Path, *, chosen: bool
) -> None:
    async with opened(wired(tmp_path, python__fork_server=chosen)) as live:
        staged = await live.manager.stage(skill, tenant="t")
        ready = await live.manager.prepare(staged, TRUE, tenant="t")
    assert ready.command.fork is chosen


async def test_limits_of_inputs_and_times_are_those_of_the_settings(tmp_path: Path, skill: Path) -> None:
    settings = wired(tmp_path, inputs__max_files=1, run__wall_seconds=0.1, run__wall_ceiling_seconds=0.2)
    two = tuple(InputRef("skill://skill/SKILL.md", f"work/{name}") for name in "ab")
    async with opened(settings) as live:
        with pytest.raises(InputError, match="more than 1 files"):
            await live.manager.run(skill, replace(TRUE, inputs=two), tenant="t")
        slow = RunRequest(Argv(("sleep", "5")), timeout=10)
        result = await live.manager.run(skill, slow, tenant="t")
    assert result.outcome.ending == Stopped("wall_time")
    assert len(result.notes) == 1


@pytest.mark.parametrize("runs", [2, 1])
async def test_runs_of_a_session_are_parallel_as_far_as_the_settings_say_and_wait_beyond_that(
    tmp_path: Path, skill: Path, runs: int
) -> None:
    settings = wired(tmp_path, session__concurrency="parallel", session__concurrent_runs=runs)
    async with opened(settings) as live:
        session = await live.sessions.open("s", tenant="t")
        staged = await session.stage(skill)
        seconds = "0.3" if runs == 1 else "60"
        first = asyncio.ensure_future(session.run(staged, RunRequest(Argv(("sleep", seconds)))))
        await asyncio.sleep(0.1)
        assert (await session.run(staged, TRUE)).outcome.ok
        assert first.done() == (runs == 1)
        first.cancel()
        await asyncio.wait([first])
    ends = ["ended", "ended" if runs == 1 else "cancelled"]
    assert [row["status"] for row in audited(tmp_path)] == ends


async def test_where_interactive_programs_have_every_slot_a_run_is_refused_and_not_kept_waiting(
    tmp_path: Path, skill: Path
) -> None:
    settings = wired(tmp_path, session__concurrency="parallel", session__concurrent_runs=1)
    async with opened(settings) as live:
        session = await live.sessions.open("s", tenant="t")
        staged = await session.stage(skill)
        program = await session.start_program(staged, RunRequest(Argv(("cat",))))
        await program.poll()
        with pytest.raises(SessionBusyError, match="interactive programs have every slot"):
            await session.run(staged, TRUE)
        await program.kill()
        assert (await session.run(staged, TRUE)).outcome.ok


async def test_many_runs_at_once_are_all_answered(tmp_path: Path, skill: Path) -> None:
    settings = wired(tmp_path, session__concurrency="parallel", session__concurrent_runs=3)
    async with opened(settings) as live:
        session = await live.sessions.open("s", tenant="t")
        staged = await session.stage(skill)
        short = RunRequest(Argv(("sleep", "0.01")))
        given_up = asyncio.ensure_future(session.run(staged, RunRequest(Argv(("sleep", "5")))))
        many = asyncio.gather(*(session.run(staged, short) for _ in range(20)))
        await asyncio.sleep(0.05)
        given_up.cancel()
        assert all(result.outcome.ok for result in await many)


async def test_sessions_live_as_long_as_the_settings_say(tmp_path: Path) -> None:
    async with opened(wired(tmp_path, session__idle_seconds=0.05)) as live:
        await live.sessions.open("s", tenant="t")
        async with asyncio.timeout(10):
            while live.sessions.snapshot_of("s", tenant="t") is None:  # noqa: ASYNC110  # nobody is told
                await asyncio.sleep(0.02)
        assert live.sessions.sessions(tenant="t") == ()
    assert list((tmp_path / "data" / "snapshots").iterdir()) == []


def test_no_box_is_reaped_before_its_session_may_end(tmp_path: Path) -> None:
    settings = wired(tmp_path, session__max_age_seconds=100_000)
    assert sandbox_spec(settings).ttl_seconds >= 100_000 + settings.run.wall_ceiling_seconds


class TestPlaceOfTheStore:
    account = Account(1000, "alice", Path("/home/alice"))
    neutral = Path("/var/lib/sandbox-skills/1000")

    @pytest.fixture(autouse=True)
    def _alice(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", "/home/alice")
        monkeypatch.delenv("XDG_DATA_HOME", raising=False)
        monkeypatch.setattr(live, "current_account", lambda: self.account)
        monkeypatch.setattr(live, "neutral_directory", lambda _: self.neutral)

    def test_nobody_chose_one_so_it_is_where_it_tells_no_name(self) -> None:
        assert store_root(load_settings({}, environ={})) == self.neutral / "store"

    def test_where_there_is_no_such_place_it_is_in_the_data_directory(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(live, "neutral_directory", lambda _: None)
        assert store_root(load_settings({}, environ={})) == Path(
            "/home/alice/.local/share/sandbox-skills/store"
        )

    @pytest.mark.parametrize("chosen", ["/home/alice/data", "/srv/data"])
    def test_a_data_directory_that_was_chosen_has_it(self, chosen: str) -> None:
        assert store_root(load_settings({"data_dir": chosen}, environ={})) == Path(chosen, "store")

    def test_a_place_that_was_chosen_is_taken(self) -> None:
        given = {"data_dir": "/srv/data", "store.dir": "/srv/store"}
        assert store_root(load_settings(given, environ={})) == Path("/srv/store")


def test_sandboxes_demand_everything_but_what_the_settings_do_without(tmp_path: Path) -> None:
    assert sandbox_spec(wired(tmp_path, engine="docker")).needs == BASE_GUARANTEES
    lacking = {Guarantee.INODES, Guarantee.PROTECTED_RUNNER}
    given: dict[str, object] = {"docker__without": ["inodes", "protected_runner"], "docker__runtime": "runsc"}
    less = wired(tmp_path, engine="docker", **given)
    assert sandbox_spec(less).needs == (BASE_GUARANTEES - lacking) | {Guarantee.KERNEL_BOUNDARY}
    assert doctor_options(less).needs == sandbox_spec(less).needs
    # What one engine does without says nothing of another.
    assert sandbox_spec(wired(tmp_path, engine="bubblewrap", **given)).needs == BASE_GUARANTEES
    own = wired(tmp_path, engine="bubblewrap", bubblewrap__without=["memory"])
    assert sandbox_spec(own).needs == BASE_GUARANTEES - {Guarantee.MEMORY}

"""The bubblewrap engine on this host: what it refuses, and that nothing outlives its owner, however that ends."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from sandbox_skills.engines.bubblewrap import BubblewrapEngine, BubblewrapEngineOptions
from sandbox_skills.engines.bubblewrap.cgroup import hierarchies
from sandbox_skills.engines.bubblewrap.leftovers import leftovers
from sandbox_skills.errors import (
    EngineUnavailableError,
    GuaranteeError,
    ImageError,
    SandboxLostError,
    SettingsError,
)
from sandbox_skills.spec import (
    BASE_GUARANTEES,
    Command,
    Exited,
    Guarantee,
    Limits,
    SandboxLimits,
    SandboxSpec,
    Stopped,
    TerminalSize,
)
from tests.boxes import kill, processes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from sandbox_skills.engines.base import Sandbox
    from sandbox_skills.workspace.staging import SkillStore

pytestmark = [pytest.mark.anyio, pytest.mark.bubblewrap, pytest.mark.root]

ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin"}

GONE_SECONDS = 10.0

STANDARD_SIGNALS = 2**31 - 1
"""Those up to 31; the two after them are the C library's own."""


def sh(text: str) -> Command:
    return Command(("sh", "-c", text), env=ENV)


async def said(sandbox: Sandbox, text: str) -> str:
    outcome = await sandbox.run(sh(text))
    assert outcome.ending == Exited(0), outcome
    return outcome.stdout.decode()


def owner_of(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def namespace(name: str) -> str:
    return str(Path(f"/proc/self/ns/{name}").readlink())


def instances(data_dir: Path) -> set[str]:
    return {path.name.lstrip(".") for path in (data_dir / "bubblewrap" / "instances").glob("*")}


def groups_of(data_dir: Path) -> list[str]:
    """The boxes that have a cgroup and are those of engines with that data directory."""
    own = instances(data_dir)
    return [box.id for box in leftovers(hierarchies()) if box.instance in own]


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + GONE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.fixture
def options(tmp_path: Path, root_file_systems: Path, store: SkillStore) -> BubblewrapEngineOptions:
    return BubblewrapEngineOptions(
        data_dir=tmp_path / "data",
        skills_dir=store.mount_dir,
        marker=store.marker(),
        rootfs_dir=root_file_systems,
    )


@pytest.fixture
async def engine(options: BubblewrapEngineOptions) -> AsyncIterator[BubblewrapEngine]:
    """An engine of a test's own, that it may break."""
    own = BubblewrapEngine(options)
    yield own
    await own.aclose()
    assert groups_of(options.data_dir) == []


class TestRefused:
    async def test_without_bubblewrap_the_fix_is_said(self, options: BubblewrapEngineOptions) -> None:
        engine = BubblewrapEngine(replace(options, program=Path("/nowhere/bwrap")))
        with pytest.raises(EngineUnavailableError, match="is not there") as caught:
            await engine.probe()
        assert caught.value.hint == "apt-get install --yes bubblewrap"
        assert engine.guarantees == frozenset()

    async def test_another_program_is_not_taken_for_it(self, options: BubblewrapEngineOptions) -> None:
        with pytest.raises(EngineUnavailableError, match="is not bubblewrap"):
            await BubblewrapEngine(replace(options, program=Path("/bin/echo"))).probe()

    async def test_without_its_root_file_system_the_fix_is_said(
        self, options: BubblewrapEngineOptions, tmp_path: Path
    ) -> None:
        engine = BubblewrapEngine(replace(options, rootfs_dir=tmp_path / "none"))
        with pytest.raises(ImageError, match=r"runner image \(slim\) is missing") as caught:
            async with engine.open(SandboxSpec()):
                pass
        assert caught.value.hint == "sandbox-skills image build --engine bubblewrap"
        await engine.aclose()

    @pytest.mark.parametrize("guarantee", [Guarantee.APPARMOR, Guarantee.KERNEL_BOUNDARY])
    async def test_what_it_does_not_have_it_does_not_promise(
        self, engine: BubblewrapEngine, options: BubblewrapEngineOptions, guarantee: Guarantee
    ) -> None:
        spec = SandboxSpec(needs=BASE_GUARANTEES | {guarantee})
        with pytest.raises(GuaranteeError, match=guarantee) as caught:
            async with engine.open(spec):
                pass
        assert caught.value.lost == (guarantee,)
        assert not (options.data_dir / "bubblewrap").exists()

    async def test_limits_that_no_box_can_have(self, engine: BubblewrapEngine) -> None:
        spec = SandboxSpec(limits=SandboxLimits(cpus=10_000))
        with pytest.raises(SettingsError, match="more than this host has"):
            async with engine.open(spec):
                pass

    async def test_a_store_that_is_not_the_one_meant(self, options: BubblewrapEngineOptions) -> None:
        engine = BubblewrapEngine(replace(options, marker=("none", "0" * 64)))
        with pytest.raises(GuaranteeError, match="readonly_skills"):
            async with engine.open(SandboxSpec()):
                pass
        await engine.aclose()


class TestTheBox:
    async def test_all_that_a_sandbox_means_is_guaranteed(self, bubblewrap_engine: BubblewrapEngine) -> None:
        report = await bubblewrap_engine.probe()
        assert (report.engine, report.lost) == ("bubblewrap", {})
        assert bubblewrap_engine.guarantees == BASE_GUARANTEES

    async def test_its_files_are_the_images_and_never_the_hosts(
        self, bubblewrap_engine: BubblewrapEngine, tmp_path: Path
    ) -> None:
        canary = tmp_path / "canary"
        canary.write_text("of the host")
        async with bubblewrap_engine.open(SandboxSpec()) as sandbox:
            assert await said(sandbox, f"test -e {canary} || echo none") == "none\n"
            assert "root:" in await said(sandbox, "cat /etc/passwd")
            refused = await sandbox.run(sh("cat /etc/shadow"))
            assert b"Permission denied" in refused.stderr
            assert (
                await said(sandbox, "test -e /var/lib/dpkg/info/python3.list && echo the image")
                == "the image\n"
            )

    async def test_each_has_a_uid_of_its_own_on_the_host(self, bubblewrap_engine: BubblewrapEngine) -> None:
        async with (
            bubblewrap_engine.open(SandboxSpec()) as one,
            bubblewrap_engine.open(SandboxSpec()) as other,
        ):
            uids = [owner_of(pid) for box in (one, other) for pid in processes(box)]
            assert len(set(uids)) == 2
            assert min(uids) >= 20000
            assert {int(await said(box, "id -u")) for box in (one, other)} == set(uids)

    async def test_every_namespace_is_its_own(self, bubblewrap_engine: BubblewrapEngine) -> None:
        names = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"]
        host = [namespace(name) for name in names]
        async with bubblewrap_engine.open(SandboxSpec()) as sandbox:
            paths = " ".join(f"/proc/self/ns/{name}" for name in names)
            box = (await said(sandbox, f"readlink {paths}")).split()
        assert not set(host) & set(box)
        assert len(box) == len(names)

    @pytest.mark.parametrize("tty", [None, TerminalSize()])
    async def test_a_program_has_its_three_descriptors_and_nothing_of_ours(
        self, bubblewrap_engine: BubblewrapEngine, tty: TerminalSize | None
    ) -> None:
        async with (
            bubblewrap_engine.open(SandboxSpec()) as sandbox,
            sandbox.start(Command(("ls", "-l", "/proc/self/fd"), env=ENV), tty=tty) as process,
        ):
            outcome = await process.wait()
        assert b"socket:" not in outcome.stdout
        numbers = {
            line.split(b" -> ")[0].split()[-1] for line in outcome.stdout.splitlines() if b" -> " in line
        }
        assert numbers == {b"0", b"1", b"2", b"3"}  # the last is the listing's own

    async def test_signals_have_their_usual_meaning_whatever_its_host_ignores(
        self, engine: BubblewrapEngine
    ) -> None:
        numbers = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
        before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
        try:
            await said_by_one(engine)  # its launcher is started now, as by `nohup` or behind a shell
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)
        async with engine.open(SandboxSpec()) as sandbox:
            ignored = await said(sandbox, "grep SigIgn /proc/self/status")
        assert int(ignored.split()[1], 16) & STANDARD_SIGNALS == 0

    async def test_memory_that_runs_out_ends_the_program_and_not_the_box(
        self, bubblewrap_engine: BubblewrapEngine
    ) -> None:
        hoard = Command(("python3", "-c", "x = b'x' * (1 << 30)"), env=ENV)
        async with bubblewrap_engine.open(SandboxSpec()) as sandbox:
            outcome = await sandbox.run(hoard)
            assert outcome.ending == Stopped("memory")
            assert outcome.limits_hit == {"memory"}
            assert await said(sandbox, "echo still here") == "still here\n"

    async def test_too_many_processes_are_refused_and_counted(
        self, bubblewrap_engine: BubblewrapEngine
    ) -> None:
        bomb = "import os, time\nfor _ in range(500):\n    os.fork() or time.sleep(9)"
        async with bubblewrap_engine.open(SandboxSpec()) as sandbox:
            outcome = await sandbox.run(
                Command(("python3", "-c", bomb), env=ENV), limits=Limits(wall_seconds=10)
            )
            assert "pids" in outcome.limits_hit
            assert not outcome.limits_guessed
            assert await said(sandbox, "echo still here") == "still here\n"


class TestEnds:
    async def test_leaving_ends_every_process_and_cgroup(
        self, engine: BubblewrapEngine, options: BubblewrapEngineOptions
    ) -> None:
        async with engine.open(SandboxSpec()) as sandbox, sandbox.start(sh("sleep 60")):
            assert len(processes(sandbox)) >= 2
            assert groups_of(options.data_dir) == [sandbox.id]
        assert processes(sandbox) == []
        assert groups_of(options.data_dir) == []

    async def test_a_box_that_is_killed_is_lost(self, engine: BubblewrapEngine) -> None:
        async with engine.open(SandboxSpec()) as sandbox:
            async with sandbox.start(sh("sleep 60")) as process:
                kill(sandbox)
                with pytest.raises(SandboxLostError, match="exit code 137"):
                    await process.wait()
            assert not sandbox.alive

    async def test_its_time_to_live_is_the_launchers_to_keep(
        self, engine: BubblewrapEngine, options: BubblewrapEngineOptions
    ) -> None:
        async with engine.open(SandboxSpec(ttl_seconds=3.0)) as sandbox:
            with pytest.raises(SandboxLostError):
                await sandbox.run(sh("sleep 15"))
            with anyio.fail_after(GONE_SECONDS):
                while groups_of(options.data_dir):  # noqa: ASYNC110  # nobody is told of a cgroup's end
                    await asyncio.sleep(0.02)

    async def test_a_cancel_at_any_moment_of_the_start_leaves_nothing(
        self, engine: BubblewrapEngine, options: BubblewrapEngineOptions
    ) -> None:
        async def one() -> None:
            async with engine.open(SandboxSpec()) as sandbox:
                await sandbox.run(sh("sleep 60"))

        await said_by_one(engine)
        for milliseconds in range(0, 200, 12):
            task = asyncio.create_task(one())
            await asyncio.sleep(milliseconds / 1000)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert groups_of(options.data_dir) == []

    @pytest.mark.slow
    @pytest.mark.timeout(120)
    async def test_many_at_once_come_up_and_go(
        self, engine: BubblewrapEngine, options: BubblewrapEngineOptions
    ) -> None:
        await asyncio.gather(*(said_by_one(engine) for _ in range(40)))
        assert groups_of(options.data_dir) == []

    async def test_the_launcher_killed_takes_the_boxes_and_is_replaced(
        self, engine: BubblewrapEngine, options: BubblewrapEngineOptions
    ) -> None:
        async with engine.open(SandboxSpec()) as sandbox:
            assert engine._launch is not None
            engine._launch._process.kill()
            with pytest.raises(SandboxLostError):
                await sandbox.run(sh("sleep 15"))
        assert processes(sandbox) == []
        assert groups_of(options.data_dir) == []
        await said_by_one(engine)


async def said_by_one(engine: BubblewrapEngine) -> None:
    async with engine.open(SandboxSpec()) as sandbox:
        assert await said(sandbox, "echo here") == "here\n"


OWNER = """
import asyncio, json, os, sys
import anyio.to_thread
from pathlib import Path
from sandbox_skills.engines.bubblewrap import BubblewrapEngine, BubblewrapEngineOptions, launch
from sandbox_skills.spec import Command, Guarantee, SandboxSpec, BASE_GUARANTEES

given = json.loads(sys.argv[1])

async def main():
    engine = BubblewrapEngine(
        BubblewrapEngineOptions(data_dir=Path(given["data"]), rootfs_dir=Path(given["rootfs"]))
    )
    needs = BASE_GUARANTEES - {Guarantee(name) for name in given["without"]}
    async with engine.open(SandboxSpec(needs=needs)) as sandbox:
        text = "echo $(id -u) $(cat /proc/self/uid_map); sleep 60 & exec sleep 60"

        def tell(stream, data):
            print(json.dumps([sandbox.id, engine._launch._process.pid, data.decode()]), flush=True)

        await sandbox.run(Command(("sh", "-c", text), env={"PATH": "/bin"}), on_output=tell)

if given["user"]:
    # What is imported when it is needed may lie where that user cannot read.
    asyncio.run(anyio.to_thread.run_sync(int))
    # So may the text of the launcher, and the interpreter that it is for.
    sys.executable, _ = given["python"], launch.program()
    os.setgroups([])
    os.setresgid(given["user"], given["user"], given["user"])
    os.setresuid(given["user"], given["user"], given["user"])
asyncio.run(main())
"""


def start_owner(data_dir: Path, rootfs: Path, **given: Any) -> subprocess.Popen[str]:  # noqa: ANN401  # JSON
    """Starts another process with a box in which something runs."""
    values = {"data": str(data_dir), "rootfs": str(rootfs), "without": [], "user": 0, **given}
    return subprocess.Popen(
        [sys.executable, "-c", OWNER, json.dumps(values)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


@pytest.fixture
def owner(options: BubblewrapEngineOptions, root_file_systems: Path) -> Iterator[subprocess.Popen[str]]:
    with start_owner(options.data_dir, root_file_systems) as process:
        yield process
        process.kill()


def told_by(owner: subprocess.Popen[str]) -> tuple[str, int, str]:
    assert owner.stdout is not None
    sandbox_id, launcher, text = json.loads(owner.stdout.readline())
    return sandbox_id, launcher, text


def mentions(mark: str) -> list[int]:
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            if mark in path.read_text():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


class TestOwnerKilled:
    def test_its_launcher_ends_the_box_and_leaves_nothing(
        self, options: BubblewrapEngineOptions, owner: subprocess.Popen[str]
    ) -> None:
        sandbox_id, launcher, _ = told_by(owner)
        assert len(mentions(sandbox_id)) >= 3
        owner.kill()
        until(lambda: not mentions(sandbox_id), "processes of the box")
        until(lambda: not groups_of(options.data_dir), "cgroups of the box")
        until(lambda: not Path(f"/proc/{launcher}/exe").exists(), "the launcher")

    async def test_with_its_launcher_the_next_engine_cleans_up(
        self, options: BubblewrapEngineOptions, owner: subprocess.Popen[str]
    ) -> None:
        sandbox_id, launcher, _ = told_by(owner)
        owner.send_signal(signal.SIGSTOP)
        os.kill(launcher, signal.SIGKILL)
        owner.kill()
        owner.wait()
        until(lambda: not mentions(sandbox_id), "processes of the box")
        assert groups_of(options.data_dir) == [sandbox_id]
        engine = BubblewrapEngine(options)
        assert await engine.reap(()) == [sandbox_id]
        assert groups_of(options.data_dir) == []
        await engine.aclose()

    async def test_a_living_owner_and_another_data_directory_are_left_alone(
        self, options: BubblewrapEngineOptions, owner: subprocess.Popen[str], tmp_path: Path
    ) -> None:
        sandbox_id, _, _ = told_by(owner)
        for data_dir in (options.data_dir, tmp_path / "other"):
            engine = BubblewrapEngine(replace(options, data_dir=data_dir))
            assert await engine.reap(()) == []
            await engine.aclose()
        assert mentions(sandbox_id)


USER = 65533
"""Nobody has it."""


def everyones_python() -> str:
    """An interpreter that every user may start; that of the tests may lie in a home directory."""
    for path in (sys.executable, *filter(None, (shutil.which("python3", path="/usr/local/bin:/usr/bin"),))):
        try:
            done = subprocess.run(
                [path, "-c", ""], user=USER, group=USER, extra_groups=[], check=False, cwd="/"
            )
        except PermissionError:
            continue
        if done.returncode == 0:
            return path
    raise AssertionError("no Python that every user may start")


class TestAsAUser:
    """Somebody who is not root, and may make no cgroups: what can be had is had, what cannot is refused or accepted."""

    @pytest.fixture
    def place(self, root_file_systems: Path) -> Iterator[Path]:
        """That user's data directory, with the tree as his own, which an export would have made it."""
        with tempfile.TemporaryDirectory(prefix="sandbox-skills-user-") as name:
            folder = Path(name)
            subprocess.run(["cp", "-a", root_file_systems, folder / "rootfs"], check=True)
            subprocess.run(["chown", "-hR", f"{USER}:{USER}", folder], check=True)
            yield folder

    @pytest.mark.slow
    @pytest.mark.timeout(120)
    def test_it_is_refused_and_with_what_is_accepted_it_runs(self, place: Path) -> None:
        own = {"user": USER, "python": everyones_python()}
        with start_owner(place / "data", place / "rootfs", **own) as refused:
            _, words = refused.communicate()
        assert "GuaranteeError: bubblewrap cannot enforce cpu (this process may not make a cgroup" in words
        assert "own_uid (boxes of a user who is not root have that user's uid outside" in words
        lost = ["cpu", "memory", "pids", "own_uid"]
        with start_owner(place / "data", place / "rootfs", without=lost, **own) as accepted:
            assert accepted.stdout is not None
            line = accepted.stdout.readline()
            assert line, accepted.communicate()[1]
            accepted.kill()
        _, launcher, text = json.loads(line)
        uid, inside, _, count = text.split()
        assert (uid, count) == (inside, "1")
        assert int(uid) >= 20000
        until(lambda: not Path(f"/proc/{launcher}/exe").exists(), "the launcher")

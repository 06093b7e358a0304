"""Docker with gVisor: every family of attacks once more, against a kernel that is not the host's.

It answers some of them otherwise than Linux does: what it lets a program have is its own and nothing of the host's.
Where it keeps a promise less well than runc, the promise is not among its guarantees. Seen in release 20221219.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.docker_config import GVISOR, LOST_IN_GVISOR
from sandbox_skills.engines.image import UID_COUNT, UID_FIRST
from sandbox_skills.errors import GuaranteeError, RecorderError, RunnerProtocolError, SandboxLostError
from sandbox_skills.spec import (
    BASE_GUARANTEES,
    MIB,
    Command,
    Guarantee,
    Limits,
    SandboxLimits,
    SandboxSpec,
    Stopped,
)
from sandbox_skills.workspace.manager import Argv, RunRequest, Script, Shell
from tests.security import test_box_ipc as ipc
from tests.security import test_box_resources as resources
from tests.security import test_cgroups as cgroups
from tests.security import test_hostile_files as files
from tests.security import test_identity as identity
from tests.security import test_leftover_processes as leftovers
from tests.security import test_no_network as network
from tests.security import test_read_only_root as root
from tests.security import test_runner_protection as runner
from tests.security import test_seccomp_raw as seccomp
from tests.security import test_skill_store as skills
from tests.security import test_terminal as terminal
from tests.security import test_tmpfs_limits as tmpfs
from tests.security.conftest import ENVIRONMENT
from tests.security.engines import family, only
from tests.security.outside import Container

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox_skills.workspace.manager import WorkspaceManager
    from sandbox_skills.workspace.staging import SkillStore, StagedSkill
    from tests.security.conftest import Box, OpenBox, Tried
    from tests.security.matrix import Refused

pytestmark = [pytest.mark.anyio, only("gvisor")]

TENANT = "a"

INSIDE_GVISOR = {"unshare_user", "mknod_device", "io_uring", "ptrace"}
"""Attempts of the sample that gVisor lets a program make: in a kernel that is the box's alone."""


@pytest.fixture
async def staged(manager: WorkspaceManager, samples: Path) -> StagedSkill:
    return await manager.stage(samples / "python-math", tenant=TENANT)


FEW = 100
"""What the rest of the host may take meanwhile; a box takes thousands where nothing stops it."""


def held_locks() -> int:
    """How many locks on files the host's kernel has."""
    return len(Path("/proc/locks").read_text(encoding="ascii").splitlines())


def held_terminals() -> int:
    """How many pseudo-terminals the host's kernel has."""
    return int(Path("/proc/sys/kernel/pty/nr").read_text(encoding="ascii"))


def disks() -> dict[str, str]:
    import os
    import stat
    from pathlib import Path

    from tests.security.inside import opened

    found = {}
    for major, minor, kind in (
        (8, 0, stat.S_IFBLK),
        (254, 0, stat.S_IFBLK),
        (1, 1, stat.S_IFCHR),
        (10, 232, stat.S_IFCHR),
    ):
        path = Path("/workspace/work/device")
        os.mknod(path, kind | 0o600, os.makedev(major, minor))
        found[f"{major}:{minor}"] = opened(str(path), os.O_RDWR)
        path.unlink()
    return found


async def lost(box: Box, command: Command) -> None:
    """Sees that a program takes its box down, and nothing of what it wrote is believed."""
    with pytest.raises((SandboxLostError, RunnerProtocolError)):
        await box.run(command, limits=Limits(wall_seconds=20))
    assert not box.sandbox.alive


class TestIdentity:
    pytestmark = family("identity")

    async def test_what_it_lacks_is_refused_by_default_and_without_it_a_box_is_told(
        self, tried: Tried, refused: Refused
    ) -> None:
        assert (BASE_GUARANTEES | {Guarantee.KERNEL_BOUNDARY}) - tried.needs == LOST_IN_GVISOR.keys()
        for guarantee in LOST_IN_GVISOR:
            with pytest.raises(GuaranteeError, match=guarantee):
                async with tried.engine.open(SandboxSpec(needs=tried.needs | {guarantee})):
                    pytest.fail("a box without the guarantee was handed out")
            refused(guarantee)
        async with tried.engine.open(SandboxSpec(needs=tried.needs)) as sandbox:
            assert sandbox.alive

    async def test_its_kernel_is_not_the_hosts(self, box: Box) -> None:
        outcome = await box.shell("dmesg; cat /proc/version")
        assert b"Starting gVisor" in outcome.stdout

    async def test_a_box_is_nobody_else_and_cannot_become_anybody(self, box: Box, neighbour: Box) -> None:
        seen = [(await one.call(identity.ids))["uids"] for one in (box, neighbour)]
        assert all(UID_FIRST <= uids[0] < UID_FIRST + UID_COUNT for uids in seen)
        assert seen[0] != seen[1]
        assert set((await box.call(identity.becoming_somebody_else)).values()) == {"EPERM"}
        status = await box.call(identity.privileges, "self")
        assert {status[f"Cap{name}"] for name in ("Inh", "Prm", "Eff", "Bnd")} == {"0" * 16}
        await box.call(identity.staying_oneself)


class TestNetwork:
    pytestmark = family("no_network")

    async def test_nothing_outside_is_reached_and_the_loopback_works(self, box: Box) -> None:
        assert (await box.call(network.interfaces))["by netlink"] == ["lo"]
        found = await box.call(network.connecting, list(network.OUTSIDE.values()), 80)
        assert set(found.values()) <= network.REFUSALS, found
        assert await box.call(network.looking_up, [*network.NAMES]) == []
        assert set((await box.call(network.talking_to_oneself)).values()) == {"tcp", "udp", "ok"}


class TestHost:
    pytestmark = family("nothing_of_the_host")

    async def test_nothing_of_a_session_is_in_the_next_nor_of_the_host(
        self,
        manager: WorkspaceManager,
        staged: StagedSkill,
        store: SkillStore,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("API_KEY", "canary-of-the-host")
        look = "cat /proc/[0-9]*/environ /proc/self/mountinfo /proc/self/mounts; find /tmp /workspace -name left; true"
        async with manager.session(tenant=TENANT) as session:
            assert (await session.run(staged, RunRequest(Shell("echo x > /tmp/left")))).outcome.ok
        async with manager.session(tenant=TENANT) as session:
            told = (await session.run(staged, RunRequest(Shell(look)))).outcome.stdout
        assert b"/workspace" in told
        for secret in ("canary-of-the-host", "/left", str(store.mount_dir.parent)):
            assert secret.encode() not in told


class TestRoot:
    pytestmark = family("read_only_root")

    async def test_nothing_can_be_made_or_changed_outside_the_own_places(self, box: Box) -> None:
        before = box.outside.root_state()
        answers = await box.call(root.making_files_everywhere)
        assert set(answers) <= {"EROFS", "EACCES", "ENOENT", "EPERM"}
        assert await box.call(root.opening_every_file_for_writing) == []
        assert len(await box.call(root.using_own_places)) == 6
        assert box.outside.root_state() == before

    async def test_a_device_that_was_made_leads_to_no_disk_of_the_host(self, box: Box) -> None:
        assert await box.call(disks) == {"8:0": "ENXIO", "254:0": "ENXIO", "1:1": "ENXIO", "10:232": "ENXIO"}


class TestRunner:
    pytestmark = family("runner_protection")

    async def test_a_program_that_writes_into_the_channel_loses_the_box_and_fools_nobody(
        self, open_box: OpenBox, refused: Refused
    ) -> None:
        refused(Guarantee.PROTECTED_RUNNER)
        async with open_box() as box:
            await lost(box, box.program(runner.writing_nonsense_into_the_channel))
        async with open_box() as box:
            assert await box.call(runner.own_memory) == "mine"

    async def test_memory_of_the_runner_is_out_of_reach(self, box: Box) -> None:
        found = await box.call(runner.looking_at, "1", ["io"], ["cwd", "exe", "root"], [])
        assert set(found.values()) == {"EACCES"}, found


class TestFiles:
    pytestmark = family("hostile_files")

    async def test_special_files_block_nobody_and_honest_ones_are_collected(self, open_box: OpenBox) -> None:
        async with open_box() as box:
            await box.call(files.making_special_files)
            async with asyncio.timeout(30):
                found, collection = await box.collect("out/**", limits=files.LIMITS)
            assert set(found) == {"out/real", "out/sparse"}
            assert collection.skipped["out/fifo"] == collection.skipped["out/socket"] == "special"

    async def test_links_are_never_followed(self, open_box: OpenBox) -> None:
        async with open_box() as box:
            await box.call(files.linking_out)
            found, _ = await box.collect(
                "out/**", "out/directory/*", "out/root/etc/passwd", limits=files.LIMITS
            )
            assert found == {"out/real": b"real"}


class TestOutput:
    pytestmark = family("hostile_output")

    async def test_a_flood_is_stopped_and_every_byte_comes_back(self, box: Box) -> None:
        outcome = await box.shell("yes", limits=Limits(output_bytes=4 * MIB))
        assert outcome.ending == Stopped("output")
        data = bytes(range(256)) * 16
        echoed = await box.run(Command(("cat",), env={"PATH": "/usr/bin:/bin"}, stdin=data))
        assert echoed.stdout == data


class TestResources:
    pytestmark = family("box_resources")

    async def test_who_takes_all_memory_takes_the_box_and_the_neighbour_works(
        self, open_box: OpenBox, neighbour: Box
    ) -> None:
        async with open_box(resources.LITTLE) as box:
            outcome = await box.run(resources.python(resources.HOG))
            assert (outcome.ending, outcome.sandbox_lives) == (Stopped("memory"), False)
        assert (await neighbour.shell("true")).ok

    async def test_a_box_has_no_more_cpu_than_it_was_given(self, open_box: OpenBox) -> None:
        async with open_box(SandboxSpec(limits=SandboxLimits(cpus=0.5))) as box:
            assert isinstance(box.outside, Container)
            before = box.outside.cpu_seconds()
            outcome = await box.shell("yes > /dev/null & yes > /dev/null", limits=Limits(wall_seconds=3))
            used = box.outside.cpu_seconds() - before
        assert outcome.ending == Stopped("wall_time")
        assert used / outcome.wall_seconds < 0.7

    async def test_a_bomb_takes_its_box_or_ends_with_its_run_and_the_neighbour_works(
        self, open_box: OpenBox, neighbour: Box
    ) -> None:
        async with open_box() as box:
            bomb = asyncio.ensure_future(
                box.run(box.program(resources.forking_without_end), limits=Limits(wall_seconds=2))
            )
            await asyncio.sleep(1)
            assert (await neighbour.shell("true")).ok
            done = (await asyncio.gather(bomb, return_exceptions=True))[0]
            assert isinstance(done, SandboxLostError) or not done.ok  # type: ignore[union-attr]  # an Outcome

    async def test_locks_and_terminals_of_a_box_are_none_of_the_hosts(
        self, open_box: OpenBox, neighbour: Box
    ) -> None:
        locks, terminals = held_locks(), held_terminals()
        async with open_box() as box:
            for program in (resources.locking_without_end, resources.taking_terminals):
                taking = asyncio.ensure_future(box.run(box.program(program), limits=Limits(wall_seconds=6)))
                await asyncio.sleep(4)
                assert (held_locks() - locks < FEW, held_terminals() - terminals < FEW) == (True, True)
                assert await neighbour.call(resources.opening_a_terminal) == "ok"
                assert (await taking).ending == Stopped("wall_time")


class TestRecordedRuns:
    pytestmark = family("recorded_runs")

    async def test_where_nothing_can_be_recorded_nothing_is_run(self, box: Box) -> None:
        with pytest.raises(RecorderError):
            await box.run(Command(("touch", "made"), env=ENVIRONMENT, record=frozenset({"network"})))
        assert (await box.shell("test ! -e made")).ok


class TestLeftovers:
    pytestmark = family("leftover_processes")

    @pytest.mark.parametrize(
        "misbehaviour",
        [leftovers.new_session, leftovers.double_fork, leftovers.stopped, leftovers.deaf],
        ids=lambda one: one.__name__,
    )
    async def test_nothing_lives_after_a_run(self, box: Box, misbehaviour: Callable[[], None]) -> None:
        await box.run(box.program(misbehaviour), limits=Limits(wall_seconds=10))
        assert box.outside.processes() == 1
        assert (await box.shell("echo next")).stdout == b"next\n"


class TestInput:
    pytestmark = family("standard_input")

    async def test_who_is_given_none_reads_an_end_at_once_and_who_is_given_some_all_of_it(
        self, box: Box
    ) -> None:
        patience = Limits(wall_seconds=30)
        none = await box.run(Command(("sh", "-c", "cat; cat; echo end"), env=ENVIRONMENT), limits=patience)
        assert none.stdout == b"end\n"
        some = await box.run(Command(("wc", "-c"), env=ENVIRONMENT, stdin=bytes(2 * MIB)), limits=patience)
        assert int(some.stdout) == 2 * MIB


class TestGroups:
    pytestmark = family("cgroups")

    async def test_nothing_that_limits_it_can_be_written_left_or_added_to(self, box: Box) -> None:
        assert set(await box.call(cgroups.opening_every_control_for_writing)) <= {"EROFS", "EACCES"}
        assert set((await box.call(cgroups.breaking_out_by_their_names)).values()) <= cgroups.GONE_OR_REFUSED
        assert "ok" not in (await box.call(cgroups.making_a_group)).values()
        assert "ok" not in (await box.call(cgroups.mounting_a_hierarchy)).values()


class TestIpc:
    pytestmark = family("box_ipc")

    async def test_a_neighbour_shares_nothing_and_children_do(self, box: Box, neighbour: Box) -> None:
        assert (await box.call(ipc.sharing, ipc.KEY, 0o1600))["segment"] == "ok"
        assert "ok" not in (await neighbour.call(ipc.sharing, ipc.KEY, 0)).values()
        assert await box.call(ipc.speaking_to_a_child) == [42, 7]


class TestSkills:
    pytestmark = family("skill_store")

    async def test_a_staged_skill_cannot_be_changed_and_can_be_run(
        self, box: Box, staged: StagedSkill, manager: WorkspaceManager
    ) -> None:
        found = await box.call(skills.changing_a_skill, str(staged.box_path))
        assert set(found.values()) <= {"EROFS", "EACCES", "EPERM"}, found
        async with manager.session(tenant=TENANT) as session:
            result = await session.run(staged, RunRequest(Argv(("python3", "scripts/fib.py", "10"))))
        assert result.outcome.ok

    async def test_escape_artist_gets_what_is_its_own_kernels(
        self, manager: WorkspaceManager, samples: Path
    ) -> None:
        request = RunRequest(Script("scripts/escape.py"))
        result = await manager.run(samples / "escape-artist", request, tenant=TENANT)
        assert set(json.loads(result.outcome.stdout)["escaped"]) <= INSIDE_GVISOR


class TestContainer:
    pytestmark = family("container_as_made")

    async def test_a_container_has_nothing_of_the_host_but_the_store(self, box: Box) -> None:
        assert isinstance(box.outside, Container)
        found = box.outside.inspected()
        host = found["HostConfig"]
        assert [(mount["Destination"], mount["RW"]) for mount in found["Mounts"]] == [("/skills", False)]
        assert (host["Runtime"], host["Privileged"], host["CapDrop"]) == (GVISOR, False, ["ALL"])
        assert (host["NetworkMode"], host["IpcMode"]) == ("none", "private")


class TestCalls:
    pytestmark = family("seccomp_raw")

    async def test_calls_that_no_skill_needs_take_at_most_their_own_kernel_down(
        self, open_box: OpenBox, neighbour: Box
    ) -> None:
        async with open_box() as box:
            command = Command(("python3", "-c", seccomp.PROBE), env=ENVIRONMENT)
            with suppress(SandboxLostError):  # this release falls over one of them
                await box.run(command, limits=Limits(wall_seconds=60))
        assert (await neighbour.shell("true")).ok

    async def test_threads_processes_and_sockets_work(self, open_box: OpenBox) -> None:
        async with open_box() as box:
            command = Command(("python3", "-c", seccomp.THREADS_AND_PROCESSES), env=ENVIRONMENT)
            assert (await box.run(command, limits=Limits(wall_seconds=60))).ok


class TestTerminal:
    pytestmark = family("terminal")

    async def test_a_program_has_only_its_own_terminal_and_cannot_type_into_it(self, box: Box) -> None:
        found = await terminal.on_terminal(box, box.program(terminal.tricks))
        assert {found[name] for name in ("TIOCSTI", "TIOCLINUX", "TIOCSETD", "TIOCCONS")} == {"ENOTTY"}
        assert {found["console"], found["tty0"]} == {"ENOENT"}
        assert await terminal.on_terminal(box, box.program(terminal.steal)) == {"TIOCSCTTY": "EPERM"}


class TestTmpfs:
    pytestmark = family("tmpfs_limits")

    async def test_bytes_end_at_the_limit_and_can_be_freed(self, open_box: OpenBox) -> None:
        async with open_box(SandboxSpec(limits=tmpfs.SMALL)) as box:
            for place, (limit, _) in tmpfs.PLACES.items():
                answer, size = await box.call(tmpfs.filling_with_bytes, place)
                assert (answer, limit - MIB < size <= limit) == ("ENOSPC", True)
                assert await box.call(tmpfs.running_a_script_in, place) == "ran\n"

    async def test_files_without_end_end_at_the_memory_limit(
        self, open_box: OpenBox, neighbour: Box, refused: Refused
    ) -> None:
        refused(Guarantee.INODES)
        async with open_box(SandboxSpec(limits=tmpfs.SMALL)) as box:
            outcome = await box.run(
                box.program(tmpfs.filling_with_files, "/workspace"), limits=Limits(wall_seconds=60)
            )
            assert (outcome.ending, outcome.sandbox_lives) == (Stopped("memory"), False)
        assert (await neighbour.shell("true")).ok

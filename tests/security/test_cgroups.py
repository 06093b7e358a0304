"""The groups that limit a box: it may read what they say, and can neither change, leave nor add to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox_skills.spec import SandboxLimits

if TYPE_CHECKING:
    from tests.security.conftest import Box

pytestmark = [pytest.mark.anyio]

GONE_OR_REFUSED = {"EROFS", "EACCES", "EPERM", "ENOENT"}


def opening_every_control_for_writing() -> dict[str, list[str]]:
    import os
    from pathlib import Path

    from tests.security.inside import opened

    answers: dict[str, list[str]] = {}
    for where, _, names in os.walk("/sys/fs/cgroup"):
        for name in names:
            path = str(Path(where, name))
            answers.setdefault(opened(path), []).append(path)
    return answers


def breaking_out_by_their_names() -> dict[str, str]:
    from functools import partial
    from pathlib import Path

    from tests.security.inside import errno_of

    names = (
        *("release_agent", "notify_on_release", "devices.allow", "devices.deny", "cgroup.event_control"),
        *("cgroup.procs", "cgroup.subtree_control", "cgroup.freeze", "cgroup.kill", "tasks"),
        *("memory.max", "memory.high", "memory.limit_in_bytes", "memory.oom_control", "pids.max", "cpu.max"),
        *("cpu.cfs_quota_us", "cpuset.cpus", "freezer.state", "rdma.max", "hugetlb.2MB.max"),
    )
    root = Path("/sys/fs/cgroup")
    places = [root, *(path for path in root.iterdir() if path.is_dir())] if root.is_dir() else []
    return {
        str(place / name): errno_of(partial((place / name).write_text, "0"))
        for place in places
        for name in names
    }


def making_a_group() -> dict[str, str]:
    from pathlib import Path

    from tests.security.inside import errno_of

    root = Path("/sys/fs/cgroup")
    places = [root, *(path for path in root.iterdir() if path.is_dir())] if root.is_dir() else []
    return {str(place): errno_of((place / "own").mkdir) for place in places}


def mounting_a_hierarchy() -> dict[str, str]:
    import ctypes
    import os
    from functools import partial
    from pathlib import Path

    from tests.security.inside import LIBC, errno_of

    Path("/workspace/work/hierarchy").mkdir(exist_ok=True)

    def mount(kind: bytes, options: bytes | None) -> None:
        if LIBC.mount(kind, b"/workspace/work/hierarchy", kind, 0, options):
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    tried = {"v2": (b"cgroup2", None), "rdma": (b"cgroup", b"rdma"), "memory": (b"cgroup", b"memory")}
    return {name: errno_of(partial(mount, *asked)) for name, asked in tried.items()}


def whose_groups() -> list[str]:
    from pathlib import Path

    return [line.split(":", 2)[2] for line in Path("/proc/self/cgroup").read_text("ascii").splitlines()]


def groups_below() -> list[str]:
    import os

    return [f"{where}/{name}" for where, names, _ in os.walk("/sys/fs/cgroup") for name in names]


def limits_as_they_stand() -> dict[str, str]:
    from contextlib import suppress
    from pathlib import Path

    files = {
        "memory": ("memory.max", "memory/memory.limit_in_bytes"),
        "pids": ("pids.max", "pids/pids.max"),
    }
    found = {}
    for name, paths in files.items():
        for path in paths:
            with suppress(OSError):
                found[name] = Path("/sys/fs/cgroup", path).read_text("ascii").strip()
    return found


async def test_no_file_of_them_can_be_opened_for_writing(box: Box) -> None:
    answers = await box.call(opening_every_control_for_writing)
    assert set(answers) <= {"EROFS", "EACCES"}, answers
    assert sum(map(len, answers.values())) > 3


async def test_what_breakouts_write_to_is_absent_or_refused(box: Box) -> None:
    found = await box.call(breaking_out_by_their_names)
    assert found
    assert set(found.values()) <= GONE_OR_REFUSED, found


async def test_no_group_can_be_made_and_none_mounted(box: Box) -> None:
    made = await box.call(making_a_group)
    assert made
    assert set(made.values()) <= {"EROFS", "EACCES", "EEXIST"}, made
    assert set((await box.call(mounting_a_hierarchy)).values()) == {"EPERM"}


async def test_no_other_boxs_group_is_seen_nor_where_its_own_lies(box: Box, neighbour: Box) -> None:
    assert set(await box.call(whose_groups)) == {"/"}
    below = "\n".join(await box.call(groups_below))
    for one in (box, neighbour):
        assert one.name not in below


async def test_a_program_can_read_its_limits(box: Box) -> None:
    limits = SandboxLimits()
    found = await box.call(limits_as_they_stand)
    assert found == {"memory": str(limits.memory), "pids": str(limits.pids)}
    assert (
        await box.shell("cat /sys/fs/cgroup/pids.current /sys/fs/cgroup/pids/pids.current")
    ).stdout.strip()

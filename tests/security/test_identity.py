"""Who a program in a box is: nobody else, and unable to become anybody else."""

from __future__ import annotations

import shutil
import stat
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.image import UID_COUNT, UID_FIRST
from sandbox_skills.errors import GuaranteeError
from sandbox_skills.spec import BASE_GUARANTEES, Guarantee, SandboxSpec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sandbox_skills.workspace.staging import SkillStore
    from tests.security.conftest import Box, Tried

pytestmark = [pytest.mark.anyio]


def ids() -> dict[str, list[int]]:
    import os

    return {"uids": [*os.getresuid()], "gids": [*os.getresgid()], "groups": os.getgroups()}


def account() -> list[str]:
    import getpass
    import os
    import pwd

    entry = pwd.getpwuid(os.getuid())
    return [entry.pw_name, entry.pw_dir, os.path.expanduser("~"), getpass.getuser()]  # noqa: PTH111  # as skills do


def privileges(pid: str) -> dict[str, str]:
    from pathlib import Path

    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return {
        name: value for name, value in fields.items() if name.startswith(("Cap", "NoNewPrivs", "Seccomp"))
    }


def becoming_somebody_else() -> dict[str, str]:
    import ctypes
    import os
    from pathlib import Path

    from tests.security.inside import errno_of, libc

    own = Path("/workspace/work/own")
    own.touch()
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    everything = (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6)
    return {
        "setuid": errno_of(lambda: os.setuid(0)),
        "setresuid": errno_of(lambda: os.setresuid(0, 0, 0)),
        "setgid": errno_of(lambda: os.setgid(0)),
        "setgroups": errno_of(lambda: os.setgroups([0])),
        "neighbour's uid": errno_of(lambda: os.setuid(os.getuid() + 1)),
        "chown": errno_of(lambda: os.chown(own, 0, 0)),
        "chroot": errno_of(lambda: os.chroot("/workspace")),
        "capset": errno_of(lambda: libc("capset", ctypes.addressof(header), ctypes.addressof(everything))),
    }


def staying_oneself() -> None:
    import os
    from pathlib import Path

    own = Path("/workspace/work/mine")
    own.touch(mode=0o600)
    os.setuid(os.getuid())
    os.setgid(os.getgid())
    os.chown(own, os.getuid(), os.getgid())
    own.chmod(0o755)


def set_id_files() -> list[str]:
    import os
    from pathlib import Path

    found: list[str] = []
    device = Path("/").stat().st_dev
    for directory, directories, names in os.walk("/"):
        directories[:] = [name for name in directories if Path(directory, name).lstat().st_dev == device]
        found += [str(path) for name in names if (path := Path(directory, name)).lstat().st_mode & 0o6000]
    return found


@pytest.fixture
def setuid_helper(store: SkillStore) -> Iterator[Path]:
    """A root-owned setuid program where a box can execute it, past the staging that strips such bits."""
    helper = store.mount_dir / "setuid-helper"
    shutil.copy("/usr/bin/id", helper)
    helper.chmod(0o4755)
    assert helper.stat().st_mode & stat.S_ISUID
    assert helper.stat().st_uid == 0
    yield helper
    helper.unlink()


async def test_each_box_has_a_uid_of_its_own(box: Box, neighbour: Box) -> None:
    seen = [await one.call(ids) for one in (box, neighbour)]
    for found in seen:
        uid = found["uids"][0]
        assert UID_FIRST <= uid < UID_FIRST + UID_COUNT
        # Docker says a process's own group among the others, too.
        groups = [] if box.engine == "bubblewrap" else [uid]
        assert found == {"uids": [uid] * 3, "gids": [uid] * 3, "groups": groups}
    assert seen[0]["uids"] != seen[1]["uids"]


async def test_the_uid_has_a_name_and_a_home(box: Box) -> None:
    uid = (await box.call(ids))["uids"][0]
    assert await box.call(account) == [f"box{uid}", "/workspace/home", "/workspace/home", f"box{uid}"]


@pytest.mark.parametrize("pid", ["self", "1"], ids=["a program", "the runner"])
async def test_capabilities_are_zero_and_the_filters_on(box: Box, pid: str) -> None:
    found = await box.call(privileges, pid)
    assert {found[f"Cap{name}"] for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert (found["NoNewPrivs"], found["Seccomp"]) == ("1", "2")


async def test_nobody_else_can_be_become(box: Box) -> None:
    found = await box.call(becoming_somebody_else)
    # In a user namespace that maps one uid alone there is nobody else.
    others = "EINVAL" if box.engine == "bubblewrap" else "EPERM"
    for name in ("setuid", "setresuid", "setgid", "neighbour's uid", "chown"):
        assert found.pop(name) == others, name
    assert found == {"setgroups": "EPERM", "chroot": "EPERM", "capset": "EPERM"}


async def test_a_program_may_be_itself(box: Box) -> None:
    await box.call(staying_oneself)


async def test_a_setuid_program_of_root_runs_as_the_caller(box: Box, setuid_helper: Path) -> None:
    uid = (await box.call(ids))["uids"][0]
    outcome = await box.shell(f"/skills/{setuid_helper.name} -u")
    assert (outcome.ok, outcome.stdout) == (True, b"%d\n" % uid)


async def test_the_image_has_no_set_id_file_and_no_sudo(box: Box) -> None:
    assert await box.call(set_id_files) == []
    assert (await box.shell("! command -v sudo doas pkexec")).ok


async def test_apparmor_is_on_exactly_where_the_engine_says_so(box: Box, tried: Tried) -> None:
    outcome = await box.shell(
        "cat /proc/self/attr/apparmor/current /proc/self/attr/current 2>/dev/null; true"
    )
    confined = b"docker-default (enforce)" in outcome.stdout
    assert confined == (Guarantee.APPARMOR in tried.needs)


async def test_what_an_engine_lacks_is_refused_when_demanded(tried: Tried) -> None:
    lacking = frozenset(Guarantee) - tried.needs
    assert Guarantee.KERNEL_BOUNDARY in lacking
    for guarantee in lacking:
        with pytest.raises(GuaranteeError, match=guarantee):
            async with tried.engine.open(SandboxSpec(needs=tried.needs | {guarantee})):
                pytest.fail("a box without the guarantee was handed out")


async def test_what_an_engine_has_is_given_when_demanded(tried: Tried) -> None:
    assert tried.needs >= BASE_GUARANTEES
    async with tried.engine.open(SandboxSpec(needs=tried.needs)) as sandbox:
        assert sandbox.alive

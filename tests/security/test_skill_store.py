"""Staged skills: read-only, found only by who knows the name, and run from where the host put them."""

from __future__ import annotations

import asyncio
import json
import shutil
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.spec import SKILLS
from sandbox_skills.workspace.manager import RunRequest, Script, Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sandbox_skills.workspace.manager import WorkspaceManager
    from sandbox_skills.workspace.staging import SkillStore, StagedSkill
    from tests.security.conftest import Box

pytestmark = [pytest.mark.anyio]

TENANT = "a"


def changing_a_skill(place: str) -> dict[str, str]:
    import os
    from pathlib import Path

    from tests.security.inside import errno_of, opened

    top = Path(place)
    file = top / "SKILL.md"
    return {
        "write": opened(str(file)),
        "append": opened(str(file), os.O_WRONLY | os.O_APPEND),
        "truncate": errno_of(lambda: os.truncate(file, 0)),
        "create": errno_of((top / "sitecustomize.py").touch),
        "create below": errno_of((top / "scripts" / "evil.py").touch),
        "remove": errno_of(file.unlink),
        "rename": errno_of(lambda: file.rename(top / "OTHER.md")),
        "link over": errno_of(lambda: (top / "scripts" / "x").symlink_to("/tmp")),
        "chmod": errno_of(lambda: file.chmod(0o777)),
        "touch": errno_of(lambda: os.utime(file)),
        "beside": errno_of((top.parent / "mine").mkdir),
        "attribute": errno_of(lambda: os.setxattr(file, "user.x", b"x")),
    }


def looking_for_other_skills(own: str, guesses: list[str]) -> dict[str, str]:
    import os
    from functools import partial
    from pathlib import Path

    from tests.security.inside import errno_of

    found = {
        "list": errno_of(partial(os.scandir, "/skills")),
        "list from below": errno_of(partial(os.scandir, f"{own}/..")),
        "list by descriptor": errno_of(partial(os.scandir, "/proc/self/cwd/..")),
        "root of mount": errno_of(partial(os.open, "/skills", os.O_RDONLY | os.O_DIRECTORY)),
    }
    return found | {guess: errno_of(Path("/skills", guess).stat) for guess in guesses}


def files_below(top: Path) -> dict[str, tuple[int, bytes]]:
    """Every file of a copy in the store, with its mode and bytes."""
    files = [path for path in top.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(top)): (path.stat().st_mode, path.read_bytes()) for path in files}


@pytest.fixture
def careless(store: SkillStore) -> Iterator[Path]:
    """A copy that anyone may write, past the staging that makes them read-only."""
    top = store.mount_dir / "careless"
    (top / "scripts").mkdir(parents=True)
    (top / "SKILL.md").write_text("canary", encoding="ascii")
    for path in (top, *top.iterdir()):
        path.chmod(0o777)
    yield top
    shutil.rmtree(top)


@pytest.fixture
async def staged(manager: WorkspaceManager, samples: Path) -> StagedSkill:
    return await manager.stage(samples / "python-math", tenant=TENANT)


async def test_a_staged_skill_cannot_be_changed(box: Box, store: SkillStore, staged: StagedSkill) -> None:
    before = files_below(store.host_path(staged))
    found = await box.call(changing_a_skill, str(staged.box_path))
    # Opening asks for the mode first, which is without a write bit; the rest meets the mount.
    assert {found.pop(name) for name in ("write", "append", "truncate")} == {"EACCES"}
    assert set(found.values()) == {"EROFS"}, found
    assert files_below(store.host_path(staged)) == before


async def test_the_mount_refuses_what_its_modes_would_allow(box: Box, careless: Path) -> None:
    before = files_below(careless)
    found = await box.call(changing_a_skill, f"/skills/{careless.name}")
    assert set(found.values()) == {"EROFS"}, found
    assert files_below(careless) == before


async def test_a_staged_skill_can_be_read_and_run(box: Box, staged: StagedSkill) -> None:
    outcome = await box.shell(f"cd {staged.box_path} && ls && python3 scripts/fib.py 10")
    assert outcome.ok
    assert b"SKILL.md" in outcome.stdout


async def test_other_skills_cannot_be_listed_or_guessed(
    box: Box, manager: WorkspaceManager, samples: Path, staged: StagedSkill
) -> None:
    others = [
        await manager.stage(samples / "python-math", tenant="b"),
        await manager.stage(samples / "hello-ts", tenant=TENANT),
    ]
    guesses = [
        "python-math",
        "hello-ts",
        *(other.digest for other in others),
        *(other.digest[:40] for other in others),
    ]
    found = await box.call(looking_for_other_skills, str(staged.box_path), guesses)
    assert [found.pop(name) for name in ("list", "list from below", "root of mount")] == ["EACCES"] * 3
    assert found.pop("list by descriptor") in {"ok", "EACCES"}  # the workspace's parent is the root
    assert set(found.values()) == {"ENOENT"}


async def test_two_tenants_have_the_same_skill_by_different_names(
    manager: WorkspaceManager, samples: Path, staged: StagedSkill
) -> None:
    other = await manager.stage(samples / "python-math", tenant="b")
    assert other.digest == staged.digest
    assert other.box_path != staged.box_path
    assert all(len(one.box_path.name) == 40 and one.box_path.parent == SKILLS for one in (staged, other))


def locking(places: list[str], seconds: float) -> list[str]:
    import fcntl
    import os
    import time
    from contextlib import suppress

    busy: list[str] = []
    for place in places:
        with suppress(OSError):
            descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                busy.append(place)
    print("locked", flush=True)
    time.sleep(seconds)
    return busy


SHARED_PLACES = [
    "/",
    "/skills",
    "/usr/bin/python3",
    "/etc/hosts",
    "/etc/hostname",
    "/dev/null",
    "/proc",
    "/sys",
]


async def test_locks_tell_nothing_to_boxes_of_other_tenants(
    box: Box, neighbour: Box, manager: WorkspaceManager, staged: StagedSkill, samples: Path
) -> None:
    theirs = await manager.stage(samples / "python-math", tenant="b")
    mine = [str(staged.box_path), f"{staged.box_path}/SKILL.md"]
    others = [str(theirs.box_path), f"{theirs.box_path}/SKILL.md"]
    locked = asyncio.Event()
    holder = box.program(locking, [*SHARED_PLACES, *mine], 60.0)
    async with box.sandbox.start(holder, on_output=lambda *_: locked.set()) as process:
        await locked.wait()
        trying = neighbour.program(locking, [*SHARED_PLACES, *others], 0.0)
        assert (await neighbour.run(trying)).stdout == b"locked\n[]\n"
        # Of one tenant they are told: both see the same files, as the store's own text says.
        same = neighbour.program(locking, mine, 0.0)
        assert json.loads((await neighbour.run(same)).stdout.splitlines()[-1]) == mine
        process.kill()


async def test_a_rewritten_link_does_not_redirect_the_next_run(
    manager: WorkspaceManager, staged: StagedSkill
) -> None:
    evil = (
        "mkdir -p /tmp/evil/scripts && echo 'print(666)' | tee /tmp/evil/scripts/fib.py > /tmp/evil/sitecustomize.py"
        " && ln -sfn /tmp/evil /workspace/skills/python-math"
    )
    async with manager.session(tenant=TENANT) as session:
        assert (await session.run(staged, RunRequest(Shell(evil)))).outcome.ok
        result = await session.run(staged, RunRequest(Script("scripts/fib.py", ("10",))))
    assert result.outcome.ok
    assert b"666" not in result.outcome.stdout


@pytest.mark.parametrize("directory", ["skills", "runs", "out", "work"])
async def test_a_directory_swapped_for_a_link_is_not_followed_by_the_host(
    manager: WorkspaceManager, staged: StagedSkill, directory: str
) -> None:
    swap = f"mkdir /tmp/outside && rm -rf /workspace/{directory} && ln -s /tmp/outside /workspace/{directory}"
    async with manager.session(tenant=TENANT) as session:
        assert (await session.run(staged, RunRequest(Shell(swap)))).outcome.ok
        result = await session.run(staged, RunRequest(Shell("ls -A /tmp/outside")))
    assert (result.outcome.ok, result.outcome.stdout) == (True, b"")
    assert any("could not be made ready" in note for note in result.notes)


async def test_outputs_of_an_honest_session_are_collected(
    manager: WorkspaceManager, staged: StagedSkill
) -> None:
    async with manager.session(tenant=TENANT) as session:
        for number in (5, 10):
            text = f"python3 scripts/fib.py {number} > out/fib.txt"
            result = await session.run(staged, RunRequest(Shell(text), outputs=("out/*",)))
            assert [str(file.path) for file in result.files] == ["out/fib.txt"]


async def test_escape_artist_reports_no_escape(manager: WorkspaceManager, samples: Path) -> None:
    result = await manager.run(
        samples / "escape-artist", RunRequest(Script("scripts/escape.py")), tenant=TENANT
    )
    report = json.loads(result.outcome.stdout)
    assert (report["escaped"], result.outcome.ok) == ([], True)
    assert len(report["attempts"]) >= 19
    assert all(row["blocked"] and row["enforced_by"] for row in report["attempts"])

"""The skill store: one whole, read-only copy, never stale, whoever stages it and whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from sandbox_skills.catalog.pins import Pin
from sandbox_skills.errors import (
    EngineError,
    SettingsError,
    SkillChangedError,
    SkillNotFoundError,
    SkillUnsafeError,
)
from sandbox_skills.spec import SKILLS
from sandbox_skills.uptime import uptime
from sandbox_skills.workspace import skill_digest, staged_before, staging, store_directory
from sandbox_skills.workspace.eviction import USE_SECONDS
from sandbox_skills.workspace.paths import open_root
from sandbox_skills.workspace.skill_digest import CHUNK, tree_digest
from sandbox_skills.workspace.skill_tree import StageLimits, scan
from sandbox_skills.workspace.staging import SkillStore
from sandbox_skills.workspace.store_directory import StoreDirectory, unfinished_copies
from tests.file_times import past_the_tick

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from sandbox_skills.workspace.skill_tree import Entry, SkillTree

pytestmark = pytest.mark.anyio

PACKAGE_ROOT = Path(staging.__file__).parents[2]

STAGE_SOURCE = """
import os, sys, anyio
from pathlib import Path
from sandbox_skills.workspace.staging import SkillStore
async def main():
    await anyio.to_thread.run_sync(int)  # what is imported late must be there before the user changes
    if "nobody" in sys.argv:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
    store = SkillStore(Path(sys.argv[1]))
    for _ in range(5):
        print((await store.stage(Path(sys.argv[2]), tenant="t")).box_path)
    if "nobody" in sys.argv:
        print(len((await store.gc(max_age=-60, max_bytes=0)).copies))
anyio.run(main)
"""


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    root = tmp_path / "my skill"
    (root / "scripts" / "deep").mkdir(parents=True)
    (root / "SKILL.md").write_text("---\nname: my-skill\n---\n")
    (root / "scripts" / "run.sh").write_text("echo hi\n")
    (root / "scripts" / "run.sh").chmod(0o750)
    (root / "scripts" / "deep" / "data").write_bytes(bytes(1_000_000))
    (root / "data").symlink_to("scripts/deep/data")
    return root


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "data" / "store"
    yield path
    if path.exists():
        assert list((path / "temporary").iterdir()) == []


@pytest.fixture
def store(root: Path) -> SkillStore:
    return SkillStore(root)


def copies(store: SkillStore) -> list[str]:
    return sorted(path.name for path in store.mount_dir.iterdir() if path.is_dir())


def settle(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Lets fresh files count as settled; returns how to ask how often a skill was read."""
    past_the_tick()  # or a change would not show in the stamps that are believed
    calls: list[SkillTree] = []

    def counting(tree: SkillTree, file_digest: Callable[[Entry], bytes]) -> str:
        calls.append(tree)
        return tree_digest(tree, file_digest)

    monkeypatch.setattr(skill_digest, "SETTLED_NS", -(10**12))
    monkeypatch.setattr(skill_digest, "tree_digest", counting)
    return lambda: len(calls)


async def test_a_copy_holds_the_skill_and_the_links(store: SkillStore, skill: Path) -> None:
    os.utime(skill / "SKILL.md", ns=(10**18, 10**18))
    staged = await store.stage(skill, tenant="t")
    copy = store.host_path(staged)
    assert staged.box_path == SKILLS / copy.name
    assert (staged.name, staged.files, staged.bytes, staged.notes) == ("my skill", 3, 1_000_031, ())
    assert sorted(path.name for path in copy.iterdir()) == [
        *(".venv", "SKILL.md", "data", "inputs", "out", "scripts", "work"),
    ]
    assert {name: str((copy / name).readlink()) for name in ("out", "work", "inputs", ".venv", "data")} == {
        "out": "/workspace/out",
        "work": "/workspace/work",
        "inputs": "/workspace/work/inputs",
        ".venv": "/workspace/work/.venv",
        "data": "scripts/deep/data",
    }
    assert (copy / "scripts" / "run.sh").read_text() == "echo hi\n"
    assert (copy / "SKILL.md").stat().st_mtime_ns == 10**18


async def test_nothing_in_a_copy_can_be_written_and_all_can_be_read(store: SkillStore, skill: Path) -> None:
    (skill / "scripts" / "run.sh").chmod(0o4700)
    staged = await store.stage(skill, tenant="t")
    copy = store.host_path(staged)
    modes = {str(path.relative_to(copy)): path.lstat().st_mode & 0o7777 for path in [copy, *copy.rglob("*")]}
    assert {name: mode for name, mode in modes.items() if mode != 0o777} == {
        ".": 0o555,
        "SKILL.md": 0o444,
        "scripts": 0o555,
        "scripts/run.sh": 0o555,
        "scripts/deep": 0o555,
        "scripts/deep/data": 0o444,
    }
    assert staged.notes == ("setuid, setgid or sticky bit removed: 'scripts/run.sh'",)


def test_the_store_is_private_and_its_mount_cannot_be_listed(store: SkillStore, root: Path) -> None:
    assert root.stat().st_mode & 0o777 == 0o700
    assert store.mount_dir.stat().st_mode & 0o777 == 0o311
    assert (root / "key").stat().st_mode & 0o777 == 0o600


def test_the_marker_is_in_the_mount_and_the_same_for_every_process(store: SkillStore, root: Path) -> None:
    name, digest = store.marker()
    assert hashlib.sha256((store.mount_dir / name).read_bytes()).hexdigest() == digest
    assert (store.mount_dir / name).stat().st_mode & 0o777 == 0o444
    assert SkillStore(root).marker() == (name, digest)


async def test_what_the_skill_ships_itself_is_kept_and_said(store: SkillStore, skill: Path) -> None:
    (skill / "out").mkdir()
    (skill / "out" / "example").touch()
    staged = await store.stage(skill, tenant="t")
    assert (store.host_path(staged) / "out" / "example").is_file()
    assert staged.notes == ("the skill's own 'out' is kept, so the link to /workspace/out is missing",)


async def test_the_same_skill_has_one_copy_for_each_tenant(
    store: SkillStore, skill: Path, root: Path
) -> None:
    first = await store.stage(skill, tenant="a")
    assert await store.stage(skill, tenant="a") == first
    assert await SkillStore(root).stage(skill, tenant="a") == first
    other = await store.stage(skill, tenant="b")
    assert other.digest == first.digest
    assert other.box_path != first.box_path
    assert len(copies(store)) == 2


async def test_another_store_gives_another_name(store: SkillStore, skill: Path, tmp_path: Path) -> None:
    other = SkillStore(tmp_path / "other")
    assert (await other.stage(skill, tenant="t")).box_path != (await store.stage(skill, tenant="t")).box_path


async def test_an_unchanged_skill_is_looked_at_and_not_read(
    store: SkillStore, skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = settle(monkeypatch)
    first = await store.stage(skill, tenant="t")
    assert [await store.stage(skill, tenant="t") for _ in range(3)] == [first] * 3
    assert reads() == 1


async def test_a_skill_that_just_changed_is_not_trusted_to_its_time_stamps(
    store: SkillStore, skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = settle(monkeypatch)
    monkeypatch.setattr(skill_digest, "SETTLED_NS", 2_000_000_000)
    await store.stage(skill, tenant="t")
    await store.stage(skill, tenant="t")
    assert reads() == 2


async def test_only_so_many_skills_are_remembered(
    store: SkillStore, skill: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = settle(monkeypatch)
    monkeypatch.setattr(skill_digest, "REMEMBERED", 1)
    other = tmp_path / "other"
    other.mkdir()
    for path in (skill, other, skill):
        await store.stage(path, tenant="t")
    assert reads() == 3


def same_size_and_time(skill: Path) -> None:
    path = skill / "SKILL.md"
    before = path.stat()
    path.write_text("---\nname: my-skilX\n---\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced(skill: Path) -> None:
    (skill / "new").write_text("echo ho\n")
    (skill / "new").rename(skill / "scripts" / "run.sh")


def relinked(skill: Path) -> None:
    (skill / "data").unlink()
    (skill / "data").symlink_to("SKILL.md")


def put_behind_a_link(skill: Path) -> None:
    skill.rename(skill.with_name("moved"))
    skill.symlink_to("moved")


CHANGES: dict[str, Callable[[Path], object]] = {
    "same size and time": same_size_and_time,
    "replaced": replaced,
    "executable bit": lambda skill: (skill / "scripts" / "run.sh").chmod(0o640),
    "new file": lambda skill: (skill / "new").touch(),
    "new directory": lambda skill: (skill / "empty").mkdir(),
    "removed": lambda skill: (skill / "SKILL.md").unlink(),
    "renamed": lambda skill: (skill / "SKILL.md").rename(skill / "skill.md"),
    "relinked": relinked,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_every_change_is_noticed(
    store: SkillStore, skill: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    settle(monkeypatch)
    before = await store.stage(skill, tenant="t")
    change(skill)
    after = await store.stage(skill, tenant="t")
    assert after.digest != before.digest
    assert len(copies(store)) == 2


async def test_a_skill_that_was_not_touched_costs_no_visit_to_a_thread(
    store: SkillStore, skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    first = await store.stage(skill, tenant="t")
    monkeypatch.setattr(store, "_stage", None)
    assert await store.stage(skill, tenant="t") is first
    with pytest.raises(TypeError):
        await store.stage(skill, tenant="another")


async def test_a_look_that_takes_long_is_left_to_a_thread(
    store: SkillStore, skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    monkeypatch.setattr(staged_before, "QUICK_SECONDS", 0.0)
    await store.stage(skill, tenant="t")
    monkeypatch.setattr(store, "_stage", None)
    with pytest.raises(TypeError):
        await store.stage(skill, tenant="t")


async def test_a_folder_that_a_link_took_the_place_of_is_no_skill(
    store: SkillStore, skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    await store.stage(skill, tenant="t")
    put_behind_a_link(skill)
    with pytest.raises(SkillUnsafeError):
        await store.stage(skill, tenant="t")


async def test_while_a_copy_is_taken_away_the_thorough_way_waits(
    store: SkillStore, skill: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    first = await store.stage(skill, tenant="t")
    age(root, 7200)
    with (root / "lock").open("rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        staging = asyncio.ensure_future(store.stage(skill, tenant="t"))
        await asyncio.sleep(0.05)
        assert not staging.done()
    assert await staging == first


async def test_a_new_time_alone_is_no_change(store: SkillStore, skill: Path) -> None:
    before = await store.stage(skill, tenant="t")
    os.utime(skill / "SKILL.md", (1, 1))
    assert await store.stage(skill, tenant="t") == before


async def test_a_copy_that_was_removed_is_made_again(
    store: SkillStore, skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    first = await store.stage(skill, tenant="t")
    shutil.rmtree(store.host_path(first))
    assert await store.stage(skill, tenant="t") == first
    assert store.host_path(first).is_dir()


# Faults.


async def test_no_such_folder_is_no_skill(store: SkillStore, tmp_path: Path) -> None:
    with pytest.raises(SkillNotFoundError):
        await store.stage(tmp_path / "none", tenant="t")


async def test_a_file_or_a_link_is_no_skill_folder(store: SkillStore, skill: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(skill)
    for path in (tmp_path / "link", skill / "SKILL.md"):
        with pytest.raises(SkillUnsafeError, match="cannot be opened"):
            await store.stage(path, tenant="t")


async def test_an_unsafe_skill_leaves_nothing(store: SkillStore, skill: Path) -> None:
    os.mkfifo(skill / "scripts" / "pipe")
    with pytest.raises(SkillUnsafeError, match="'scripts/pipe' is a FIFO"):
        await store.stage(skill, tenant="t")
    assert copies(store) == []


async def test_the_limits_are_the_stores(root: Path, skill: Path) -> None:
    with pytest.raises(SkillUnsafeError, match="more than 3 files"):
        await SkillStore(root, limits=StageLimits(entries=3)).stage(skill, tenant="t")


def swapped_for_a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def swapped_for_a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def swapped_parent(path: Path) -> None:
    path.parent.rename(path.parents[1] / "aside")
    path.parent.symlink_to("/etc")


SWAPS: dict[str, Callable[[Path], object]] = {
    "a link": swapped_for_a_link,
    "a FIFO": swapped_for_a_fifo,
    "a link above it": swapped_parent,
    "nothing": Path.unlink,
    "more": lambda path: path.write_text("longer than it was before"),
    "less": lambda path: path.write_text(""),
}


@pytest.mark.parametrize("swap", SWAPS.values(), ids=SWAPS)
@pytest.mark.parametrize("moment", [(skill_digest, "tree_digest"), (staging, "copy_tree")])
async def test_a_swap_between_the_look_and_the_reading_is_an_error(
    store: SkillStore,
    skill: Path,
    monkeypatch: pytest.MonkeyPatch,
    swap: Callable[[Path], object],
    moment: tuple[ModuleType, str],
) -> None:
    original = getattr(*moment)

    def late(*args: object) -> str:
        swap(skill / "scripts" / "run.sh")
        return str(original(*args))

    monkeypatch.setattr(*moment, late)
    with pytest.raises(SkillUnsafeError, match="changed while it was staged"):
        await store.stage(skill, tenant="t")
    assert copies(store) == []


async def test_a_swap_in_the_middle_of_the_reading_is_an_error(
    store: SkillStore, skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = os.read

    def slow(descriptor: int, size: int) -> bytes:
        data = read(descriptor, size)
        if size == CHUNK:
            os.truncate(skill / "scripts" / "deep" / "data", CHUNK)
        return data

    monkeypatch.setattr(os, "read", slow)
    with pytest.raises(SkillUnsafeError, match="'scripts/deep/data' changed while"):
        await store.stage(skill, tenant="t")


async def test_a_file_or_folder_that_may_not_be_read_is_said(
    store: SkillStore, skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def denied(path: str, *args: int, **kwargs: int) -> int:
        if path == forbidden:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", denied)
    for forbidden in ("run.sh", "deep"):
        with pytest.raises(SkillUnsafeError, match=rf"{forbidden}'.* cannot be read: Permission denied"):
            await store.stage(skill, tenant="t")


async def test_a_copy_that_cannot_be_moved_is_an_error_of_the_store(
    store: SkillStore, skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(self: Path, target: Path) -> Path:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "rename", denied)
    with pytest.raises(EngineError, match="cannot be written"):
        await store.stage(skill, tenant="t")
    assert copies(store) == []


async def test_a_copy_is_named_by_what_it_holds(
    store: SkillStore, skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = (await store.stage(skill, tenant="t")).digest
    monkeypatch.setattr(skill_digest, "tree_digest", lambda *args: "0" * 64)
    assert (await SkillStore(store.mount_dir.parent).stage(skill, tenant="t")).digest == truth


async def test_a_full_disk_is_an_error_of_the_store_and_leaves_nothing(
    store: SkillStore, skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(EngineError, match="No space left"):
        await store.stage(skill, tenant="t")
    assert copies(store) == []


@pytest.mark.root
def test_the_store_of_another_user_is_refused(root: Path) -> None:
    root.mkdir(parents=True)
    os.chown(root, 12345, 12345)
    with pytest.raises(SettingsError, match="belongs to another user"):
        SkillStore(root)
    root.rmdir()


def test_a_store_that_cannot_be_made_is_a_settings_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="cannot be used"):
        SkillStore(tmp_path / "file" / "store")


def test_a_damaged_key_is_a_settings_error(store: SkillStore, root: Path) -> None:
    (root / "key").write_bytes(b"short")
    with pytest.raises(SettingsError, match="damaged"):
        SkillStore(root)


# Many at once.


async def test_many_tasks_that_stage_one_skill_share_one_copy(store: SkillStore, skill: Path) -> None:
    found = set()

    async def stage() -> None:
        found.add((await store.stage(skill, tenant="t")).box_path)

    async with anyio.create_task_group() as group:
        for _ in range(24):
            group.start_soon(stage)
    assert [path.name for path in found] == copies(store)


def test_many_processes_that_stage_one_skill_share_one_copy(root: Path, skill: Path) -> None:
    command = [sys.executable, "-c", STAGE_SOURCE, str(root), str(skill)]
    processes = [
        subprocess.Popen(command, cwd=PACKAGE_ROOT, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    answers = {line for process in processes for line in process.communicate()[0].split()}
    assert [process.returncode for process in processes] == [0] * 4
    store = SkillStore(root)
    assert [f"/skills/{name}" for name in copies(store)] == sorted(answers)
    assert len(answers) == 1


async def test_a_second_stager_finds_the_first_ones_copy(store: SkillStore, skill: Path, root: Path) -> None:
    staged = await store.stage(skill, tenant="t")
    directory = StoreDirectory(root)
    with directory.temporary() as temporary:
        (temporary / "other").touch()
        directory.publish(temporary, staged.box_path.name, 1)
    assert not (store.host_path(staged) / "other").exists()


@pytest.mark.root
def test_an_ordinary_user_can_stage_and_clean() -> None:
    with tempfile.TemporaryDirectory() as place:
        os.chown(place, 65534, 65534)
        skill = Path(place) / "skill" / "scripts"
        skill.mkdir(parents=True)
        (skill / "run.py").touch()
        command = [sys.executable, "-c", STAGE_SOURCE, f"{place}/store", str(skill.parent), "nobody"]
        answers = subprocess.run(command, cwd=PACKAGE_ROOT, stdout=subprocess.PIPE, text=True, check=True)
        assert answers.stdout.split()[-1] == "1"
        assert list(Path(place, "store", "temporary").iterdir()) == []


# Garbage.


def age(root: Path, seconds: float) -> None:
    for record in (root / "used").iterdir():
        size, used = record.read_text(encoding="ascii").split()
        record.write_text(f"{size} {float(used) - seconds}", encoding="ascii")
        os.utime(record, (time.time() - seconds,) * 2)


async def test_gc_removes_what_is_unused_and_tells_it(store: SkillStore, skill: Path, root: Path) -> None:
    staged = await store.stage(skill, tenant="t")
    age(root, 7200)
    assert (await store.gc(max_age=9000, max_bytes=10**9)).copies == ()
    assert (await store.gc(max_age=3600, max_bytes=10**9, in_use=[staged.box_path])).copies == ()
    removed = await store.gc(max_age=3600, max_bytes=10**9)
    assert removed.copies == (staged.box_path.name,)
    assert removed.bytes == staged.bytes
    assert copies(store) == []
    assert list((root / "used").iterdir()) == []


async def test_staging_again_counts_as_use(
    store: SkillStore, skill: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    await store.stage(skill, tenant="t")
    age(root, 7200)
    await store.stage(skill, tenant="t")
    assert (await store.gc(max_age=3600, max_bytes=0)).copies == ()


async def test_a_use_right_after_another_is_not_written_down_again(
    store: SkillStore, skill: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    staged = await store.stage(skill, tenant="t")
    record = root / "used" / staged.box_path.name
    # Told by what is written: two files that are written within one tick of the kernel may have one time.
    first = record.read_text()
    now, later = uptime(), uptime() + USE_SECONDS
    monkeypatch.setattr(store_directory, "uptime", lambda: now)
    assert await store.stage(skill, tenant="t") == staged
    assert record.read_text() == first
    monkeypatch.setattr(store_directory, "uptime", lambda: later)
    assert await store.stage(skill, tenant="t") == staged
    assert float(record.read_text().split()[1]) == later


@pytest.mark.parametrize("now", [91834.396899658, 0.0006, 31_536_000.123456789])
async def test_a_use_never_lies_ahead_of_now(
    store: SkillStore, skill: Path, root: Path, monkeypatch: pytest.MonkeyPatch, now: float
) -> None:
    for module in (store_directory, staging):
        monkeypatch.setattr(module, "uptime", lambda: now)
    staged = await store.stage(skill, tenant="t")
    # The time of day jumped, so that only the uptime tells that the copy is in use.
    os.utime(root / "used" / staged.box_path.name, (0, 0))
    assert (await store.gc(max_age=3600, max_bytes=0)).copies == ()


@pytest.mark.parametrize("gone", ["copy", "record", "both"])
async def test_a_copy_that_somebody_took_away_is_made_again_at_once(
    store: SkillStore, skill: Path, root: Path, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    settle(monkeypatch)
    staged = await store.stage(skill, tenant="t")
    if gone in {"copy", "both"}:
        shutil.rmtree(store.host_path(staged))
    if gone in {"record", "both"}:
        (root / "used" / staged.box_path.name).unlink()
    assert await store.stage(skill, tenant="t") == staged
    assert store.host_path(staged).is_dir()
    assert (root / "used" / staged.box_path.name).is_file()


async def test_gc_takes_nothing_of_what_was_staged_a_moment_ago(
    store: SkillStore, skill: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(monkeypatch)
    staged = await store.stage(skill, tenant="t")
    for _ in range(3):
        await store.stage(skill, tenant="t")
        assert (await SkillStore(root).gc(max_age=0, max_bytes=0)).copies == ()
        assert store.host_path(staged).is_dir()


async def test_a_copy_used_since_it_was_listed_stays(store: SkillStore, skill: Path, root: Path) -> None:
    staged = await store.stage(skill, tenant="t")
    age(root, 7200)
    directory = StoreDirectory(root)
    (listed,) = directory.copies()
    await store.stage(skill, tenant="t")
    assert not directory.evict(listed)
    assert store.host_path(staged).is_dir()


async def test_a_record_without_its_copy_goes_too(store: SkillStore, skill: Path, root: Path) -> None:
    staged = await store.stage(skill, tenant="t")
    shutil.rmtree(store.host_path(staged))
    (root / "used" / staged.box_path.name).write_text("nonsense")
    assert (await store.gc(max_age=-60, max_bytes=0)).bytes == 0
    assert list((root / "used").iterdir()) == []


async def test_what_a_killed_stager_left_goes_at_once_and_what_a_living_one_writes_stays(
    store: SkillStore, root: Path
) -> None:
    code = (
        "import os, sys; from pathlib import Path\n"
        "from sandbox_skills.workspace.store_directory import StoreDirectory, unfinished_copies\n"
        "with StoreDirectory(Path(sys.argv[1])).temporary() as copy:\n"
        "    (copy / 'scripts').mkdir(); (copy / 'scripts' / 'run.sh').touch(); (copy / 'scripts').chmod(0o555)\n"
        "    os._exit(0)"
    )
    await anyio.run_process([sys.executable, "-c", code, str(root)], cwd=PACKAGE_ROOT)
    assert len(unfinished_copies(root)) == 1
    with StoreDirectory(root).temporary() as copy:
        os.utime(copy, (0, 0))
        assert (await store.gc(max_age=1, max_bytes=0)).orphans == 1
        assert (copy.is_dir(), unfinished_copies(root)) == (True, [])
    assert list((root / "temporary").iterdir()) == []


async def test_a_clock_that_jumps_takes_no_copy_from_under_a_run(
    store: SkillStore, skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = await store.stage(skill, tenant="t")
    later = time.time() + 10 * 365 * 86_400
    monkeypatch.setattr(time, "time", lambda: later)
    assert (await store.gc(max_age=30 * 86_400, max_bytes=0)).copies == ()
    assert store.host_path(staged).is_dir()


async def test_a_store_that_cannot_be_cleaned_is_said(store: SkillStore, root: Path) -> None:
    (root / "used").rmdir()
    with pytest.raises(EngineError, match="cannot be cleaned"):
        await store.gc(max_age=1, max_bytes=0)


def test_a_key_made_by_two_at_once_is_one_key(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = SkillStore(root)
    # The second looked before the first had written.
    monkeypatch.setattr(Path, "exists", lambda self: False)
    assert SkillStore(root).marker() == first.marker()
    monkeypatch.undo()


def pin_of(skill: Path) -> Pin:
    with open_root(skill) as root_fd:
        content = skill_digest.tree_content(root_fd, scan(root_fd, StageLimits()))
    return Pin("my-skill", content.digest, content.files)


async def test_a_pinned_skill_is_staged_as_long_as_it_is_what_was_pinned(
    store: SkillStore, skill: Path
) -> None:
    pin = pin_of(skill)
    assert (await store.stage(skill, tenant="t", pin=pin)).digest == pin.digest


async def test_a_pinned_skill_that_changed_is_refused_with_the_names_of_its_files(
    store: SkillStore, skill: Path
) -> None:
    pin = pin_of(skill)
    (skill / "scripts" / "deep" / "data").unlink()
    (skill / "scripts" / "run.sh").chmod(0o640)
    (skill / "SKILL.md").write_text("other\n")
    (skill / "new").mkdir()
    with pytest.raises(SkillChangedError, match=r"scripts/run\.sh") as caught:
        await store.stage(skill, tenant="t", pin=pin)
    error = caught.value
    assert (error.added, error.removed) == (("new",), ("scripts/deep/data",))
    assert error.changed == ("SKILL.md", "scripts/run.sh")
    assert copies(store) == []


async def test_the_copy_is_what_is_compared_with_the_pin_and_not_what_was_read_before(
    store: SkillStore, skill: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin = pin_of(skill)
    (skill / "SKILL.md").write_text("other\n")
    monkeypatch.setattr(skill_digest.KnownDigests, "digest", lambda *args, **kwargs: pin.digest)
    with pytest.raises(SkillChangedError):
        await store.stage(skill, tenant="t", pin=pin)

"""The root of a box, the kernel's files in it and the devices: nothing of it can be changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.security.conftest import Box

pytestmark = [pytest.mark.anyio]

DEVICES = {
    *("core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout"),
    *("tty", "urandom", "zero"),
}
"""What a box may have in /dev; no disk, no memory, no console, no FUSE, no KVM."""

NAME_FILES = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/passwd", "/etc/ld.so.preload")


def making_files_everywhere() -> dict[str, list[str]]:
    import os
    from pathlib import Path

    from tests.security.inside import errno_of

    own = {"/workspace", "/tmp", "/dev/shm", "/dev/mqueue", "/proc"}
    answers: dict[str, list[str]] = {}
    for where, directories, _ in os.walk("/"):
        directories[:] = [name for name in directories if str(Path(where, name)) not in own]
        made = Path(where, "made-by-a-skill")
        answers.setdefault(errno_of(made.touch), []).append(where)
    return answers


def opening_every_file_for_writing() -> list[str]:
    import os
    from pathlib import Path
    from stat import S_ISREG

    from tests.security.inside import opened

    own = {"/workspace", "/tmp", "/dev/shm", "/dev/mqueue", "/proc"}
    open_for_writing = []
    for where, directories, names in os.walk("/"):
        directories[:] = [name for name in directories if str(Path(where, name)) not in own]
        paths = [Path(where, name) for name in names]
        files = [str(path) for path in paths if S_ISREG(path.lstat().st_mode)]
        open_for_writing += [path for path in files if opened(path) == "ok"]
    return open_for_writing


def opening_kernel_settings_for_writing() -> list[str]:
    import os
    from pathlib import Path

    from tests.security.inside import opened

    settings = [str(Path(where, name)) for where, _, names in os.walk("/proc/sys") for name in names]
    settings += [str(path) for path in Path("/proc").iterdir() if path.is_file()]
    harmless = {
        "/proc/keys",
        "/proc/timer_list",
        "/proc/kcore",
        "/proc/sched_debug",
    }  # where masked: /dev/null
    return [path for path in settings if path not in harmless and opened(path) == "ok"]


def reading_masked_files() -> dict[str, int]:
    from contextlib import suppress
    from pathlib import Path

    found = {}
    for name in (
        "kcore",
        "keys",
        "kmsg",
        "latency_stats",
        "sched_debug",
        "timer_list",
        "timer_stats",
        "interrupts",
    ):
        with suppress(OSError), Path("/proc", name).open("rb") as file:
            found[name] = len(file.read(64))
    for name in ("/proc/acpi", "/proc/scsi", "/sys/firmware"):
        with suppress(OSError):
            found[name] = len(list(Path(name).iterdir()))
    return found


def changing(paths: tuple[str, ...]) -> dict[str, list[str]]:
    import os
    from pathlib import Path

    from tests.security.inside import errno_of

    def answers(path: Path) -> list[str]:
        return [
            errno_of(lambda: path.write_text("127.0.0.1 example.com", encoding="utf-8")),
            errno_of(lambda: path.rename("/tmp/stolen")),
            errno_of(path.unlink),
            errno_of(lambda: path.chmod(0o777)),
            errno_of(lambda: os.utime(path)),
            errno_of(lambda: path.with_name("beside").symlink_to("/tmp")),
        ]

    return {path: answers(Path(path)) for path in paths}


def making_devices() -> dict[str, str]:
    import os
    import stat

    from tests.security.inside import errno_of

    null = os.makedev(1, 3)
    found = {
        "block": errno_of(lambda: os.mknod("/workspace/work/block", stat.S_IFBLK | 0o600, null)),
        "character": errno_of(lambda: os.mknod("/workspace/work/character", stat.S_IFCHR | 0o600, null)),
    }
    os.mkfifo("/workspace/work/fifo")
    os.mknod("/workspace/work/regular", stat.S_IFREG | 0o600)
    return found


def using_own_places() -> list[str]:
    from pathlib import Path

    places = ("/workspace", "/workspace/work", "/workspace/out", "/workspace/home", "/tmp", "/dev/shm")
    for place in places:
        file = Path(place, "mine")
        file.write_bytes(b"mine")
        file.rename(file.with_name("still-mine"))
    return [place for place in places if Path(place, "still-mine").read_bytes() == b"mine"]


async def test_no_file_can_be_made_outside_the_own_places(box: Box) -> None:
    before = box.outside.root_state()
    answers = await box.call(making_files_everywhere)
    assert set(answers) <= {"EROFS", "EACCES", "ENOENT"}
    assert {"/", "/etc", "/usr/bin", "/opt/sandbox-skills", "/var/tmp"} <= set(answers["EROFS"])
    assert len(answers["EROFS"]) > 100
    # Root's directory, on a mount that Docker has writable, and bubblewrap read-only.
    assert "/dev" in answers["EROFS" if box.engine == "bubblewrap" else "EACCES"]
    # Where the kernel keeps empty directories for mounts that a box has not.
    assert all(path.startswith("/sys/") for path in answers.get("ENOENT", []))
    assert box.outside.root_state() == before


async def test_no_file_can_be_opened_for_writing(box: Box) -> None:
    assert await box.call(opening_every_file_for_writing) == []


async def test_own_places_are_writable(box: Box) -> None:
    assert len(await box.call(using_own_places)) == 6


async def test_names_and_users_of_the_box_cannot_be_changed(box: Box) -> None:
    before = box.outside.root_state()
    answers = await box.call(changing, NAME_FILES)
    for path in NAME_FILES[:-1]:
        assert set(answers[path]) <= {"EROFS", "EBUSY", "EXDEV"}, path
        assert answers[path][0] == answers[path][3] == "EROFS", path
    assert set(answers["/etc/ld.so.preload"]) <= {"EROFS", "ENOENT", "EXDEV"}
    assert box.outside.root_state() == before


async def test_kernel_settings_cannot_be_opened_for_writing(box: Box) -> None:
    assert await box.call(opening_kernel_settings_for_writing) == []


async def test_what_tells_of_the_host_is_masked(box: Box) -> None:
    found = await box.call(reading_masked_files)
    assert found.pop("interrupts", 64) == 64  # the honest twin: /proc itself is there
    assert set(found.values()) <= {0}, found


async def test_devices_are_a_closed_set_and_none_can_be_made(box: Box) -> None:
    outcome = await box.shell("ls /dev")
    assert set(outcome.stdout.decode().split()) <= DEVICES
    assert await box.call(making_devices) == {"block": "EPERM", "character": "EPERM"}


async def test_the_devices_that_every_program_needs_work(box: Box) -> None:
    command = "head -c 8 /dev/zero > /dev/null && head -c 4 /dev/urandom | wc -c && echo x | cat /dev/stdin"
    assert (await box.shell(command)).stdout.split() == [b"4", b"x"]


async def test_nothing_can_be_mounted_over(box: Box) -> None:
    text = "for what in 'remount,rw /' 'remount,rw /skills' 'bind /tmp /etc'; do mount -o $what; done; true"
    outcome = await box.shell(text)
    assert outcome.stdout == b""
    assert (await box.shell("touch /usr/x")).stderr.endswith(b"Read-only file system\n")

"""What a program on a terminal of the runner's could do with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.spec import Command, Limits, TerminalSize

if TYPE_CHECKING:
    from tests.security.conftest import Box

pytestmark = [pytest.mark.anyio]

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


async def on_terminal(box: Box, command: Command) -> dict[str, object]:
    """Runs a program on a terminal; returns the JSON object that it prints at last."""
    async with box.sandbox.start(command, tty=TerminalSize(), limits=Limits(wall_seconds=15)) as process:
        outcome = await process.wait()
    assert outcome.ok, outcome
    found: dict[str, object] = json.loads(outcome.stdout.splitlines()[-1])
    return found


def tricks() -> dict[str, str]:
    """Tries to put input into the own terminal, to load a driver into it, and to reach what is behind it."""
    import fcntl
    import os

    from tests.security.inside import errno_of, opened

    return {
        "TIOCSTI": errno_of(lambda: fcntl.ioctl(0, 0x5412, b"x")),
        "TIOCLINUX": errno_of(lambda: fcntl.ioctl(0, 0x541C, b"\x03")),
        "TIOCSETD": errno_of(lambda: fcntl.ioctl(0, 0x5423, b"\x03\0\0\0")),
        "TIOCCONS": errno_of(lambda: fcntl.ioctl(0, 0x541D)),
        "control end": opened("/proc/1/fd", os.O_RDONLY),
        "console": opened("/dev/console", os.O_RDWR),
        "tty0": opened("/dev/tty0", os.O_RDWR),
    }


async def test_a_program_cannot_type_into_its_terminal_nor_reach_behind_it(box: Box) -> None:
    found = await on_terminal(box, box.program(tricks))
    for name in ("TIOCSTI", "TIOCLINUX", "TIOCSETD", "TIOCCONS"):
        assert found[name] in {"EPERM", "EACCES"}, found
    assert found["control end"] in {"EACCES", "EPERM"}
    assert {found["console"], found["tty0"]} <= {"ENOENT", "EACCES", "ENXIO", "EPERM"}


def descriptors() -> dict[str, list[str]]:
    """Returns what the program has open, and which terminals there are."""
    from contextlib import suppress
    from pathlib import Path

    opened: list[str] = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the loop itself
            opened.append(str(descriptor.readlink()))
    return {"open": opened, "terminals": sorted(path.name for path in Path("/dev/pts").iterdir())}


async def test_a_program_has_only_its_own_terminal(box: Box, neighbour: Box) -> None:
    async with neighbour.sandbox.start(Command(("sleep", "30"), env=ENVIRONMENT), tty=TerminalSize()):
        found = await on_terminal(box, box.program(descriptors))
    opened = found["open"]
    assert isinstance(opened, list)
    assert {path for path in opened if not str(path).startswith("/proc/")} == {"/dev/pts/0"}
    assert found["terminals"] == ["0", "ptmx"], "each box has a devpts of its own"


def steal() -> dict[str, str]:
    """Becomes a session leader without a terminal, and tries to take the one that is another session's."""
    import fcntl
    import os

    from tests.security.inside import errno_of

    reading, writing = os.pipe()
    if not os.fork():
        os.setsid()
        os.write(writing, errno_of(lambda: fcntl.ioctl(0, 0x540E, 1)).encode())
        os._exit(0)
    os.wait()
    return {"TIOCSCTTY": os.read(reading, 100).decode()}


async def test_a_terminal_cannot_be_stolen_from_its_session(box: Box) -> None:
    found = await on_terminal(box, box.program(steal))
    assert found == {"TIOCSCTTY": "EPERM"}

"""A run that is recorded has every protection of one that is not, and cannot reach what records it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.engines.box import ENVIRONMENT
from sandbox_skills.recording import Recording
from sandbox_skills.spec import Command, Exited, Limits, Stopped

if TYPE_CHECKING:
    from sandbox_skills.recording import Recorded
    from tests.security.conftest import Box

pytestmark = [pytest.mark.anyio]

PROBE = Path(__file__).with_name("seccomp_probe.py").read_text(encoding="utf-8")

EVERYTHING: frozenset[Recorded] = frozenset({"network", "files", "programs"})


def identity() -> dict[str, Any]:
    import os
    from pathlib import Path

    own = Path("/proc/self")
    lines = dict(line.split(":\t", 1) for line in (own / "status").read_text(encoding="ascii").splitlines())
    names = (
        "Uid",
        "Gid",
        "Groups",
        "CapInh",
        "CapPrm",
        "CapEff",
        "CapBnd",
        "CapAmb",
        "NoNewPrivs",
        "Seccomp",
    )
    found: dict[str, Any] = {name: lines[name] for name in names}
    found["limits"] = (own / "limits").read_text(encoding="ascii")
    found["cgroup"] = (own / "cgroup").read_text(encoding="ascii")
    found["namespaces"] = {path.name: str(path.readlink()) for path in (own / "ns").iterdir()}
    found["mounts"] = (own / "mounts").read_text(encoding="ascii")
    found["score"] = (own / "oom_score_adj").read_text(encoding="ascii")
    found["descriptors"] = sorted(path.name for path in (own / "fd").iterdir())
    found["parent"] = os.getppid()
    found["session leader"] = os.getsid(0) == os.getpid()
    return found


def attempts() -> dict[str, str]:
    import os
    import socket
    from contextlib import suppress
    from pathlib import Path

    from tests.security.inside import errno_of, libc, opened

    def connect(family: int, address: tuple[str, int]) -> None:
        with socket.socket(family, socket.SOCK_STREAM) as one:
            one.settimeout(2)
            one.connect(address)

    def listeners() -> str:
        held: list[str] = []
        for path in Path("/proc").glob("[0-9]*/fd/*"):
            with suppress(OSError):
                held.append(str(path.readlink()))
        return str([one for one in held if "seccomp" in one])

    return {
        "out by v4": errno_of(lambda: connect(socket.AF_INET, ("192.0.2.1", 80))),
        "out by v6": errno_of(lambda: connect(socket.AF_INET6, ("2001:db8::1", 80))),
        "the runner's memory": opened("/proc/1/mem", os.O_RDONLY),
        "the runner's descriptors": errno_of(lambda: list(Path("/proc/1/fd").iterdir())),
        "the root": opened("/etc/passwd"),
        "a skill": errno_of(lambda: Path("/skills/x").mkdir()),
        "a debugger": errno_of(lambda: libc("ptrace", 16, 1, 0, 0)),
        "listeners": listeners(),
    }


async def both(box: Box, command: Command) -> tuple[Any, Any]:
    """Returns what a program printed, unrecorded and recorded."""
    plain = await box.run(command)
    watched = await box.run(replace(command, record=EVERYTHING))
    for outcome in (plain, watched):
        assert outcome.ok, (outcome.ending, outcome.stderr)
    assert (plain.recording, type(watched.recording)) == (None, Recording)
    return json.loads(plain.stdout), json.loads(watched.stdout)


async def test_it_is_who_any_program_is(box: Box) -> None:
    plain, watched = await both(box, box.program(identity))
    assert watched == plain


async def test_what_is_refused_stays_refused_and_what_works_works(box: Box) -> None:
    plain, watched = await both(box, box.program(attempts))
    assert watched == plain
    assert plain["listeners"] == "[]"
    assert "ok" not in plain.values()


async def test_every_call_is_answered_as_without_a_recorder(box: Box) -> None:
    plain, watched = await both(box, Command(("python3", "-c", PROBE), env=ENVIRONMENT))
    assert watched == plain


async def test_it_is_killed_whole_and_the_next_run_works(box: Box) -> None:
    text = "trap '' TERM; for n in 1 2 3; do (setsid bash -c 'while :; do : < /etc/hostname; done' &); done; sleep 60"
    command = Command(("bash", "-c", text), env=ENVIRONMENT, record=EVERYTHING)
    outcome = await box.run(command, limits=Limits(wall_seconds=1))
    assert outcome.ending == Stopped("wall_time")
    left = await box.shell("ls -d /proc/[0-9]* | wc -l")
    assert int(left.stdout) <= 5


async def test_a_program_that_filters_itself_hides_nothing_that_happens(box: Box) -> None:
    """A filter of its own can only refuse: what it lets pass is still seen, and what it stops never happened."""
    outcome = await box.run(replace(box.program(filtering), record=EVERYTHING))
    assert outcome.ending == Exited(0), outcome.stderr
    answers = json.loads(outcome.stdout)
    assert answers == {"listener": "EBUSY", "allowed": "ENETUNREACH", "refused": "EACCES"}
    assert outcome.recording is not None
    assert [one.what for one in outcome.recording.of("connect")] == ["192.0.2.1"]


def filtering() -> dict[str, str]:
    import ctypes
    import os
    import platform
    import socket
    import struct

    from tests.security.inside import errno_of

    libc = ctypes.CDLL(None, use_errno=True)
    x86 = platform.machine() == "x86_64"
    connect, seccomp = (42, 317) if x86 else (203, 277)

    def install(answer: int, flags: int) -> None:
        rows = ((0x20, 0, 0, 0), (0x15, 0, 1, connect), (0x06, 0, 0, answer), (0x06, 0, 0, 0x7FFF0000))
        code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows), 32)
        head = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(code)), 16)
        if libc.syscall(seccomp, 1, flags, head) == -1:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def connecting(address: str) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
            one.connect((address, 80))

    found = {"listener": errno_of(lambda: install(0x7FC00000, 8))}
    install(0x7FFF0000, 0)
    found["allowed"] = errno_of(lambda: connecting("192.0.2.1"))
    install(0x00050000 | 13, 0)
    found["refused"] = errno_of(lambda: connecting("192.0.2.2"))
    return found

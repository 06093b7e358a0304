"""Programs on a terminal of the runner's, outside any container."""

from __future__ import annotations

import errno
import os
import re
import sys
import time
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.wire import MAX_DATA, STDIN_WINDOW, Kind

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from tests.unit.runner.conftest import Finished, Host

MIB = 1024 * 1024

GLIBC_SIGNALS = 0b11 << 31
"""Signals 32 and 33, which are the C library's own."""


class Talk:
    """A program on a terminal, and what it has said so far."""

    def __init__(self, host: Host, *argv: str, tty: tuple[int, int] = (24, 80), **options: float) -> None:
        self.host = host
        wall, output = options.get("wall", 10.0), int(options.get("output", 1 << 40))
        self.ref = host.start(*argv, stdin="pipe", stream=True, tty=tty, wall=wall, output=output)
        self.said = b""

    def type(self, text: bytes) -> None:
        self.host.send(Kind.STDIN, self.ref, text)

    def until(self, pattern: bytes) -> re.Match[bytes]:
        """Waits until what came since the last match matches; drops it."""
        while not (match := re.search(pattern, self.said)):
            frame = self.host.next(self.ref)
            assert frame.kind is Kind.STDOUT, (frame, self.said)
            self.said += frame.payload
        self.said = self.said[match.end() :]
        return match

    def end(self) -> Finished:
        done = self.host.finish(self.ref)
        return type(done)(done.ended, self.said + done.stdout, done.stderr, done.kinds)

    def kill(self) -> Finished:
        self.host.send(Kind.KILL, self.ref, {"reason": "cancelled"})
        return self.end()


def on_terminal(host: Host, text: str) -> Finished:
    return Talk(host, "bash", "-c", text).end()


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123  # as short as it gets
            return file.read().rpartition(b")")[2].split()[0] not in {b"Z", b"X"}
    except FileNotFoundError:
        return False


def test_the_terminal_controls_the_session_and_is_all_three_streams(host: Host) -> None:
    text = (
        "for n in 0 1 2; do test -t $n && echo $n; done; echo yes >/dev/tty; ps -o sid=,tpgid= -p $$; echo $$"
    )
    done = on_terminal(host, text)
    lines = done.stdout.split(b"\r\n")
    assert (done.ending, lines[:4], done.stderr) == ((0, None, None), [b"0", b"1", b"2", b"yes"], b"")
    assert lines[4].split() == [lines[5]] * 2


def test_it_has_only_three_descriptors_and_default_signals(host: Host) -> None:
    done = on_terminal(host, "ls /proc/$$/fd; grep -E 'SigIgn|SigBlk' /proc/$$/status")
    descriptors = {int(word) for word in done.stdout.split() if word.isdigit() and len(word) < 4}
    assert descriptors - {255} == {0, 1, 2}  # bash keeps its script at 255
    for name in (b"SigIgn", b"SigBlk"):
        match = re.search(name + rb":\s+(\w+)", done.stdout)
        assert match is not None
        assert int(match[1], 16) & ~GLIBC_SIGNALS & ~0x10000 == 0, (
            name
        )  # bash itself waits with SIGCHLD blocked


def test_environment_directory_and_path_are_the_orders(host: Host) -> None:
    (host.workspace / "bin").mkdir()
    program = host.workspace / "bin/mine"
    program.write_text("#!/bin/sh\npwd; echo $A\n")
    program.chmod(0o755)
    env = {"PATH": "/usr/bin:../bin:/bin", "A": "grüße"}
    ref = host.start("mine", stdin="pipe", tty=(24, 80), cwd=str(host.workspace / "bin"), env=env)
    assert host.finish(ref).stdout.decode() == f"{host.workspace}/bin\r\ngrüße\r\n"
    assert host.shell("pwd").stdout.decode() == f"{host.workspace}\n", "the runner is where it was"


@pytest.mark.parametrize(
    ("argv", "cwd", "code", "message"),
    [
        (["no-such-program"], None, 127, b"no-such-program: command not found\n"),
        (["./no-such"], None, 127, b"./no-such: No such file or directory\n"),
        (["/etc/passwd"], None, 126, b"/etc/passwd: Permission denied\n"),
        (["true"], "/no/such", 126, b"/no/such: No such file or directory\n"),
    ],
)
def test_what_cannot_start_ends_as_in_a_shell_and_leaves_nothing(
    host: Host, argv: list[str], cwd: str | None, code: int, message: bytes
) -> None:
    host.run("true")
    before = host.descriptors()
    for _ in range(3):
        ref = host.start(*argv, stdin="pipe", tty=(24, 80), cwd=cwd or str(host.workspace))
        done = host.finish(ref)
        assert (done.ending, done.stderr) == ((code, None, None), message)
    assert host.descriptors() == before


def test_one_terminal_after_another_leaves_no_descriptor(host: Host) -> None:
    host.run("true")
    before = host.descriptors()
    for _ in range(10):
        on_terminal(host, "true")
    assert host.descriptors() == before


def test_a_dialogue_has_an_echo(host: Host) -> None:
    talk = Talk(host, "bash", "-c", 'read -p "Name: " name; echo "hello $name"')
    talk.until(rb"Name: $")
    talk.type(b"World\r")
    talk.until(rb"^World\r\nhello World\r\n$")
    assert talk.end().ending == (0, None, None)


def test_the_erase_key_takes_a_character(host: Host) -> None:
    talk = Talk(host, "bash", "-c", "echo ready; read x; echo $x")
    talk.until(rb"ready\r\n")
    talk.type("gr\u00fc\x7f\n".encode())
    assert talk.end().stdout.endswith(b"\r\ngr\r\n")


def test_a_password_has_none(host: Host) -> None:
    talk = Talk(host, "bash", "-c", 'read -s -p "Password: " word; echo; echo ${#word}')
    talk.until(rb"Password: $")
    talk.type(b"secret\n")
    assert talk.end().stdout == b"\r\n6\r\n"


def test_an_interpreter_answers(host: Host) -> None:
    talk = Talk(host, sys.executable, "-I", "-q", "-c", "import code; code.interact(banner='')")
    talk.until(rb">>> $")
    talk.type(b"6 * 7\n")
    talk.until(rb"\r\n42\r\n>>> $")
    talk.type(b"\x04")
    assert talk.end().ending == (0, None, None)


def test_an_interactive_shell_has_job_control_and_an_interrupt_key(host: Host) -> None:
    talk = Talk(host, "bash", "--norc", "--noprofile", "-i")
    talk.until(rb"[#$] $")
    assert b"no job control" not in talk.said
    talk.type(b"sleep 60\n")
    talk.until(rb"sleep 60\r\n")
    host.until(lambda: "sleep 60" in host.programs())
    talk.type(b"\x03")
    talk.until(rb"[#$] $")
    talk.type(b"sleep 61 &\n")
    talk.until(rb"\[1\] \d+\r\n")
    talk.type(b"jobs; exit 3\n")
    talk.until(rb"Running +sleep 61")
    assert talk.end().ending == (3, None, None)


def test_the_size_is_what_was_asked_and_changes(host: Host) -> None:
    text = "stty size; trap 'stty size; exit' WINCH; echo ready; sleep 60 & wait"
    talk = Talk(host, "bash", "-c", text, tty=(50, 132))
    talk.until(rb"50 132\r\nready\r\n")
    host.until(lambda: "sleep 60" in host.programs())
    host.send(Kind.RESIZE, talk.ref, {"rows": 30, "cols": 100})
    talk.until(rb"30 100\r\n")
    assert talk.end().ending == (0, None, None)


def test_closing_the_input_is_the_end_of_file_key(host: Host) -> None:
    for typed, expected in ((b"", b""), (b"a line\n", b"a line"), (b"no line", b"no line")):
        talk = Talk(host, "bash", "-c", "stty -echo; echo ready; cat")
        talk.until(rb"ready\r\n")
        talk.type(typed)
        host.send(Kind.CLOSE_STDIN, talk.ref)
        done = talk.end()
        assert (done.ending, done.stdout.strip()) == ((0, None, None), expected)


def test_input_of_many_lines_arrives_whole(host: Host) -> None:
    lines = b"".join(b"%06d\n" % n for n in range(20_000))
    talk = Talk(host, "bash", "-c", "stty -echo; echo ready; sleep 0.1; md5sum")
    talk.until(rb"ready\r\n")
    host.feed(talk.ref, lines)
    host.send(Kind.CLOSE_STDIN, talk.ref)
    import hashlib

    assert talk.end().stdout.split()[0].decode() == hashlib.md5(lines).hexdigest()


def test_the_last_words_are_not_lost(host: Host) -> None:
    for _ in range(20):
        done = on_terminal(host, "seq 3000")
        assert done.stdout.endswith(b"\r\n2999\r\n3000\r\n")
        assert len(done.stdout) == done.ended["stdout_bytes"] == sum(len(str(n)) + 2 for n in range(1, 3001))


def test_a_terminal_that_was_closed_can_be_opened_again(host: Host) -> None:
    done = on_terminal(host, "exec </dev/null >/dev/null 2>&1; sleep 0.1; echo back >/dev/tty")
    assert (done.stdout, done.ending) == (b"back\r\n", (0, None, None))


def test_a_flood_stops_at_its_ceiling(host: Host) -> None:
    done = Talk(host, "yes", "0123456789012345678901234567890123456789", output=20 * MIB).end()
    assert done.ended["stopped"] == "output"
    assert len(done.stdout) == 20 * MIB


def test_a_slow_host_stops_a_flood_without_loss(host: Host) -> None:
    talk = Talk(host, "bash", "-c", "head -c 5000000 /dev/zero | tr '\\0' x")
    time.sleep(0.3)
    assert len(talk.end().stdout) == 5_000_000


@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_a_signal_reaches_the_foreground_and_the_root(host: Host, name: str) -> None:
    talk = Talk(
        host,
        "bash",
        "-c",
        f"trap 'echo root; exit' {name}; (trap 'echo child; exit' {name}; echo up; sleep 9 & wait) & wait",
    )
    talk.until(rb"up\r\n")
    host.send(Kind.SIGNAL, talk.ref, {"signal": name})
    said = talk.end().stdout
    assert b"root" in said


def test_a_signal_reaches_a_job_of_an_interactive_shell(host: Host) -> None:
    talk = Talk(host, "bash", "--norc", "-i")
    talk.until(rb"[#$] $")
    talk.type(b"sleep 60\n")
    talk.until(rb"sleep 60\r\n")
    host.until(lambda: "sleep 60" in host.programs())
    host.send(Kind.SIGNAL, talk.ref, {"signal": "TERM"})
    talk.until(rb"[#$] $")
    talk.kill()


def test_a_signal_needs_no_terminal(host: Host) -> None:
    ref = host.start("sleep", "60", stdin="pipe")
    host.send(Kind.SIGNAL, ref, {"signal": "TERM"})
    assert host.finish(ref).ending == (None, 15, None)


def test_a_signal_of_another_name_is_refused(host: Host) -> None:
    ref = host.start("sleep", "60", stdin="pipe")
    host.send(Kind.SIGNAL, ref, {"signal": "KILL"})
    with pytest.raises(Exception, match="bad_request"):
        host.next(ref)
    host.send(Kind.KILL, ref, {"reason": "cancelled"})
    host.finish(ref)


ORPHAN = """
trap '' HUP TERM INT
(trap '' HUP TERM INT; setsid sleep 300 & echo $! > orphan; sleep 301) &
disown
echo $! > mark
until [ -s orphan ]; do sleep 0.01; done
"""


@pytest.mark.parametrize("end", ["exit 5", "while :; do sleep 1; done"])
def test_what_ignores_hang_up_and_holds_the_terminal_dies_with_the_run(host: Host, end: str) -> None:
    talk = Talk(host, "bash", "-c", ORPHAN + end)
    pids = [int(_written(host.wait_for(name))) for name in ("orphan", "mark")]
    done = talk.end() if end.startswith("exit") else talk.kill()
    assert done.ended["clean"] is True
    assert done.ending == ((5, None, None) if end.startswith("exit") else (None, 9, "cancelled"))
    assert not any(alive(pid) for pid in pids)
    assert host.run("true").ending == (0, None, None)


def _written(path: Path) -> str:
    while not (text := path.read_text()).endswith("\n"):
        time.sleep(0.005)
    return text


def test_the_wall_limit_holds(host: Host) -> None:
    done = Talk(host, "cat", wall=0.3).end()
    assert done.ending == (None, 9, "wall_time")


def test_two_terminals_and_a_run_are_kept_apart(host: Host) -> None:
    talks = [Talk(host, "bash", "-c", f"read x; echo {n}-$x; exit {n}") for n in range(2)]
    assert host.shell("echo alone; (setsid sleep 60 &)").stdout == b"alone\n"
    for n, talk in enumerate(talks):
        talk.type(b"in%d\n" % n)
        done = talk.end()
        assert (done.ending, done.stdout) == ((n, None, None), b"in%d\r\n%d-in%d\r\n" % (n, n, n))


def test_a_host_that_goes_ends_what_is_on_a_terminal(host: Host) -> None:
    Talk(host, "bash", "-c", ORPHAN + "sleep 60")
    pids = [int(_written(host.wait_for(name))) for name in ("orphan", "mark")]
    assert host.close() == 0
    assert not any(alive(pid) for pid in pids)


def test_what_is_typed_and_not_read_does_not_hold_up_a_kill(host: Host) -> None:
    talk = Talk(host, "sleep", "60")
    for _ in range(STDIN_WINDOW // MAX_DATA):
        talk.type(b"y\n" * (MAX_DATA // 2))
    assert talk.kill().ending == (None, 9, "cancelled")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.ENOENT])
def test_a_box_that_has_no_terminal_left_says_so_and_blames_nothing_else(
    runner_module: ModuleType, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def none_left() -> tuple[int, int]:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(runner_module.os, "openpty", none_left)
    with pytest.raises(runner_module.Refused, match="no terminal can be opened") as caught:
        runner_module.Terminal((24, 80))
    assert caught.value.code == "failed"


def test_a_terminal_that_has_no_name_leaves_no_descriptor(
    runner_module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = os.openpty()

    def nameless(_descriptor: int) -> str:
        raise OSError(errno.ENODEV, "no such device")

    monkeypatch.setattr(runner_module.os, "openpty", lambda: pair)
    monkeypatch.setattr(runner_module.os, "ttyname", nameless)
    with pytest.raises(OSError, match="no such device"):
        runner_module.Terminal((24, 80))
    for descriptor in pair:
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(descriptor)

from __future__ import annotations

import json
import re
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.wire import MAX_DATA, STDIN_WINDOW, Kind

if TYPE_CHECKING:
    from tests.unit.runner.conftest import Host

MIB = 1024 * 1024

GLIBC_SIGNALS = 0b11 << 31
"""32 and 33 are the C library's own: whoever started the tests may ignore them, and no program can change that."""


def peak(host: Host) -> int:
    """Returns the most memory the runner has had, in bytes."""
    status = Path(f"/proc/{host.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_an_exit_code_is_told(host: Host, code: int) -> None:
    assert host.shell(f"exit {code}").ending == (code, None, None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGSEGV, signal.SIGKILL, signal.SIGRTMAX])
def test_a_signal_is_told(host: Host, number: signal.Signals) -> None:
    assert host.shell(f"kill -{int(number)} $$").ending == (None, number, None)


def test_the_order_of_frames_is_output_ended(host: Host) -> None:
    assert host.run("echo", "hi").kinds == [Kind.STDOUT, Kind.ENDED]


def test_the_places_of_a_run_are_there_when_it_starts(host: Host) -> None:
    places = {"dirs": ["runs/1", "deep/er"], "links": [["skills/x", "/skills/abc"], ["deep/link", "er"]]}
    for _ in range(2):
        done = host.run("sh", "-c", "cd deep/er; readlink ../../skills/x ../link", places=places)
        assert (done.stdout, done.ended["unprepared"]) == (b"/skills/abc\ner\n", None)
        assert (host.workspace / "runs/1").is_dir()
        shutil.rmtree(host.workspace / "deep")


@pytest.mark.parametrize("places", [{"dirs": ["a/b"], "links": []}, {"dirs": [], "links": [["a/b", "x"]]}])
def test_a_place_behind_a_link_is_not_made_and_the_run_tells_it(
    host: Host, places: dict[str, object]
) -> None:
    outside = host.workspace.parent / "outside"
    outside.mkdir()
    (host.workspace / "a").symlink_to(outside)
    done = host.run("echo", "hi", places=places)
    assert (done.stdout, done.ended["unprepared"]) == (b"hi\n", "a is a link")
    (outside / "b").symlink_to("x")
    assert host.run("echo", "hi", places=places).ended["unprepared"] == "a is a link"
    assert [path.name for path in outside.iterdir()] == ["b"]


def test_places_of_a_command_that_cannot_start_are_told_too(host: Host) -> None:
    (host.workspace / "a").write_text("a file")
    done = host.run("missing", places={"dirs": ["a/b"], "links": []})
    assert (done.ended["exit"], done.ended["unprepared"]) == (127, "Not a directory")


LOOKED = [
    ("mkdir -p out", True),
    ("rm -rf out", True),
    ("echo hi > out/a", False),
    ("mkdir out/below", False),
    ("touch out/.hidden", False),
    ("rm -rf out; echo a file > out", False),
    ("rm -rf out; mkdir empty; ln -s empty out", False),
]


@pytest.mark.parametrize(("script", "empty"), LOOKED)
def test_whether_a_directory_holds_nothing_is_told_where_that_is_asked(
    host: Host, script: str, *, empty: bool
) -> None:
    (host.workspace / "out").mkdir(exist_ok=True)
    assert host.shell(script, look_into="out").ended["empty"] is empty
    assert "empty" not in host.shell("true").ended


def test_a_command_that_cannot_start_tells_what_lies_there_too(host: Host) -> None:
    assert host.run("missing", look_into="out").ended["empty"] is True
    (host.workspace / "out").mkdir(exist_ok=True)
    (host.workspace / "out/a").touch()
    assert host.run("missing", look_into="out").ended["empty"] is False


def test_nobody_looks_outside_the_workspace(host: Host) -> None:
    assert [host.run("true", look_into=path).ended["empty"] for path in ("../x", "/etc", ".")] == [False] * 3


def test_both_streams_come_apart(host: Host) -> None:
    done = host.shell("echo out; echo err >&2")
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")
    assert (done.ended["stdout_bytes"], done.ended["stderr_bytes"]) == (4, 4)


def test_what_was_used_is_told(host: Host) -> None:
    ended = host.python("import time\nwhile time.process_time() < 0.3: pass").ended
    assert 0.3 <= ended["cpu"] < 3
    assert ended["wall"] >= 0.3
    assert ended["max_rss"] > MIB
    assert ended["clean"] is True
    assert (ended["disk_full"], ended["inodes_full"]) == (False, False)


def test_the_cpu_time_of_grandchildren_counts(host: Host) -> None:
    spin = "python3 -c 'import time\nwhile time.process_time() < 0.3: pass'"
    assert host.shell(f"{spin}; true").ended["cpu"] >= 0.3


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["no-such-command"], 127, "no-such-command: command not found\n"),
        (["./missing"], 127, "./missing: No such file or directory\n"),
        (["./plain"], 126, "./plain: Permission denied\n"),
        (["./text"], 126, "./text: Exec format error\n"),
        (["./orphan"], 127, "./orphan: cannot execute: required file not found\n"),
        (["/"], 126, "/: Permission denied\n"),
    ],
)
def test_what_cannot_be_executed_ends_as_in_a_shell(
    host: Host, argv: list[str], code: int, message: str
) -> None:
    for name, mode, text in (
        ("plain", 0o644, "x"),
        ("text", 0o755, "echo"),
        ("orphan", 0o755, "#!/no/such\n"),
    ):
        (host.workspace / name).write_text(text)
        (host.workspace / name).chmod(mode)
    done = host.run(*argv)
    assert (done.ending, done.stderr.decode()) == ((code, None, None), message)
    assert done.kinds == [Kind.STDERR, Kind.ENDED]


def test_a_missing_directory_is_told(host: Host) -> None:
    done = host.run("true", cwd=str(host.workspace / "gone"))
    assert done.ending == (126, None, None)
    assert done.stderr.endswith(b"/gone: No such file or directory\n")


def test_the_path_of_the_given_environment_counts(host: Host) -> None:
    program = host.workspace / "bin" / "mine"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho found")
    program.chmod(0o755)
    assert host.run("mine", env={"PATH": str(program.parent)}).stdout == b"found\n"
    assert host.run("mine", env={}).ending[0] == 127


def test_the_environment_is_what_was_given_and_no_more(host: Host) -> None:
    done = host.run("/usr/bin/env", "-0", env={"A": "1", "Z": "ä=b"})
    assert sorted(done.stdout.split(b"\0")) == [b"", b"A=1", "Z=ä=b".encode()]


def test_it_runs_in_the_given_directory(host: Host) -> None:
    assert host.run("pwd", cwd=str(host.workspace / "work")).stdout.strip().endswith(b"/work")


def test_arguments_arrive_byte_for_byte(host: Host) -> None:
    odd = ["", " ", "a\nb", "ä", "\udcff", "$(id)", "*"]
    done = host.python("import sys,json; print(json.dumps(sys.argv[1:]))", *odd)
    assert json.loads(done.stdout) == odd


def test_a_run_has_a_session_of_its_own_and_default_signals(host: Host) -> None:
    text = "import os,signal as s; print(os.getsid(0)==os.getpid(), s.getsignal(s.SIGTERM)==s.SIG_DFL)"
    assert host.python(text).stdout == b"True True\n"
    ignored = host.shell("grep SigIgn /proc/$$/status").stdout.split()[1]
    assert int(ignored, 16) & ~GLIBC_SIGNALS == 0


def test_a_program_is_the_first_to_go_when_memory_ends(host: Host) -> None:
    assert host.run("sh", "-c", "(cat /proc/self/oom_score_adj; :)").stdout == b"1000\n"
    assert host.run("sh", "-c", f"sleep 0.1; cat /proc/{host.process.pid}/oom_score_adj").stdout == b"0\n"


def test_standard_input_arrives_whole(host: Host) -> None:
    data = bytes(range(256)) * 4096 * 5
    done = host.run("sha256sum", stdin=data)
    import hashlib

    assert done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_no_standard_input_is_an_empty_one(host: Host) -> None:
    assert host.run("cat").ending == (0, None, None)
    assert host.run("cat", stdin=b"").ending == (0, None, None)


def test_standard_input_nobody_reads_is_no_error(host: Host) -> None:
    data = b"x" * (3 * MIB)
    assert host.run("true", stdin=data).ending == (0, None, None)
    assert host.shell("exec <&-; sleep 0.2", stdin=data).ending == (0, None, None)
    assert host.shell("head -c 5", stdin=data).stdout == b"xxxxx"


def test_it_answers_while_a_program_does_not_read(host: Host) -> None:
    ref = host.start("sleep", "10", stdin="pipe")
    for _ in range(STDIN_WINDOW // MAX_DATA):
        host.send(Kind.STDIN, ref, b"x" * MAX_DATA)
    host.send(Kind.KILL, ref, {"reason": "cancelled"})
    assert host.finish(ref).ending == (None, 9, "cancelled")


def test_input_is_granted_as_the_program_takes_it(host: Host) -> None:
    ref = host.start("sh", "-c", "head -c 500000 >/dev/null; read x </dev/null; sleep 10", stdin="pipe")
    for _ in range(STDIN_WINDOW // MAX_DATA):
        host.send(Kind.STDIN, ref, b"x" * MAX_DATA)
    granted = host.next(ref)
    assert granted.kind is Kind.STDIN_CREDIT
    assert STDIN_WINDOW // 4 <= granted.json()["bytes"] < STDIN_WINDOW
    host.send(Kind.KILL, ref, {"reason": "cancelled"})
    assert host.finish(ref).ending == (None, 9, "cancelled")


def test_a_short_input_needs_no_credit(host: Host) -> None:
    assert Kind.STDIN_CREDIT not in host.run("cat", stdin=b"x" * 200_000).kinds


def test_a_closed_input_is_told_once_it_is_written_to(host: Host) -> None:
    ref = host.start("sh", "-c", "exec <&-; touch mark; sleep 10", stdin="pipe")
    host.wait_for("mark")
    for _ in range(STDIN_WINDOW // MAX_DATA):
        host.send(Kind.STDIN, ref, b"x" * MAX_DATA)
    assert host.next(ref).kind is Kind.STDIN_CLOSED
    host.send(Kind.STDIN, ref, b"x")
    host.send(Kind.KILL, ref, {"reason": "cancelled"})
    assert Kind.STDIN_CLOSED not in host.finish(ref).kinds


def test_more_input_than_was_granted_ends_the_runner(host: Host) -> None:
    ref = host.start("sleep", "10", stdin="pipe")
    for _ in range(STDIN_WINDOW // MAX_DATA + 1):
        host.send(Kind.STDIN, ref, b"x" * MAX_DATA)
    assert host.process.wait(10) == 3


def test_input_can_be_a_dialogue(host: Host) -> None:
    ref = host.start("sh", "-c", 'read a; echo "got $a"; read b; echo "got $b"', stdin="pipe", stream=True)
    for word in (b"one", b"two"):
        host.send(Kind.STDIN, ref, word + b"\n")
        assert host.next(ref).payload == b"got " + word + b"\n"
    assert host.finish(ref).ending == (0, None, None)


def test_the_head_of_each_stream_is_kept_and_the_rest_counted(host: Host) -> None:
    done = host.shell("head -c 5000 /dev/zero; head -c 7000 /dev/zero >&2", stdout=1000, stderr=0)
    assert (len(done.stdout), len(done.stderr)) == (1000, 0)
    assert (done.ended["stdout_bytes"], done.ended["stderr_bytes"]) == (5000, 7000)
    assert done.ending == (0, None, None)


def test_a_gigabyte_is_drained_in_little_memory(host: Host) -> None:
    before = peak(host)
    done = host.run("head", "-c", str(1024 * MIB), "/dev/zero", wall=18.0)
    assert (done.ending, done.ended["stdout_bytes"]) == ((0, None, None), 1024 * MIB)
    assert peak(host) - before < 4 * MIB


def test_a_slow_host_slows_the_program_and_fills_no_memory(host: Host) -> None:
    before = peak(host)
    ref = host.start("head", "-c", str(64 * MIB), "/dev/zero", stream=True)
    import time

    time.sleep(0.3)
    assert peak(host) - before < 8 * MIB
    done = host.finish(ref)
    assert (len(done.stdout), done.ending) == (64 * MIB, (0, None, None))


def test_output_over_its_ceiling_stops_the_run(host: Host) -> None:
    done = host.run("cat", "/dev/zero", output=3 * MIB)
    assert done.ending == (None, 9, "output")
    assert done.ended["stdout_bytes"] > 3 * MIB


def test_no_more_than_the_ceiling_is_streamed(host: Host) -> None:
    done = host.shell("cat /dev/zero & cat /dev/zero >&2", output=3 * MIB, stream=True)
    assert done.ended["stopped"] == "output"
    assert len(done.stdout) + len(done.stderr) == 3 * MIB


def test_a_ceiling_is_the_same_however_fast_the_program_ends(host: Host) -> None:
    assert host.shell("head -c 100 /dev/zero", output=100).ending == (0, None, None)
    assert host.shell("head -c 101 /dev/zero", output=100).ended["stopped"] == "output"


def test_time_over_the_wall_limit_stops_the_run(host: Host) -> None:
    done = host.run("sleep", "10", wall=0.2)
    assert done.ending == (None, 9, "wall_time")
    assert 0.2 <= done.ended["wall"] < 8


def test_cpu_time_over_its_limit_stops_the_run(host: Host) -> None:
    done = host.shell("while :; do :; done & while :; do :; done", cpu=0.5)
    assert done.ended["stopped"] == "cpu_time"
    assert 0.4 < done.ended["cpu"] < 5  # of the twenty that two such loops would use by their wall limit


def test_cpu_time_of_children_that_have_ended_counts(host: Host) -> None:
    spin = "python3 -c 'import time\nwhile time.process_time() < 0.15: pass'"
    assert host.shell(f"while :; do {spin}; done", cpu=0.4).ended["stopped"] == "cpu_time"


def test_sleeping_costs_the_runner_nothing(host: Host) -> None:
    def spent() -> int:
        fields = Path(f"/proc/{host.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    before = spent()
    assert host.run("sleep", "2", cpu=5.0).ending == (0, None, None)
    assert spent() - before <= 4  # of 200 ticks


def test_one_run_after_another_leaves_no_descriptor(host: Host) -> None:
    host.run("true")
    before = host.descriptors()
    for _ in range(20):
        host.run("true", stdin=b"x")
        host.run("no-such-command")
    assert host.descriptors() == before

"""What the recorder sees of a run, and that a recorded run is otherwise like any other."""

from __future__ import annotations

import platform
import struct
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.engines.recorded import recording
from sandbox_skills.engines.seccomp.numbers import NUMBERS
from sandbox_skills.engines.wire import MAX_REPLY_JSON
from tests.programs import RECORDER
from tests.unit.engines.bpf_machine import verdict
from tests.unit.runner.conftest import SYSTEM_PYTHON, Refusal

if TYPE_CHECKING:
    from types import ModuleType

    from sandbox_skills.recording import Recording
    from tests.unit.runner.conftest import Finished, Host, StartHost

EVERYTHING = ("network", "files", "programs")

X86, ARM = 0xC000003E, 0xC00000B7

CONNECT = """
import socket, sys
for host, port in (("192.0.2.1", 80), ("127.0.0.1", 9), ("2001:db8::1", 443)):
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        pass
"""


def seen(done: Finished) -> Recording:
    return recording(done.ended["record"])


def tried(done: Finished, *kinds: str) -> list[tuple[str, str]]:
    return [(one.what, one.detail) for one in seen(done).events if one.kind in kinds]


# What is seen


def test_programs_are_told_with_their_command_lines(host: Host) -> None:
    done = host.shell("true; /bin/echo a b | cat; no-such-program-here", record=EVERYTHING)
    found = tried(done, "program")
    assert sorted(line for _, line in found) == ["/bin/echo a b", "cat"]
    assert all(path.startswith("/") for path, _ in found)


def test_files_that_are_made_changed_or_removed_are_told(host: Host) -> None:
    done = host.shell(
        "echo a > a; mkdir b; mv a b/c; ln -s x l; rm l; cd b; : >> d; rm d; echo no > /proc/version",
        record=["files"],
    )
    here = host.workspace
    found = {path for path, _ in tried(done, "write")}
    assert {f"{here}/a", f"{here}/b", f"{here}/b/c", f"{here}/l", f"{here}/b/d", "/proc/version"} <= found
    assert all(path.startswith((f"{here}/", "/proc/version")) for path in found)
    assert tried(done, "program", "connect") == []


def test_a_link_is_told_as_where_it_leads(host: Host) -> None:
    (host.workspace / "real").mkdir()
    (host.workspace / "link").symlink_to(host.workspace / "real")
    done = host.shell("echo a > link/file; cat link/file", record=["files"])
    assert (f"{host.workspace}/real/file", "") in tried(done, "write")
    assert (f"{host.workspace}/real/file", "") in tried(done, "read")


def test_reads_of_the_skill_and_of_libraries_are_not_told(host: Host) -> None:
    (host.skills / "one").mkdir()
    (host.skills / "one" / "data").write_text("x")
    (host.workspace / "own").write_text("x")
    done = host.shell(f"cat {host.skills}/one/data own missing; cat < own >/dev/null", record=["files"])
    found = {path for path, _ in tried(done, "read")}
    assert f"{host.workspace}/own" in found
    assert not any(path.startswith((str(host.skills), "/usr/", "/dev/")) for path in found)
    assert f"{host.workspace}/missing" not in found
    assert tried(done, "write") == []


def test_every_address_that_is_tried_is_told(host: Host) -> None:
    done = host.python(CONNECT, record=["network"])
    assert tried(done, "connect") == [("192.0.2.1", "80"), ("127.0.0.1", "9"), ("2001:db8::1", "443")]
    assert tried(done, "read", "write", "program") == []


def test_datagrams_and_the_names_that_are_asked_for_are_told(host: Host) -> None:
    text = """
import socket
query = b"ab\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\7example\\3org\\0\\0\\1\\0\\1"
def sending(send):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            send(one)
        except OSError:
            pass
sending(lambda one: one.sendto(b"x", ("192.0.2.7", 99)))
sending(lambda one: one.sendto(query, ("127.0.0.1", 53)))
sending(lambda one: one.sendmsg([query.replace(b"org", b"com")], [], 0, ("127.0.0.1", 53)))
sending(lambda one: (one.connect(("127.0.0.1", 53)), one.send(query.replace(b"org", b"net"))))
sending(lambda one: (one.connect(("127.0.0.1", 54)), one.send(query.replace(b"org", b"edu"))))
"""
    done = host.python(text, record=["network"])
    assert ("192.0.2.7", "99") in tried(done, "connect")
    assert [name for name, _ in tried(done, "lookup")] == ["example.org", "example.com", "example.net"]


STATIC = bytes.fromhex(
    "b829000000bf02000000be0100000031d20f05"  # socket(AF_INET, SOCK_STREAM, 0)
    "89c7488d3519000000ba10000000b82a0000000f05"  # connect(it, where, 16)
    "b83c00000031ff0f05"  # exit(0)
)


def static_program(address: bytes) -> bytes:
    """Returns an ELF file of one segment that uses no library: it connects to a sockaddr, and ends."""
    code = bytearray(STATIC)
    place = code.index(bytes.fromhex("488d35")) + 3
    struct.pack_into("<i", code, place, len(code) - place - 4)
    base, head = 0x400000, 64 + 56
    size = head + len(code) + len(address)
    elf = b"\x7fELF\2\1\1" + bytes(9)
    elf += struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, base + head, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    elf += struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 4096)
    return elf + code + address


@pytest.mark.skipif(platform.machine() != "x86_64", reason="its machine code is of that processor")
def test_a_static_program_is_seen_too(host: Host) -> None:
    program = host.workspace / "static"
    program.write_bytes(static_program(struct.pack("!2sH4s8x", b"\2\0", 8080, bytes([192, 0, 2, 9]))))
    program.chmod(0o755)
    done = host.run("./static", record=["network"])
    assert done.ending == (0, None, None)
    assert tried(done, "connect") == [("192.0.2.9", "8080")]


def test_grandchildren_threads_and_what_ran_into_its_time_are_seen(host: Host) -> None:
    text = CONNECT + "import time, threading\nthreading.Thread(target=time.sleep, args=(60,)).start()\n"
    program = f"setsid {sys.executable} -I -S -c '{text}' & sleep 60"
    done = host.shell(program, record=["network"], wall=3.0)
    assert done.ended["stopped"] == "wall_time"
    assert ("192.0.2.1", "80") in tried(done, "connect")


@pytest.mark.root
def test_of_a_program_that_hides_its_memory_the_attempt_is_still_told(start_host: StartHost) -> None:
    hiding = "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n"
    done = start_host(user=54_321).run(SYSTEM_PYTHON, "-I", "-S", "-c", hiding + CONNECT, record=["network"])
    assert done.ending == (0, None, None)
    assert tried(done, "connect") == [("", "")]
    assert seen(done).events[0].count == 3


def test_a_flood_is_counted_and_does_not_hide_another_kind(host: Host) -> None:
    text = "import os\nfor n in range(400):\n  open(f'f{n}-{chr(233) * 60}', 'w').close()\n" + CONNECT
    done = host.python(text, record=EVERYTHING)
    found = seen(done)
    writes = found.of("write")
    assert 20 < len(writes) < 200
    assert found.lost["write"] + sum(one.count for one in writes) == 400
    assert len(found.of("connect")) == 3


def test_a_path_of_any_shape_ends_neither_the_run_nor_the_runner(host: Host) -> None:
    for n in range(1500):
        (host.workspace / f"l{n}").symlink_to(f"l{n + 1}")
    (host.workspace / "self").symlink_to("self")
    (host.workspace / ("d/" * 100)).mkdir(parents=True)
    text = """
import os
for path in ("l0", "l1490", "self", "x" * 5000, "d/" * 100 + "f", b"\\xff\\x1b[2J", "a/../../..", "/proc/self/fd/0/x"):
    for flags in (os.O_RDONLY, os.O_WRONLY | os.O_CREAT):
        try:
            os.close(os.open(path, flags))
        except OSError:
            pass
import ctypes
libc = ctypes.CDLL(None)
for number in (2, 59, 82, 257, 322, 42, 44, 46, 307, 437):
    for value in (0, 1, 2**31 - 1, 2**63 - 1, 2**64 - 1):
        libc.syscall(number, *[ctypes.c_ulong(value)] * 6)
"""
    done = host.python(text, record=EVERYTHING)
    assert done.ending == (0, None, None), done.stderr
    assert host.run("true", record=EVERYTHING).ending == (0, None, None)


# That it changes nothing


@pytest.mark.parametrize(
    "argv",
    [
        ("true",),
        ("false",),
        ("no-such-program",),
        ("/etc/passwd",),
        ("/",),
        ("bash", "-c", "echo out; echo err >&2; cat; exit 7"),
        ("bash", "-c", "kill -KILL $$"),
        ("bash", "-c", "yes | head -1"),
        ("bash", "-c", "trap '' TERM; (setsid sleep 60 &) ; exit 3"),
        ("bash", "-c", "ulimit -f 1; exec head -c 100000 /dev/zero > big"),
        ("bash", "-c", "ls -l /proc/self/fd | wc -l; ps -o sid= -p $$ | tr -d ' ' | grep -qx $$"),
    ],
)
def test_a_recorded_run_ends_as_any_other(host: Host, argv: tuple[str, ...]) -> None:
    plain = host.run(*argv, stdin=b"typed\n")
    recorded = host.run(*argv, stdin=b"typed\n", record=EVERYTHING)
    assert plain.ended["record"] is None
    assert (recorded.ending, recorded.stdout, recorded.stderr) == (plain.ending, plain.stdout, plain.stderr)


def test_a_directory_that_is_not_there_is_told_as_in_any_other_run(host: Host) -> None:
    done = host.run("true", cwd="/no/such/place", record=EVERYTHING)
    assert done.ending == (126, None, None)
    assert done.stderr == b"/no/such/place: No such file or directory\n"


def test_it_leaves_no_descriptor_and_no_process(host: Host) -> None:
    host.run("true", record=EVERYTHING)
    before = host.descriptors()
    for argv in (("true",), ("no-such-program",), ("bash", "-c", "(setsid sleep 60 &) ; exit 3")):
        host.run(*argv, record=EVERYTHING)
    assert host.descriptors() == before


def test_a_program_cannot_listen_in_the_recorders_place(host: Host) -> None:
    text = f"""
import sys; sys.path.insert(0, {str(RECORDER.parent)!r})
import recorder
one = recorder.Start(["true"], {{}}, "/", [], ["network"])
try:
    one._install()
    print("listens")
except OSError as error:
    print(error.strerror)
"""
    assert host.python(text, record=["network"]).stdout == b"Device or resource busy\n"


def test_where_the_kernel_gives_no_listener_nothing_is_run(start_host: StartHost) -> None:
    taken = f"""
import os, sys; sys.path.insert(0, {str(RECORDER.parent)!r})
import recorder
one = recorder.Start(["true"], {{}}, "/", [], [])
os.set_inheritable(one._install(), True)  # who holds it never answers, and nobody asks: it is about no call
os.execv(sys.argv[1], sys.argv[1:])
"""
    host = start_host(prefix=(sys.executable, "-c", taken))
    with pytest.raises(Refusal, match="no_recorder: runs cannot be recorded here"):
        host.run("touch", "made", record=["network"])
    assert not (host.workspace / "made").exists()
    assert host.run("true").ending == (0, None, None)


@pytest.mark.parametrize("record", [["everything"], ["network", "x"]])
def test_what_cannot_be_recorded_is_refused(host: Host, record: list[str]) -> None:
    with pytest.raises(Refusal, match="bad_request"):
        host.run("true", record=record)


def test_a_terminal_is_not_recorded(host: Host) -> None:
    with pytest.raises(Refusal, match="bad_request"):
        host.run("true", stdin=b"", tty=(24, 80), record=["network"])


# Its pure parts


@pytest.mark.parametrize(("name", "audit"), [("x86_64", X86), ("aarch64", ARM)])
def test_the_filter_holds_the_calls_asked_for_and_no_other(
    recorder_module: ModuleType, name: str, audit: int
) -> None:
    module = recorder_module
    machine, cookie = module.MACHINES[name], 0x0123456789ABCDEF
    calls = machine.of(EVERYTHING)
    program = module.filter_program(machine, calls, cookie)
    for number in range(500):
        wanted = module.NOTIFY if number in calls else module.ALLOW
        assert verdict(program, audit, number) == wanted
        assert verdict(program, audit, number, [0, 0, 0, 0, 0, cookie]) == module.ALLOW
        for wrong in (cookie ^ 1, cookie ^ (1 << 63)):
            assert verdict(program, audit, number, [0, 0, 0, 0, 0, wrong]) == wanted
        assert verdict(program, 0x40000003, number) == module.REFUSE
        assert verdict(program, audit, number | 0x40000000) == module.REFUSE


def test_the_numbers_are_those_of_the_boxes_own_filter(recorder_module: ModuleType) -> None:
    for index, name in enumerate(("x86_64", "aarch64")):
        machine = recorder_module.MACHINES[name]
        writes = {"x86_64": recorder_module._WRITES_X86, "aarch64": recorder_module._WRITES_ARM}[name]
        ours = {**machine.numbers, **{call: number for call, (number, _) in writes.items()}}
        assert ours == {call: NUMBERS[call][index] for call in ours}


@given(st.binary(max_size=600))
def test_any_bytes_can_be_a_question(recorder_module: ModuleType, data: bytes) -> None:
    assert isinstance(recorder_module.queried_name(data), str)


@given(st.lists(st.from_regex(r"[a-z0-9-]{1,63}", fullmatch=True), min_size=1, max_size=5))
def test_the_name_of_a_question_is_read(recorder_module: ModuleType, labels: list[str]) -> None:
    name = b"".join(bytes([len(label)]) + label.encode() for label in labels)
    query = b"\x12\x34\1\0\0\1\0\0\0\0\0\0" + name + b"\0\0\1\0\1"
    assert recorder_module.queried_name(query) == ".".join(labels)
    assert recorder_module.queried_name(query[:-5]) == ""


@given(st.binary(max_size=40))
def test_any_bytes_can_be_an_address(recorder_module: ModuleType, data: bytes) -> None:
    if len(data) >= 2:
        recorder_module.internet_address(data)


@given(
    st.lists(
        st.tuples(st.sampled_from(["connect", "lookup", "program", "read", "write"]), st.text(), st.text())
    )
)
def test_what_is_told_is_read_back_and_never_too_long(
    recorder_module: ModuleType, runner_module: ModuleType, rows: list[tuple[str, str, str]]
) -> None:
    ledger = recorder_module.Ledger()
    for row in rows:
        ledger.add(*row)
    told = recording(ledger.told())
    assert sum(one.count for one in told.events) + sum(told.lost.values()) == len(rows)
    assert all(one.what.isprintable() and one.detail.isprintable() for one in told.events)
    assert len(runner_module.pack({"record": ledger.told()})) < MAX_REPLY_JSON


@pytest.mark.parametrize("text", ['"', "\\", "\x1b", "\u20ac", "\U0001f600", "\udc80", "a"])
def test_the_longest_that_can_be_told_fits_into_a_reply(
    recorder_module: ModuleType, runner_module: ModuleType, text: str
) -> None:
    ledger = recorder_module.Ledger()
    for kind in recorder_module.KINDS:
        for number in range(201):
            ledger.add(kind, f"{number}{text * 400}", text * 400)
            ledger.add(kind, f"{number}", text)
    assert len(runner_module.pack({"record": ledger.told()})) < MAX_REPLY_JSON - 64 * 1024

"""The deep probe: what a program in this box can do, tried in a child that ends at once."""

from __future__ import annotations

import errno
import os
import resource
import time
from typing import TYPE_CHECKING

from .kernel import LIBC, call
from .lean import c_int, signal, suppress
from .payloads import pack
from .protocol import MAX_DATA
from .refusals import Refused
from .workspace import NEW_FILE, segments

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from typing import Never


PROBE_SECONDS = 10.0
"""Time for the deep probe; its slowest part, three interpreters side by side, takes under a second."""


SYSCALLS: dict[str, dict[str, int]] = {
    "x86_64": {"io_uring_setup": 425, "keyctl": 250, "bpf": 321, "userfaultfd": 323},
    "aarch64": {"io_uring_setup": 425, "keyctl": 219, "bpf": 280, "userfaultfd": 282},
}
CLONE_NEWUSER = 0x10000000
PTRACE_SEIZE = 0x4206
"""Attaches like PTRACE_ATTACH, but does not stop the runner where it is allowed."""
MNT_DETACH = 2
CONNECT_SECONDS = 1.0
INTERPRETER_SECONDS = 5.0
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def attempt(action: Callable[[], object]) -> str:
    """Returns "ok" for what could be done, else the name of the errno."""
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "ok"


def reading(action: Callable[[], object]) -> object:
    """Returns what the action finds, None for nothing."""
    with suppress(OSError, LookupError, Refused):
        return action()
    return None


def raw_syscall(name: str, *arguments: object) -> None:
    """Makes a system call that the C library has no function for."""
    number = SYSCALLS.get(os.uname().machine, {}).get(name)
    if number is None:
        raise OSError(errno.ENOSYS, "the number is not known for this machine")
    call(LIBC.syscall, number, *arguments)


class Probe:
    """The attempts of a FACTS request. Runs in the forked child, where nothing it changes can do harm."""

    def __init__(self, workspace: str, skills: str, marker: str | None) -> None:
        self._workspace = workspace
        self._skills = skills
        self._marker = marker
        self._runner = os.getppid()

    def results(self) -> dict[str, object]:
        """Tries everything; what changes the child itself comes last."""
        readings: dict[str, Callable[[], object]] = {
            "interpreters": self._interpreters,
            "localhost": self._localhost,
            "passwd_name": self._passwd_name,
            "marker": self._marker_digest,
        }
        attempts: dict[str, Callable[[], object]] = {
            "loopback": self._loopback,
            "outside_v4": lambda: self._outside("192.0.2.1"),
            "outside_v6": lambda: self._outside("2001:db8::1"),
            "write_root": lambda: self._write("/usr"),
            "write_skills": lambda: self._write(self._skills),
            "af_packet": lambda: self._socket("AF_PACKET", "SOCK_RAW"),
            "af_vsock": lambda: self._socket("AF_VSOCK", "SOCK_STREAM"),
            "af_alg": lambda: self._socket("AF_ALG", "SOCK_SEQPACKET"),
            "read_pid1_mem": self._read_memory,
            "list_pid1_files": lambda: os.listdir(f"/proc/{self._runner}/fd"),
            "ptrace_pid1": lambda: call(LIBC.ptrace, PTRACE_SEIZE, self._runner, 0, 0),
            "io_uring": lambda: raw_syscall("io_uring_setup", 1, (c_int * 30)()),
            "keyctl": lambda: raw_syscall("keyctl", 0, -3, 0),
            "bpf": lambda: raw_syscall("bpf", 0, (c_int * 32)(), 128),
            "userfaultfd": lambda: raw_syscall("userfaultfd", 1),
            "mount": self._mount,
            "setuid0": lambda: os.setuid(0),
            "unshare_user": lambda: call(LIBC.unshare, CLONE_NEWUSER),
        }
        found = {name: reading(action) for name, action in readings.items()}
        return {**found, **{name: attempt(action) for name, action in attempts.items()}}

    @staticmethod
    def _loopback() -> None:
        import socket  # noqa: PLC0415  the runner itself never needs it

        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(CONNECT_SECONDS)
            with socket.create_connection(server.getsockname(), CONNECT_SECONDS) as client:
                client.sendall(b"x")
                other, _ = server.accept()
                with other:
                    other.recv(1)

    @staticmethod
    def _outside(address: str) -> None:
        import socket  # noqa: PLC0415  the runner itself never needs it

        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as client:
            client.settimeout(CONNECT_SECONDS)
            try:
                client.connect((address, 80))
            except TimeoutError:
                raise OSError(errno.ETIMEDOUT, "no answer") from None

    @staticmethod
    def _localhost() -> object:
        import socket  # noqa: PLC0415  the runner itself never needs it

        try:
            return sorted({str(found[4][0]) for found in socket.getaddrinfo("localhost", None)})
        except socket.gaierror as error:
            return error.strerror

    @staticmethod
    def _socket(family: str, kind: str) -> None:
        import socket  # noqa: PLC0415  the runner itself never needs it

        socket.socket(getattr(socket, family), getattr(socket, kind)).close()

    @staticmethod
    def _passwd_name() -> str:
        import pwd  # noqa: PLC0415  the runner itself never needs it

        return pwd.getpwuid(os.getuid()).pw_name

    def _marker_digest(self) -> str | None:
        import hashlib  # noqa: PLC0415  the runner itself never needs it

        if self._marker is None:
            return None
        with open(os.path.join(self._skills, *segments(self._marker)), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @staticmethod
    def _write(directory: str) -> None:
        path = os.path.join(directory, f".probe-{os.getpid()}")
        os.close(os.open(path, NEW_FILE))
        os.unlink(path)

    def _read_memory(self) -> None:
        with open(f"/proc/{self._runner}/mem", "rb", buffering=0):
            pass

    def _mount(self) -> None:
        target = os.fsencode(self._workspace)
        call(LIBC.mount, b"tmpfs", target, b"tmpfs", 0, None)
        call(LIBC.umount2, target, MNT_DETACH)

    @staticmethod
    def _interpreters() -> dict[str, str | None]:
        started = {name: Probe._start_version(name) for name in ("python3", "node", "bash")}
        return {name: Probe._version(child) for name, child in started.items()}

    @staticmethod
    def _start_version(name: str) -> subprocess.Popen[bytes] | None:
        import subprocess  # noqa: PLC0415  the runner itself never needs it

        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        with suppress(OSError):
            return subprocess.Popen(
                [name, "--version"], env={"PATH": SEARCH_PATH}, stdin=null, stdout=pipe, stderr=null
            )
        return None

    @staticmethod
    def _version(child: subprocess.Popen[bytes] | None) -> str | None:
        import subprocess  # noqa: PLC0415  the runner itself never needs it

        if not child:
            return None
        try:
            output, _ = child.communicate(timeout=INTERPRETER_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            return None
        import re  # noqa: PLC0415  as above

        found = re.search(rb"\d+(\.\d+)+", output)
        return found[0].decode() if found else None


class Investigation:
    """A FACTS request under way: the child that probes, and its answer as far as it has come."""

    def __init__(self, ref: int, workspace: str, skills: str, marker: str | None) -> None:
        self.ref = ref
        self.deadline = time.monotonic() + PROBE_SECONDS
        self._answer = bytearray()
        self.buried = False
        self.descriptor, end = os.pipe()
        os.set_blocking(self.descriptor, False)
        self.pid = os.fork()
        if not self.pid:
            self._in_child(end, workspace, skills, marker)
        os.close(end)

    @staticmethod
    def _in_child(end: int, workspace: str, skills: str, marker: str | None) -> Never:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            os.dup2(end, 3, inheritable=False)
            os.closerange(4, resource.getrlimit(resource.RLIMIT_NOFILE)[0])  # the channel is not its business
            os.write(3, pack(Probe(workspace, skills, marker).results()))
        finally:
            os._exit(0)

    def read(self) -> bytes | None:
        """Returns the whole answer once it is there (empty where the child died), None before that."""
        with suppress(BlockingIOError):
            while data := os.read(self.descriptor, MAX_DATA):
                self._answer += data
            return bytes(self._answer)
        return None

    def close(self) -> None:
        """Ends the child, wherever it is."""
        os.close(self.descriptor)
        if not self.buried:
            os.kill(self.pid, signal.SIGKILL)

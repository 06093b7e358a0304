"""The attempts: each returns how it got through, or raises OSError or Blocked.

None does harm where it succeeds: nothing real is read or written, and what is made is removed at once.
"""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import kernel

if TYPE_CHECKING:
    from collections.abc import Callable

SKILL = Path(__file__).resolve().parents[1]

DOCUMENTATION_V4, DOCUMENTATION_V6 = "192.0.2.1", "2001:db8::1"
"""Addresses that RFC 5737 and RFC 3849 keep for examples: no machine has them."""

CONNECT_SECONDS = 0.4
"""Without a route the kernel refuses at once; whoever waits has sent something."""

ENGINE_SOCKETS = (
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/crio/crio.sock",
    "/run/buildkit/buildkitd.sock",
)


class Blocked(Exception):  # noqa: N818  # an outcome, not an error
    """The attempt did not get through, and no error number says why."""


@dataclass(frozen=True)
class Attempt:
    """One thing to try; `guard` is what blocks it where the error alone does not tell."""

    what: str
    guard: str
    make: Callable[[], str]


def connect(family: socket.AddressFamily, address: str) -> str:
    """Connects to an address that nobody has: to be refused by the network is to have reached it."""
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(CONNECT_SECONDS)
        try:
            connection.connect((address, 443))
        except (TimeoutError, ConnectionRefusedError) as error:
            return f"packets left for {address}: {error}"
    return f"connected to {address}"


def look_up() -> str:
    """Resolves a name that RFC 2606 keeps for examples."""
    found = socket.getaddrinfo("example.com", 443, proto=socket.IPPROTO_TCP)
    return f"example.com is {found[0][4][0]}"


def write_into(directory: Path) -> str:
    """Makes a file of a name that no other has, and removes it."""
    with tempfile.NamedTemporaryFile(prefix=".escape-artist-", dir=directory) as file:
        return f"made {file.name}"


def open_only(path: str, flags: int) -> str:
    """Opens and closes."""
    os.close(os.open(path, flags | os.O_CLOEXEC))
    return f"opened {path}"


def open_init_memory() -> str:
    """Opens the memory of whoever started this sandbox."""
    if os.getppid() == 1:
        raise Blocked("process 1 is this program itself")
    return open_only("/proc/1/mem", os.O_RDONLY)


def become_root() -> str:
    """Takes uid 0, or has it already."""
    os.setuid(0)
    return "uid is 0"


def mount() -> str:
    """Mounts a tmpfs on a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="escape-artist-") as directory:
        kernel.mount_tmpfs(directory)
        kernel.unmount(directory)
    return "mounted a tmpfs"


def make_device() -> str:
    """Makes another /dev/null in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="escape-artist-") as directory:
        os.mknod(Path(directory) / "null", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    return "made a character device"


def find_engine_socket() -> str:
    """Looks for a container engine that would start anything for whoever may connect."""
    there = [path for path in engine_sockets() if Path(path).exists()]
    for path in there:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(CONNECT_SECONDS)
            connection.connect(path)
            return f"connected to {path}"
    raise Blocked("no container engine's socket found")


def engine_sockets() -> list[str]:
    """Returns where engines listen, and every socket that is mounted into this file system."""
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    mounted = [line.split()[4] for line in mounts]
    return [*ENGINE_SOCKETS, *(path for path in mounted if path.endswith(".sock"))]


def open_raw_socket() -> str:
    """Opens a socket that forges packets."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP):
        return "opened a raw socket"


def list_neighbours() -> str:
    """Lists the directory where other skills would be."""
    return f"saw {len(os.listdir(SKILL.parent))} entries beside this skill"  # noqa: PTH208  # names are not used


ATTEMPTS = {
    "tcp_v4": Attempt(
        "open a TCP connection over IPv4",
        "no network interface but the loopback",
        lambda: connect(socket.AF_INET, DOCUMENTATION_V4),
    ),
    "tcp_v6": Attempt(
        "open a TCP connection over IPv6",
        "no network interface but the loopback",
        lambda: connect(socket.AF_INET6, DOCUMENTATION_V6),
    ),
    "dns": Attempt("look up a host name", "no network interface but the loopback", look_up),
    "write_skill": Attempt("write into its own skill", "unprivileged user", lambda: write_into(SKILL)),
    "write_usr": Attempt("write to /usr", "unprivileged user", lambda: write_into(Path("/usr"))),
    "write_etc": Attempt("write to /etc", "unprivileged user", lambda: write_into(Path("/etc"))),
    "setuid_root": Attempt("become root", "no capabilities", become_root),
    "mount": Attempt("mount a file system", "seccomp profile, no capabilities", mount),
    "unshare_user": Attempt("make a user namespace", "seccomp profile", kernel.unshare_user),
    "read_pid1_memory": Attempt("open the memory of process 1", "process 1 is undumpable", open_init_memory),
    "read_process_memory": Attempt(
        "read the memory of another process", "seccomp profile", kernel.read_child_memory
    ),
    "docker_socket": Attempt("find a container engine", "nothing of the host is mounted", find_engine_socket),
    "raw_socket": Attempt("open a raw socket", "no capabilities", open_raw_socket),
    "mknod_device": Attempt("make a device", "no capabilities", make_device),
    "io_uring": Attempt("set up io_uring", "seccomp profile", kernel.set_up_io_uring),
    "ptrace": Attempt("trace another process", "seccomp profile", kernel.trace_child),
    "write_proc_sys": Attempt(
        "open a kernel setting for writing",
        "unprivileged user",
        lambda: open_only("/proc/sys/kernel/hostname", os.O_WRONLY),
    ),
    "read_shadow": Attempt(
        "open /etc/shadow", "unprivileged user", lambda: open_only("/etc/shadow", os.O_RDONLY)
    ),
    "list_skills": Attempt("list other skills", "directory without read permission", list_neighbours),
}
"""By name, in the order they are made. The names are stable."""

"""The launcher: a process of its own that makes boxes as it is told, and ends them when nobody tells it any more.

Theory of operation
===================

The engine starts this file once, and holds the other end of a socket. Why a process: what has to happen between fork
and exec (namespaces, mounts, another uid) is nothing that a program with threads may do; bubblewrap's boxes die with
the *thread* that started them; and somebody must be left to clean up when the engine's process is killed.

**Orders** come as one JSON datagram each: `prepare` once, then `start`, with the channel's end as a descriptor beside
it, or `end`. What a box is made of was decided by the engine (`order.py`); nothing is decided here. **Answers** are one
datagram for each box, when nothing is left of it: its exit code, whether the kernel killed for memory lately, its last
words.

**The stage** is a directory in a mount namespace of the launcher's own, with all that boxes share: the root file system
and the skills. **A child** joins the box's cgroups, takes a mount and an IPC namespace of its own, adds what only this
box has, gives up its rights and becomes bubblewrap. What was mounted goes with the last process of a namespace, so
nobody has to unmount anything.

**The end** of a box is the death of its first process, which takes all others with it; bubblewrap ends after that.
Then the cgroups are removed. When the socket ends, so does every box, and then the launcher.

Standard library only, run with `-I -S`: it starts in 15 ms, and forks in half a millisecond.
"""
# ruff: noqa: PTH102, PTH103, PTH106, PTH123, PTH208, PTH211  # no pathlib: it would add a third to the start

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import socket
import stat
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Never

MESSAGE_BYTES = 256 * 1024
"""Longest order: its paths and arguments, about 4 KiB."""

WORDS_BYTES = 4096
"""What is kept of a box's last words: a traceback has about one."""

REMOVE_SECONDS = 0.005
"""Between tries to remove a cgroup: it is busy until its last task is buried."""

INSIST_SECONDS = 1.0
"""After which an end that has not come is asked for again, of bubblewrap as well."""

LEAVE_SECONDS = 5.0
"""How long the launcher waits for its boxes when its own end has come: only one stuck in the kernel needs more."""

OOM_SECONDS = 5.0
"""A box that dies this soon after the kernel killed for memory in it is taken to have died of that."""

FAILED = 125
"""The exit code of a child that could not become bubblewrap."""

FILTER = 3
"""The descriptor on which bubblewrap is told to find the seccomp filter."""

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER = 0x20000, 0x8000000, 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ)
"""What the launcher does not die of: its end is the end of its socket. The last two are Python's own doing."""

RLIMITS = {
    "nofile": resource.RLIMIT_NOFILE,
    "fsize": resource.RLIMIT_FSIZE,
    "core": resource.RLIMIT_CORE,
    "nproc": resource.RLIMIT_NPROC,
    "data": resource.RLIMIT_DATA,
}

LIBC = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: bytes | int | None) -> None:
    """Calls a function of the C library; raises OSError that names it."""
    words = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in arguments]
    if getattr(LIBC, name)(*words) == -1:
        code = ctypes.get_errno()
        about = next((os.fsdecode(value) for value in arguments[1:] if isinstance(value, bytes)), "")
        raise OSError(code, os.strerror(code), f"{name} {about}".strip())


def write(path: str, text: str) -> None:
    """Writes a file of the kernel."""
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def children(pid: int) -> list[int]:
    """Returns the children of a process that has one thread; none where the kernel does not tell."""
    with suppress(OSError), open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]
    return []


# --- Cgroups --------------------------------------------------------------------------------------------------------


def make_groups(groups: list[dict[str, Any]]) -> None:
    """Makes a box's cgroups with their limits; leaves none behind where one cannot be made."""
    try:
        for group in groups:
            os.mkdir(group["path"])
            for name, value, optional in group["files"]:
                try:
                    write(f"{group['path']}/{name}", value)
                except FileNotFoundError:
                    if not optional:
                        raise
    except OSError:
        remove_groups(groups)
        raise


def remove_groups(groups: list[dict[str, Any]]) -> bool:
    """Removes them; returns whether all are gone, which they are not as long as a task is in them."""
    busy = False
    for group in groups:
        try:
            os.rmdir(group["path"])
        except FileNotFoundError:
            pass
        except OSError:
            busy = True
    return not busy


def oom_kills(groups: list[dict[str, Any]]) -> int:
    """Returns how many tasks the kernel has killed for memory, 0 where nobody counts."""
    for group in groups:
        if group["oom"]:
            with (
                suppress(OSError, ValueError),
                open(f"{group['path']}/{group['oom']}", encoding="ascii") as file,
            ):
                words = file.read().split()
                return int(words[words.index("oom_kill") + 1])
    return 0


# --- The stage ------------------------------------------------------------------------------------------------------


def prepare(plan: dict[str, Any]) -> None:
    """Sets up the stage; who is not root does it in a user namespace that allows it. Raises OSError."""
    outer = plan["outer"]
    call("unshare", CLONE_NEWNS | (CLONE_NEWUSER if outer else 0))
    if outer:
        write("/proc/self/setgroups", "deny")
        write("/proc/self/uid_map", f"{outer[0]} {outer[0]} 1")
        write("/proc/self/gid_map", f"{outer[1]} {outer[1]} 1")
    stage = plan["stage"]
    # Opened first: they may lie below the directory that is about to be covered.
    root = os.open(plan["root"], os.O_PATH | os.O_CLOEXEC)
    store = os.open(plan["store"], os.O_PATH | os.O_CLOEXEC) if plan["store"] else None
    call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    call("mount", b"tmpfs", stage.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, b"size=64k,mode=0755")
    for name in plan["parts"]:
        os.mkdir(f"{stage}/{name}")
    bind(root, plan["tree"])
    if store is not None:
        bind(store, plan["skills"])


def bind(descriptor: int, target: str) -> None:
    """Mounts an open directory, without what is mounted below it."""
    call("mount", b"/proc/self/fd/%d" % descriptor, target.encode(), None, MS_BIND, None)


# --- The child ------------------------------------------------------------------------------------------------------


def become_box(order: dict[str, Any], channel: int, words: int, filter_: int) -> Never:
    """Turns this process into the box; raises OSError."""
    program = os.open(order["program"], os.O_RDONLY | os.O_CLOEXEC)
    for group in order["groups"]:
        write(f"{group['path']}/{group['join']}", "0")
    write("/proc/self/oom_score_adj", str(order["oom_score_adj"]))
    call("unshare", CLONE_NEWNS | CLONE_NEWIPC)
    limit_ipc(order)
    mount_root(order["tree"], order["root"], order["empty"])
    for path, kind, flags, options in order["mounts"]:
        os.makedirs(path, exist_ok=True)
        call("mount", kind.encode(), path.encode(), kind.encode(), flags, options.encode())
    if order["dev"]:
        fill_dev(order["dev"])
    for source, path in order["shown"]:
        os.makedirs(path, exist_ok=True)
        show(source, path)
    for path in order["sealed"]:
        seal(path)
    take_descriptors(channel, words, filter_)
    for number in IGNORED:
        signal.signal(
            number, signal.SIG_DFL
        )  # what is ignored here would be ignored by every program of the box
    for name, value in order["rlimits"].items():
        lower_limit(RLIMITS[name], value)
    drop_rights(order)
    os.execve(program, order["argv"], order["env"])  # noqa: S606  # no shell is wanted


def mount_root(tree: str, target: str, empty: str) -> None:
    """Mounts the root file system as one that only this box has, where the kernel can.

    A bind mount would share its inodes with all boxes, and a lock on a file of it would tell them something. It would
    also have the host's path in the mount table. An overlay needs a second directory, and finds nothing in it.
    """
    options = f"lowerdir={tree}:{empty}"
    try:
        call(
            "mount",
            b"overlay",
            target.encode(),
            b"overlay",
            MS_RDONLY | MS_NOSUID | MS_NODEV,
            options.encode(),
        )
    except OSError:
        show(tree, target)


def show(source: str, target: str) -> None:
    """Mounts a directory where the box can read it and no more."""
    call("mount", source.encode(), target.encode(), None, MS_BIND, None)
    seal(target)


def seal(path: str) -> None:
    """Makes a mount read-only; what it does not allow already stays so, as in a user namespace it must."""
    kept = os.statvfs(path).f_flag & MS_NOEXEC
    flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | kept
    call("mount", None, path.encode(), None, flags, None)


def fill_dev(dev: dict[str, Any]) -> None:
    """Makes device nodes that only this box has, for the same reason, and lets nobody add to them."""
    os.umask(0)
    for name, (major, minor) in dev["nodes"].items():
        os.mknod(f"{dev['path']}/{name}", 0o666 | stat.S_IFCHR, os.makedev(major, minor))
    os.umask(0o022)
    for name, target in dev["links"].items():
        os.symlink(target, f"{dev['path']}/{name}")
    flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC
    call("mount", None, dev["path"].encode(), None, flags, None)


def limit_ipc(order: dict[str, Any]) -> None:
    """Sets the limits of the box's own IPC namespace; in a user namespace most kernels do not let us."""
    for path, value in order["sysctls"].items():
        try:
            write(path, value)
        except OSError:
            if order["uid"] is not None:
                raise


def take_descriptors(channel: int, words: int, filter_: int) -> None:
    """Gives the box its channel, the pipe for its last words, a filter that nobody else reads, and nothing more.

    A descriptor that came over the socket would go on through every exec: a program on a terminal had the channel so.
    """
    fresh = os.open(f"/proc/self/fd/{filter_}", os.O_RDONLY)
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the listing's own
            os.set_inheritable(int(name), False)
    for number, descriptor in ((0, channel), (1, channel), (2, words), (FILTER, fresh)):
        os.dup2(descriptor, number)


def lower_limit(which: int, value: int) -> None:
    """Sets a limit, never above the one that this process has; that of a core where it can be, as 0 would be less."""
    if which == resource.RLIMIT_CORE:
        with suppress(OSError, ValueError):
            resource.setrlimit(which, (value, value))
            return
    hard = resource.getrlimit(which)[1]
    chosen = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (chosen, chosen))


def drop_rights(order: dict[str, Any]) -> None:
    """Becomes the box's uid. Who is not root (`uid` null) keeps his own, and loses with the exec what he has here."""
    uid = order["uid"]
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    call("prctl", PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


# --- Boxes ----------------------------------------------------------------------------------------------------------


class Box:
    """One box from its order to its end."""

    def __init__(self, order: dict[str, Any]) -> None:
        ttl: float = order["ttl"]
        self.id = order["id"]
        self.groups = order["groups"]
        self.code: int | None = None
        self.handle: int | None = None
        self._order = order
        self._words = -1
        self.pid = 0
        self._asked = False
        self._oom = (0, 0)  # as it was OOM_SECONDS ago at least, and lately
        self._looked = time.monotonic()
        self._due = self._looked + ttl  # when to end it, again if need be

    def start(self, channel: int, filter_: int) -> None:
        """Makes the cgroups and forks; raises OSError."""
        make_groups(self.groups)
        self._words, words = os.pipe()
        os.set_blocking(self._words, False)
        os.set_blocking(words, False)  # a box that talks is not to wait for anyone
        try:
            self.pid = os.fork()
            if not self.pid:
                self._in_child(channel, words, filter_)
            self.handle = os.pidfd_open(self.pid)
        finally:
            os.close(words)

    def _in_child(self, channel: int, words: int, filter_: int) -> Never:
        try:
            become_box(self._order, channel, words, filter_)
        except BaseException as error:  # noqa: BLE001  # a child that goes on would be a second launcher
            os.write(words, f"{type(error).__name__}: {error}".encode(errors="replace"))
        finally:
            os._exit(FAILED)

    def look(self, now: float) -> float:
        """Does what is due; returns when to look again."""
        if now >= self._looked + OOM_SECONDS:
            self._oom = (self._oom[1], oom_kills(self.groups))
            self._looked = now
        if self.code is not None:
            return now + REMOVE_SECONDS
        if now >= self._due:
            if self._asked:
                self._kill(self.pid)
            self.end()
        return min(self._due, self._looked + OOM_SECONDS)

    def end(self) -> None:
        """Kills the first process, and with it the box; bubblewrap itself where there is none yet."""
        if self.code is None:
            self._asked = True
            self._due = time.monotonic() + INSIST_SECONDS
            for pid in children(self.pid) or [self.pid]:
                self._kill(pid)

    @staticmethod
    def _kill(pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def bury(self) -> None:
        """Takes the exit code; call it when the handle says that there is one."""
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self.code = code if code >= 0 else 128 - code
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None

    def gone(self) -> dict[str, object] | None:
        """Returns what there is to tell once nothing is left; None as long as a cgroup is busy."""
        killed = max(self._oom[1], oom_kills(self.groups))
        self._oom = (self._oom[0], killed)
        if not remove_groups(self.groups):
            return None
        return {"id": self.id, "code": self.code, "oom": killed > self._oom[0], "words": self._last_words()}

    def _last_words(self) -> str:
        said = b""
        with suppress(OSError):
            said = os.read(self._words, WORDS_BYTES)
        os.close(self._words)
        return said.decode("utf-8", "replace")


def not_made(box: Box, words: str) -> dict[str, object]:
    """Returns what is told of a box that could not be started."""
    return {"id": box.id, "code": None, "oom": False, "words": words}


class Launcher:
    """The loop: orders, deaths, and the end of both."""

    def __init__(self, control: socket.socket, filter_: int) -> None:
        self._control = control
        self._filter = filter_
        self._boxes: dict[str, Box] = {}
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._handles: dict[int, Box] = {}
        self._leaving = 0.0
        self._fault = ""

    def serve(self) -> None:
        """Works until the socket has ended and no box is left."""
        while self._boxes or not self._leaving:
            for descriptor, _ in self._poll.poll(self._patience()):
                if descriptor in self._handles:
                    self._bury(descriptor)
                else:
                    self._hear()
            self._tell()
            if self._leaving and time.monotonic() > self._leaving:
                return

    def _patience(self) -> float | None:
        now = time.monotonic()
        due = [box.look(now) for box in self._boxes.values()]
        return max(0.0, min(due) - now) * 1000 + 1 if due else None

    def _hear(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES, 1)
        except OSError:
            data, descriptors = b"", []
        if not data:
            self._leave()
            return
        message = json.loads(data)
        try:
            if "prepare" in message:
                self._prepare(message["prepare"])
            elif "start" in message:
                self._start(message["start"], descriptors[0])
            elif box := self._boxes.get(message["end"]):
                box.end()
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _prepare(self, plan: dict[str, Any]) -> None:
        try:
            prepare(plan)
        except OSError as error:
            self._fault = f"{error}"

    def _start(self, order: dict[str, Any], channel: int) -> None:
        box = Box(order)
        if self._fault:
            self._say(not_made(box, self._fault))
            return
        try:
            box.start(channel, self._filter)
        except OSError as error:
            self._say(not_made(box, str(error)))
            return
        self._boxes[box.id] = box
        assert box.handle is not None
        self._handles[box.handle] = box
        self._poll.register(box.handle, select.POLLIN)

    def _bury(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        self._handles.pop(descriptor).bury()

    def _tell(self) -> None:
        self._bury_orphans()
        for box in [box for box in self._boxes.values() if box.code is not None]:
            if (told := box.gone()) is not None:
                del self._boxes[box.id]
                self._say(told)

    def _bury_orphans(self) -> None:
        """Takes the first processes of boxes whose bubblewrap was killed: until then their cgroups are busy."""
        own = {box.pid for box in self._boxes.values()}
        for pid in children(os.getpid()):
            if pid not in own:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _say(self, message: dict[str, object]) -> None:
        with suppress(OSError):  # nobody listens any more, which the next look at the socket tells
            self._control.send(json.dumps(message).encode())

    def _leave(self) -> None:
        self._poll.unregister(self._control)
        self._leaving = time.monotonic() + LEAVE_SECONDS
        for box in self._boxes.values():
            box.end()


def main(arguments: list[str]) -> int:
    """Serves on the socket and with the filter whose descriptors are given; returns the exit code."""
    control, filter_ = map(int, arguments)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    # An orphan of a bubblewrap that was killed comes here, dying.
    call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with socket.socket(fileno=control) as connection:
        os.set_inheritable(control, False)
        os.set_inheritable(filter_, False)
        Launcher(connection, filter_).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

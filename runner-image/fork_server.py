"""Starts Python programs as forks of an interpreter that is up already, with the common standard library imported.

Theory of operation
===================

The runner loads this file where a run may be forked, and starts it as a program of its own: the *server*, an ordinary
`python3` with the environment that runs have. The two speak over a pair of sockets; `ForkServer` is the runner's end.

**Trusted.** The server is started while no program runs in the box, makes itself undumpable before it imports
anything, and imports nothing that is not of the image: a program of the skill can neither read nor write its memory,
nor reach its socket. It is asked only while no other program runs. What a program can do is to stop it or to end it:
then the next one is started as ever.

**A spare.** When nothing runs, the server is told to fork, and does so twice, so that the fork becomes a child of the
runner as any other program. The fork, as protected as the server, waits for the order of the next program. Then it
takes on the order's streams, directory, environment and arguments, looks like an interpreter that has just begun, and
runs the program as `__main__`. Where that could be told in a way that matters, above all where the skill has modules of
names that are imported already, it executes a fresh interpreter in its own place.

**What differs.** The order of sets, as the seed of hashes is the server's; modules that are imported already, which
are not taken apart at the end, nor hidden by a folder that a program puts first; objects that `gc` does not list; one
frame below `__main__`; a process that is older than its program, with another command line in `/proc`.
"""
# ruff: noqa: PTH100, PTH109, PTH110, PTH113, PTH120, PTH123, PTH208  # pathlib is a module like those that it looks after

from __future__ import annotations

import _socket
import array
import errno
import gc
import os
import select
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import CodeType, ModuleType
    from typing import Any, Never

PYTHON = "/usr/bin/python3"
"""The interpreter of the image, which `python3` means where a skill has none of its own."""

ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTHONUNBUFFERED": "1",
}
"""What the server is started with: what sandbox_skills/workspace/layout.py has for an interpreter's start."""

EARLY = ("PYTHON", "LANG", "LC_", "LD_", "GLIBC_", "MALLOC_", "OPENSSL_", "LOCPATH", "GCONV_PATH")
"""How the variables begin that an interpreter or its libraries read at their start, and never again."""

VARIABLES = os.environ  # noqa: TID251  those of the program

LATE = frozenset({"PYTHONPATH", "PYTHONBREAKPOINT", "LANGUAGE"})
"""Those among them that a fork can still apply."""

MAX_ORDER = 64 * 1024
"""Longest order in bytes, well below what a socket takes at once: a longer one is started as ever."""

START_SECONDS = 2.0
"""How long a start may take that takes 15 ms; a box without a processor's time gets along without a server."""

FORK_SECONDS = 0.5
"""How long a fork may take that takes 2 ms; then there is another server."""

SIGKILL, SIGCONT = 9, 18
SHIM = "/opt/sandbox-skills/handlers/python.pyc"
"""What calls the handlers of tools."""

PR_SET_DUMPABLE = 4

PROTECTED, READY, FORK = b"protected", b"ready", b"fork"
"""What the server says: that nobody can reach it, and later that it has imported all. Then it is told to fork, and each
fork says its pid and is sent one order."""


# --- The runner's end -----------------------------------------------------------------------------------------------


class ForkServer:
    """The server as the runner has it, which buries it; `spare` is the process of a fork that waits, or 0."""

    def __init__(self, source: str, encode: Callable[[Mapping[str, object]], bytes]) -> None:
        """Starts it and waits until nobody can reach it; raises OSError where that does not come about."""
        self.spare = 0
        self.python = PYTHON
        self._encode = encode
        self._ready = False
        self._forking = False
        self._socket, other = _socket.socketpair(
            _socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC
        )
        actions = [(os.POSIX_SPAWN_DUP2, other.fileno(), 0), (os.POSIX_SPAWN_DUP2, 2, 1)]
        try:
            self.pid = os.posix_spawn(
                PYTHON, (PYTHON, source), ENVIRONMENT, file_actions=actions, setsid=True
            )
        except BaseException:
            self._socket.close()
            raise
        finally:
            other.close()
        if self._heard(START_SECONDS) != PROTECTED:
            self.end()
            raise TimeoutError(errno.ETIMEDOUT, "the fork server did not start")

    def prepare(self) -> None:
        """Has a spare made, unless there is one."""
        if not self.spare and not self._forking:
            os.kill(self.pid, SIGCONT)  # a program may have stopped it; none lives that could do so now
            self._forking = self._said(FORK)

    def settle(self) -> None:
        """Waits for a spare that is being made, which takes less time than a fresh interpreter."""
        self._ready = self._ready or self._heard(0) == READY
        if self._ready and self._forking:
            heard = self._heard(FORK_SECONDS)
            self._forking = False
            if heard.isdigit():
                self.spare = int(heard)
            else:  # a program may have ended it, or have stopped the server
                self.end()

    def start(self, argv: Sequence[str], env: Mapping[str, str], cwd: str, streams: Sequence[int]) -> int:
        """Starts a program with its three streams; returns its pid, 0 where it must be started as ever."""
        self.settle()
        order = self._encode({"pid": self.spare, "argv": argv, "env": env, "cwd": cwd})
        if not self.spare or len(order) > MAX_ORDER or not is_plain(argv) or early(env) != ENVIRONMENT:
            return 0
        spare, self.spare = self.spare, 0
        os.kill(spare, SIGCONT)  # as above
        ended = os.waitid(os.P_PID, spare, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return 0 if ended or not self._said(order, streams) else spare

    def end(self) -> None:
        """Ends it and its spare, wherever they are."""
        self._socket.close()
        for pid in filter(None, (self.pid, self.spare)):
            try:
                os.kill(pid, SIGKILL)
            except ProcessLookupError:
                continue

    def _said(self, words: bytes, streams: Sequence[int] = ()) -> bool:
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", streams))
        try:
            self._socket.sendmsg([words], [rights] if streams else [], _socket.MSG_DONTWAIT)
        except OSError:
            return False
        return True

    def _heard(self, seconds: float) -> bytes:
        if self._socket.fileno() < 0:
            return b""
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLIN)
        try:
            return self._socket.recv(64) if poll.poll(seconds * 1000) else b""
        except OSError:
            return b""


def early(env: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that only a start can apply."""
    return {name: value for name, value in env.items() if name.startswith(EARLY) and name not in LATE}


def is_plain(argv: Sequence[str]) -> bool:
    """Whether the arguments are `-c`, `-m` or a script and what follows, without options before."""
    first, *rest = argv[1:] or ("-",)
    return bool(rest) if first in {"-c", "-m"} else not first.startswith("-")


# --- The server -----------------------------------------------------------------------------------------------------

PRELUDE = (
    "__future__", "argparse", "ast", "asyncio", "base64", "bisect", "calendar", "collections", "concurrent.futures",
    "configparser", "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib", "enum", "fnmatch",
    "functools", "getpass", "glob", "gzip", "hashlib", "heapq", "html", "importlib.util", "inspect", "io",
    "itertools", "json", "linecache", "locale", "logging", "math", "mimetypes", "operator", "pathlib", "pickle",
    "pkgutil", "platform", "queue", "random", "re", "runpy", "secrets", "select", "selectors", "shlex", "shutil",
    "signal", "socket", "stat", "statistics", "string", "struct", "subprocess", "tempfile", "textwrap", "threading",
    "time", "traceback", "types", "typing", "unicodedata", "urllib.parse", "uuid", "warnings", "weakref",
    "xml.etree.ElementTree", "zipfile", "zlib",
)  # fmt: skip
"""What scripts of skills import most, all of it Python's own."""


def serve(channel: int) -> Order:
    """Makes forks as the runner wants them, until it is gone. Returns in each, with what that is to become."""
    libc().prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    connection = _socket.socket(fileno=channel)
    connection.send(PROTECTED)
    names = imported()
    known = frozenset(sys.modules)
    connection.send(READY)
    while connection.recv(len(FORK)):
        taken, waiting = os.pipe()
        child = os.fork()
        if not child:
            os.close(taken)
            return next_order(connection, waiting, names, known)
        os.close(waiting)
        os.waitpid(child, 0)
        os.read(taken, 1)  # ends when the fork has its order, or has died: until then the socket is its own
        os.close(taken)
    os._exit(0)


def libc() -> Any:  # noqa: ANN401  its functions are known to none of the type checkers
    """Returns the C library."""
    import ctypes  # noqa: PLC0415  the runner has no need of it

    return ctypes.CDLL(None)


def imported() -> frozenset[str]:
    """Imports the prelude; returns the names that a module of the skill could have instead."""
    del sys.path[0]
    sys.path_importer_cache.pop(os.path.dirname(os.path.abspath(__file__)), None)
    for name in PRELUDE:
        __import__(name)
    frozen = {"built-in", "frozen"}
    loaded = {
        name
        for name, module in list(sys.modules.items())
        if "." not in name and getattr(getattr(module, "__spec__", None), "origin", "frozen") not in frozen
    }
    gc.collect()
    gc.freeze()  # else every fork would copy what it looks through
    return frozenset(loaded | {"sitecustomize"})


def next_order(
    connection: _socket.socket, waiting: int, names: frozenset[str], known: frozenset[str]
) -> Order:
    """Forks once more, and ends between: what is left has the runner for its parent. Returns in that, with an order."""
    parent = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == parent:
        os.sched_yield()
    os.setsid()
    rehearse(names)
    connection.send(b"%d" % os.getpid())
    data, streams = received(connection)
    os.close(waiting)
    connection.detach()  # its number is that of standard input, which is another now
    return Order(data, streams, names, known)


def received(connection: _socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Returns the order that is for this process, and its streams; ends with the runner."""
    import json  # noqa: PLC0415  the runner has no need of it

    while True:
        data, rest, _, _ = connection.recvmsg(MAX_ORDER, _socket.CMSG_SPACE(3 * 4))
        if not data:
            os._exit(0)
        streams = array.array("i")
        for _, _, descriptors in rest:
            streams.frombytes(descriptors)
        order = json.loads(data)
        if order["pid"] == os.getpid():
            return order, list(streams)
        for stream in streams:  # of one that has died with its order still to be read
            os.close(stream)


def rehearse(names: frozenset[str]) -> None:
    """Does for nobody what every fork does: a page that is touched for the first time after a fork has to be copied."""
    import json  # noqa: PLC0415  as above

    json.loads('{"env": {"A": "B"}}')
    VARIABLES.update(VARIABLES.copy())
    shadows("/", names)
    open_streams()
    exec(compile("pass\n", "<string>", "exec", dont_inherit=True), fresh_main().__dict__)  # noqa: S102  as above
    flush()
    gc.collect()


# --- A fork ---------------------------------------------------------------------------------------------------------


class Order:
    """What a fork is to become."""

    def __init__(
        self, body: Mapping[str, Any], streams: Sequence[int], names: frozenset[str], known: frozenset[str]
    ) -> None:
        self.argv: list[str] = body["argv"]
        self.env: dict[str, str] = body["env"]
        self.cwd: str = body["cwd"]
        self.streams = streams
        self.names = names
        self.known = known

    def program(self) -> Callable[[], None]:
        """Takes on all but the program itself and returns that; does not return where only a fresh one will do."""
        for number, stream in enumerate(self.streams):
            os.dup2(stream, number)
            os.close(stream)
        try:
            self._settle()
            program = program_of(self.argv)
        except BaseException:  # noqa: BLE001  the fresh one will say what is wrong
            program = None
        if program is None:
            self._afresh()
        return program

    def _settle(self) -> None:
        os.chdir(self.cwd)
        VARIABLES.clear()
        VARIABLES.update(self.env)
        if "TZ" in self.env:
            import time  # noqa: PLC0415  imported long ago

            time.tzset()
        sys.orig_argv = list(self.argv)
        sys.path[:0] = path_variable(self.env.get("PYTHONPATH", ""))
        sys.path[:] = dict.fromkeys(sys.path)
        first, sys.argv = first_path(self.argv)
        if any(
            shadows(folder, self.names) for folder in (first, *self._handlers(), *sys.path[: self._own()])
        ):
            raise ImportError("modules of the skill come first")
        sys.path.insert(0, first)
        open_streams()
        libc().prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)

    def _handlers(self) -> list[str]:
        """Returns where a handler finds its modules, which its shim puts in place of its own folder."""
        return [os.path.dirname(self.argv[2])] if self.argv[1] == SHIM and len(self.argv) > 2 else []  # noqa: PLR2004

    def _own(self) -> int:
        """Returns how many folders come before Python's own."""
        return next((at for at, folder in enumerate(sys.path) if folder.startswith("/usr/lib/python")), 0)

    def _afresh(self) -> Never:
        import signal  # noqa: PLC0415  imported long ago

        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and a fresh program does not
            signal.signal(number, signal.SIG_DFL)
        try:
            os.chdir(self.cwd)
            os.execve(PYTHON, self.argv, self.env)  # noqa: S606  no shell is wanted
        finally:
            os._exit(126)


def path_variable(value: str) -> list[str]:
    """Returns the folders of PYTHONPATH as an interpreter has them."""
    return [os.path.abspath(folder) for folder in value.split(":")] if value else []


def first_path(argv: Sequence[str]) -> tuple[str, list[str]]:
    """Returns where modules are looked for first, and `sys.argv`."""
    if argv[1] == "-c":
        return "", ["-c", *argv[3:]]
    if argv[1] == "-m":
        return os.getcwd(), ["-m", *argv[3:]]
    return os.path.dirname(os.path.realpath(argv[1])), list(argv[1:])


def shadows(folder: str, names: frozenset[str]) -> bool:
    """Whether a folder has a module of a name that is imported already; a folder without `__init__` is none."""
    try:
        found = [entry for entry in os.listdir(folder or ".") if entry.partition(".")[0] in names]
    except OSError:
        return False
    return any(is_module(f"{folder or '.'}/{entry}") for entry in found)


def is_module(path: str) -> bool:
    """Whether something can be imported from there, by what it is called."""
    from importlib.machinery import all_suffixes  # noqa: PLC0415  the runner has no need of it

    suffixes = tuple(all_suffixes())
    return path.endswith(suffixes) or any(os.path.exists(f"{path}/__init__{end}") for end in suffixes)


def open_streams() -> None:
    """Opens the standard streams anew, as the interpreter does at its start: they remember what they are."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        stream = _opened(number, name, old.encoding, old.errors)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _opened(number: int, name: str, encoding: str, errors: str) -> Any:  # noqa: ANN401  what `sys` has there
    import io  # noqa: PLC0415  imported long ago

    writes = number > 0
    binary: Any = open(number, "wb" if writes else "rb", buffering=0 if writes else -1, closefd=False)  # noqa: SIM115
    (binary if writes else binary.raw).name = f"<{name}>"
    stream: Any = io.TextIOWrapper(binary, encoding, errors, newline="\n", write_through=True)
    stream.mode = "w" if writes else "r"
    return stream


def program_of(argv: Sequence[str]) -> Callable[[], None] | None:
    """Returns the program, ready to run as `__main__`; None for what only a fresh interpreter can run."""
    module = fresh_main()
    if argv[1] == "-m":
        import runpy  # noqa: PLC0415  imported long ago

        return lambda: runpy._run_module_as_main(argv[2])  # type: ignore[attr-defined]  # noqa: SLF001
    if argv[1] == "-c":
        return command(module, argv[2])
    return script(module, argv[1])


def fresh_main() -> ModuleType:
    """Returns a new `__main__`, as it is before anything has run."""
    from importlib.machinery import BuiltinImporter  # noqa: PLC0415  imported long ago

    module = type(sys)("__main__")
    module.__dict__.update(__loader__=BuiltinImporter, __builtins__=__builtins__, __annotations__={})
    sys.modules["__main__"] = module
    return module


def command(module: ModuleType, text: str) -> Callable[[], None]:
    """Returns the program that `-c` gives."""
    text.encode()  # raises for what was no UTF-8

    def run() -> None:
        import linecache  # noqa: PLC0415  imported long ago

        code = compile(f"{text}\n", "<string>", "exec", dont_inherit=True)
        register = getattr(
            linecache, "_register_code", None
        )  # Python 3.13 shows the lines of it in tracebacks
        if register:
            register(code, text, "<string>")
        exec(code, module.__dict__)  # noqa: S102  that is what this program is for

    return run


def script(module: ModuleType, path: str) -> Callable[[], None] | None:
    """Returns the program in a file, None for one in a folder or an archive; raises OSError."""
    import pkgutil  # noqa: PLC0415  imported long ago
    from importlib.machinery import SourceFileLoader, SourcelessFileLoader  # noqa: PLC0415  as above

    path = absolute(path)
    if pkgutil.get_importer(path) is not None or not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith(".py") and b"\0" in data:  # which it calls by another name
        return None
    kind = SourcelessFileLoader if path.endswith(".pyc") else SourceFileLoader
    module.__dict__.update(__file__=path, __cached__=None, __loader__=kind("__main__", path))

    def run() -> None:
        code = compiled(data) if path.endswith(".pyc") else compile(data, path, "exec", dont_inherit=True)
        try:
            exec(code, module.__dict__)  # noqa: S102  that is what this program is for
        finally:
            module.__dict__.pop("__file__", None)
            module.__dict__.pop("__cached__", None)

    return run


def absolute(path: str) -> str:
    """Returns the path as the interpreter spells it."""
    return path if path.startswith("/") else f"{os.getcwd()}/{path}"


def compiled(data: bytes) -> CodeType:
    """Returns what a file of bytecode holds; raises RuntimeError for one of another Python."""
    import marshal  # noqa: PLC0415  imported long ago
    from importlib.util import MAGIC_NUMBER  # noqa: PLC0415  as above

    if data[: len(MAGIC_NUMBER)] != MAGIC_NUMBER:
        raise RuntimeError("Bad magic number in .pyc file")
    code: CodeType = marshal.loads(data[16:])  # noqa: S302  as Python itself runs it
    return code


# --- The end of a fork ----------------------------------------------------------------------------------------------

INTERRUPTED = -1
"""Stands for the end by SIGINT, in place of an exit status."""

UNFLUSHED = 120
"""What the interpreter exits with where the last of its output cannot be written."""


def outcome(program: Callable[[], None]) -> int:
    """Runs the program; returns its exit status, or INTERRUPTED, with what nothing has caught told."""
    error = uncaught(program)
    if error is None or isinstance(error, SystemExit):
        return exit_status(error)
    error.__traceback__ = without_ours(error)
    ending = show(error)
    if ending is not None:
        return exit_status(ending)
    return INTERRUPTED if type(error) is KeyboardInterrupt else 1


def uncaught(call: Callable[..., object], *args: object) -> BaseException | None:
    """Calls and returns what was raised, to be told outside of here: else it would be the context of the next."""
    try:
        call(*args)
    except BaseException as error:  # noqa: BLE001  whatever the program raises
        return error
    return None


def exit_status(error: SystemExit | None) -> int:
    """Returns what it stands for; prints what is no number."""
    if error is None or error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF if -(2**63) <= error.code < 2**63 else 0xFF
    print(error.code, file=sys.stderr)  # noqa: T201  as the interpreter does
    return 1


def show(error: BaseException) -> SystemExit | None:
    """Calls the hook for such exceptions, which the program may have changed, and tells where that fails.

    Returns the exit that the hook has asked for.
    """
    last = {"exc": error, "value": error, "type": type(error), "traceback": error.__traceback__}
    for name, value in last.items():
        setattr(sys, f"last_{name}", value)
    another = uncaught(sys.excepthook, type(error), error, error.__traceback__)
    if another is None or isinstance(another, SystemExit):
        return another
    another.__traceback__ = without_ours(another)
    for title, told in (("Error in sys.excepthook:", another), ("\nOriginal exception was:", error)):
        print(title, file=sys.stderr)  # noqa: T201  in the interpreter's words
        sys.__excepthook__(type(told), told, told.__traceback__)
    return None


def without_ours(error: BaseException) -> Any:  # noqa: ANN401  a traceback or None
    """Returns the traceback from the first frame of the program on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == show.__code__.co_filename:
        trace = trace.tb_next
    return trace


def leave(status: int, known: frozenset[str]) -> Never:
    """Ends as the interpreter does, in its order, but for taking itself apart: that took longer than most programs.

    `known` are the modules that were there before the program. Threads that nobody waits for must not see the program
    taken apart, which only the interpreter can see to.
    """
    import atexit  # noqa: PLC0415  imported long ago
    import threading  # noqa: PLC0415  as above

    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001  as the interpreter calls it
    atexit._run_exitfuncs()  # noqa: SLF001  as above  # pyright: ignore[reportPrivateUsage]
    if threading.active_count() > 1:
        sys.exit(status)  # an interrupt of such a program is told as the exit that it is to a shell
    flushed = flush()
    take_apart(known)
    flushed = flush() and flushed
    if status == INTERRUPTED:
        die_of_interrupt()
    libc().fflush(None)
    os._exit(status if flushed else UNFLUSHED)


def flush() -> bool:
    """Writes what is left of the output; returns whether that went well, telling where it did not."""
    failures = [uncaught(flush_one, stream) for stream in (sys.stdout, sys.stderr)]
    told = failures[0]
    if told is not None:
        print("Exception ignored on flushing sys.stdout:", file=sys.stderr)  # noqa: T201  in the interpreter's words
        sys.__excepthook__(type(told), told.with_traceback(None), None)
    return not any(failures)


def flush_one(stream: Any) -> None:  # noqa: ANN401  the program may have put anything there
    """Writes what is left of one stream, unless it is closed."""
    if stream is not None and not stream.closed:
        stream.flush()


def take_apart(known: frozenset[str]) -> None:
    """Lets go of the modules of the program, so that its objects end: files are written, `__del__` is called."""
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        setattr(sys, name, None)
    for name in ("stdin", "stdout", "stderr"):
        setattr(sys, name, getattr(sys, f"__{name}__"))
    names = [name for name in sys.modules if name == "__main__" or name not in known]
    modules = [sys.modules.pop(name) for name in names]
    for module in reversed(
        modules
    ):  # one by one: a collection might close what a file writes to before the file
        if hasattr(module, "__dict__"):
            empty(module.__dict__)
    gc.collect()


def empty(namespace: dict[str, object]) -> None:
    """Sets all names to None."""
    for name in list(namespace):
        if name != "__builtins__":
            namespace[name] = None


def die_of_interrupt() -> None:
    """Ends this process by SIGINT, so that whoever waits for it sees it interrupted."""
    import signal  # noqa: PLC0415  imported long ago

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def main() -> Never:
    """Serves; in a fork runs the program."""
    order = serve(0)
    leave(outcome(order.program()), order.known)


if __name__ == "__main__":
    main()

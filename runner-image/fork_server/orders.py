"""A fork that takes on what its order says."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from .programs import program_of
from .terms import PR_SET_DUMPABLE, PYTHON, VARIABLES, libc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Never

SHIM = "/opt/sandbox-skills/handlers/python.pyc"
"""What calls the handlers of tools."""


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

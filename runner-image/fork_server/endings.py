"""The end of a fork, told as an interpreter tells it."""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

from .terms import libc

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Never


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

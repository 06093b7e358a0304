"""The programs that every fake box has, and what such a program sees."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections import deque
from signal import SIGINT
from typing import TYPE_CHECKING, Literal

from sandbox_skills.engines.stdin import Stdin
from sandbox_skills.engines.wire import Kind
from sandbox_skills.spec import WORKSPACE, Signalled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import PurePosixPath

    from sandbox_skills.engines.base import OutputSink
    from sandbox_skills.spec import Command, Ending, Limits, TerminalSize

    StreamName = Literal["stdout", "stderr"]

INTERRUPT, END_OF_FILE = b"\x03", b"\x04"
"""What a terminal makes of ^C and ^D."""


class OutputLimitError(Exception):
    """The program wrote more than a run may; ends it from within its own write."""


class KilledError(Exception):
    """The program was ended by a signal."""

    def __init__(self, signal: int) -> None:
        super().__init__(signal)
        self.signal = signal


class Input:
    """The reading end of a program's input; `fed` is the other end, with the flow control of a real one."""

    def __init__(self) -> None:
        self.fed = Stdin(self._arrive)
        self._pieces: deque[bytes] = deque()
        self._rest = b""
        self._ended = False
        self._arrived = asyncio.Event()

    def _arrive(self, kind: Kind, data: bytes = b"", /) -> None:
        if kind is Kind.CLOSE_STDIN:
            self._ended = True
        else:
            self._pieces.append(data)
        self._arrived.set()

    async def read(self) -> bytes:
        """Returns what comes next, nothing at the end."""
        if self._rest:
            data, self._rest = self._rest, b""
            return data
        while not self._pieces and not self._ended:
            self._arrived.clear()
            await self._arrived.wait()
        if not self._pieces:
            return b""
        data = self._pieces.popleft()
        self.fed.grant(len(data))
        return data

    async def read_line(self) -> bytes:
        """Returns the next line with its newline, what is left at the end."""
        line = b""
        while b"\n" not in line and (data := await self.read()):
            line += data
        line, newline, self._rest = line.partition(b"\n")
        return line + newline


class Keyboard(Input):
    """The input of a program on a terminal: shows what is typed, and knows two keys."""

    def __init__(self, echo: Callable[[bytes], None], interrupt: Callable[[], None]) -> None:
        super().__init__()
        self._echo = echo
        self._interrupt = interrupt

    def _arrive(self, kind: Kind, data: bytes = b"", /) -> None:
        typed, end, _ = data.replace(b"\r", b"\n").partition(END_OF_FILE)
        if INTERRUPT in typed:
            self._interrupt()
        self._echo(typed)
        if typed:
            super()._arrive(Kind.STDIN, typed)
        if end or kind is Kind.CLOSE_STDIN:
            super()._arrive(Kind.CLOSE_STDIN)


class Running:
    """What a program of the fake engine sees, and what is kept of it."""

    def __init__(
        self,
        command: Command,
        files: dict[PurePosixPath, bytes],
        limits: Limits,
        on_output: OutputSink | None,
        tty: TerminalSize | None = None,
    ) -> None:
        self.command = command
        self.files = files
        self.limits = limits
        self.tty = tty
        self.stopped: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self.kept = {"stdout": bytearray(), "stderr": bytearray()}
        self.total = {"stdout": 0, "stderr": 0}
        self.input = (
            Input() if tty is None else Keyboard(self._emit, lambda: self.stop(Signalled(int(SIGINT))))
        )
        self._on_output = on_output

    def stop(self, ending: Ending) -> None:
        """Ends the program from outside, unless that was done."""
        if not self.stopped.done():
            self.stopped.set_result(ending)

    def write(self, data: bytes, stream: StreamName = "stdout") -> None:
        """Writes to a stream of the program."""
        self._emit(data, stream)
        if sum(self.total.values()) > self.limits.output_bytes:
            raise OutputLimitError

    def _emit(self, data: bytes, stream: StreamName = "stdout") -> None:
        if self.tty is not None:
            data, stream = data.replace(b"\n", b"\r\n"), "stdout"
        self.total[stream] += len(data)
        cap = self.limits.stdout_bytes if stream == "stdout" else self.limits.stderr_bytes
        self.kept[stream] += data[: max(0, cap - len(self.kept[stream]))]
        if data and self._on_output is not None:
            self._on_output(stream, data)

    def path(self, text: str) -> PurePosixPath:
        """Returns a path below the workspace, as the command's directory reads it."""
        return (self.command.cwd / text).relative_to(WORKSPACE)


if TYPE_CHECKING:
    Program = Callable[[Running], Awaitable[int]]
    """Returns the exit code."""


async def not_found(run: Running) -> int:
    """Answers for a program that the box does not have."""
    run.write(f"{run.command.argv[0]}: command not found\n".encode(), "stderr")
    return 127


async def _true(_run: Running) -> int:
    return 0


async def _false(_run: Running) -> int:
    return 1


async def _echo(run: Running) -> int:
    run.write(" ".join(run.command.argv[1:]).encode() + b"\n")
    return 0


async def _cat(run: Running) -> int:
    if len(run.command.argv) == 1:
        while data := await run.input.read():
            run.write(data)
    for name in run.command.argv[1:]:
        content = run.files.get(run.path(name))
        if content is None:
            run.write(f"cat: {name}: No such file or directory\n".encode(), "stderr")
            return 1
        run.write(content)
    return 0


async def _tee(run: Running) -> int:
    data = bytearray()
    while piece := await run.input.read():
        run.write(piece)
        data += piece
    for name in run.command.argv[1:]:
        run.files[run.path(name)] = bytes(data)
    return 0


async def _cp(run: Running) -> int:
    """Copies a file or folder as `cp -RPT` does; the options are taken as given."""
    source, target = (run.path(name) for name in run.command.argv[-2:])
    copies = {
        target / path.relative_to(source): data
        for path, data in run.files.items()
        if path.is_relative_to(source)
    }
    if not copies:
        run.write(f"cp: cannot stat '{run.command.argv[-2]}': No such file or directory\n".encode(), "stderr")
        return 1
    run.files.update(copies)
    return 0


async def _rm(run: Running) -> int:
    """Removes a file as `rm -f` does; the options are taken as given."""
    path = run.path(run.command.argv[-1])
    run.files.pop(path, None)
    return 1 if any(other.is_relative_to(path) for other in run.files) else 0


async def _find(_run: Running) -> int:
    """Finds no folders and no links: a fake box has none."""
    return 0


async def _sleep(run: Running) -> int:
    await asyncio.sleep(float(run.command.argv[1]))
    return 0


async def _printenv(run: Running) -> int:
    value = run.command.env.get(run.command.argv[1])
    if value is not None:
        run.write(value.encode() + b"\n")
    return 0 if value is not None else 1


async def _yes(run: Running) -> int:
    while True:
        run.write(b"y\n" * 4096)
        await asyncio.sleep(0)


async def _stty(run: Running) -> int:
    """Knows `stty size`."""
    if run.tty is None:
        run.write(b"stty: 'standard input': Inappropriate ioctl for device\n", "stderr")
        return 1
    run.write(f"{run.tty.rows} {run.tty.cols}\n".encode())
    return 0


async def _sh(run: Running) -> int:
    """Knows as much shell as the contract asks of an engine: `exit kill echo printf read`, one after another."""
    variables: dict[str, str] = {}
    for statement in run.command.argv[-1].split(";"):
        words = [
            re.sub(r"\$(\w+)", lambda match: variables.get(match[1], ""), word)
            for word in shlex.split(statement)
        ]
        match words:
            case ["exit", code]:
                return int(code)
            case ["kill", signal, "$$"]:
                raise KilledError(int(signal.lstrip("-")))
            case ["echo", *texts]:
                run.write(" ".join(texts).encode() + b"\n")
            case ["printf", text]:
                run.write(text.encode())
            case ["read", name]:
                variables[name] = (await run.input.read_line()).decode().rstrip("\n")
            case _:
                run.write(b"sh: the fake engine has no such shell\n", "stderr")
                return 127
    return 0


PROGRAMS: Mapping[str, Program] = {
    "true": _true,
    "false": _false,
    "echo": _echo,
    "cat": _cat,
    "tee": _tee,
    "cp": _cp,
    "rm": _rm,
    "find": _find,
    "chmod": _true,
    "rmdir": _true,
    "sleep": _sleep,
    "printenv": _printenv,
    "yes": _yes,
    "stty": _stty,
    "sh": _sh,
}
"""What every fake box has. A real box has the image's programs of these names, and the contract compares them."""

"""A host for the runner: starts it over a socketpair, outside any container, and speaks its frames."""

from __future__ import annotations

import importlib.util
import itertools
import os
import select
import shutil
import socket
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, Unpack

import pytest

from sandbox_skills.engines.wire import STDIN_WINDOW, Decoder, Frame, Kind, encode, encode_chunks
from tests.programs import FORK_SERVER, RECORDER, RUNNER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType

SYSTEM_PYTHON = "/usr/bin/python3"
"""A Python that another uid can start too."""

PATIENCE = 10.0
"""Seconds any answer may take here: a hundred times what it does, less than a test may."""

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


class Options(TypedDict, total=False):
    """What a run is asked with: seconds and bytes."""

    cwd: str
    env: Mapping[str, str]
    stream: bool
    wall: float
    cpu: float | None
    stdout: int
    stderr: int
    output: int
    tty: tuple[int, int] | None
    places: Mapping[str, object] | None
    record: Sequence[str] | None
    look_into: str


@dataclass
class Finished:
    """All that was heard of one run."""

    ended: dict[str, Any]
    stdout: bytes = b""
    stderr: bytes = b""
    kinds: list[Kind] = field(default_factory=list[Kind])

    @property
    def ending(self) -> tuple[object, object, object]:
        return self.ended["exit"], self.ended["signal"], self.ended["stopped"]


@dataclass
class Collected:
    """All that was heard of one collection."""

    end: dict[str, Any]
    files: dict[str, tuple[dict[str, Any], bytes]]

    @property
    def contents(self) -> dict[str, bytes]:
        return {path: data for path, (_, data) in self.files.items()}


class Refusal(Exception):  # noqa: N818  # the runner's answer, raised so that a test can expect it
    """An ERROR frame."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Host:
    """One runner, and this end of its channel."""

    def __init__(
        self, workspace: Path, skills: Path, *, prefix: Sequence[str] = (), user: int | None = None
    ) -> None:
        self.workspace = workspace
        self.skills = skills
        self.channel, inner = socket.socketpair()
        self.channel.settimeout(PATIENCE)
        python, runner = sys.executable, RUNNER
        if user is not None:
            prefix = (*prefix, "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups")
            python, runner = SYSTEM_PYTHON, _readable_copy(workspace)
        argv = [*prefix, python, "-I", "-S", "-B", str(runner)]
        argv += ["--workspace", str(workspace), "--skills", str(skills)]
        with inner:
            self.process = subprocess.Popen(
                argv, stdin=inner.fileno(), stdout=inner.fileno(), env=ENVIRONMENT
            )
        self._decoder = Decoder()
        self._arrived: deque[Frame] = deque()
        self._refs = itertools.count(1)

    # Frames

    def ref(self) -> int:
        return next(self._refs)

    def send(self, kind: Kind, ref: int, payload: bytes | Mapping[str, Any] = b"") -> None:
        self.channel.sendall(encode(kind, ref, payload))

    def next(self, ref: int | None = None) -> Frame:
        """Returns the next frame, of one request if `ref` is given; raises Refusal for ERROR."""
        while True:
            for frame in self._arrived:
                if ref is None or frame.ref == ref:
                    self._arrived.remove(frame)
                    return _checked(frame)
            self._receive()

    def silent(self, seconds: float) -> bool:
        """Tells whether nothing comes in that time."""
        return not self._arrived and not select.select([self.channel], [], [], seconds)[0]

    def _receive(self) -> None:
        data = self.channel.recv(1 << 20)
        if not data:
            raise EOFError("the runner has closed the channel")
        self._arrived.extend(self._decoder.feed(data))

    def ask(self, kind: Kind, payload: bytes | Mapping[str, Any] = b"") -> dict[str, Any]:
        """Sends a request with one answer."""
        ref = self.ref()
        self.send(kind, ref, payload)
        return self.next(ref).json()

    def descriptors(self) -> int:
        """Returns how many descriptors the runner has between two runs.

        When it answers, those of the last run are closed and the pipes of the next one are made: both come after the
        last run's ENDED, so that nobody waits for them.
        """
        self.ask(Kind.PING)
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    # Runs

    def start(self, *argv: str, stdin: Literal["none", "pipe"] = "none", **options: Unpack[Options]) -> int:
        """Starts a run and returns its ref."""
        ref = self.ref()
        with_place: Options = {"cwd": str(self.workspace), **options}
        self.send(Kind.RUN, ref, order(*argv, stdin=stdin, **with_place))
        return ref

    def finish(self, ref: int) -> Finished:
        """Waits for the ENDED of a run."""
        streams = {Kind.STDOUT: bytearray(), Kind.STDERR: bytearray()}
        kinds: list[Kind] = []
        while True:
            frame = self.next(ref)
            kinds.append(frame.kind)
            if frame.kind is Kind.ENDED:
                return Finished(frame.json(), bytes(streams[Kind.STDOUT]), bytes(streams[Kind.STDERR]), kinds)
            if frame.kind in streams:
                streams[frame.kind] += frame.payload

    def run(self, *argv: str, stdin: bytes | None = None, **options: Unpack[Options]) -> Finished:
        """Runs one command to its end."""
        ref = self.start(*argv, stdin="none" if stdin is None else "pipe", **options)
        if stdin is not None:
            self.feed(ref, stdin)
            self.send(Kind.CLOSE_STDIN, ref)
        return self.finish(ref)

    def feed(self, ref: int, data: bytes) -> None:
        """Sends standard input as far as the runner grants it, all of it unless the program ends or closes it."""
        window = STDIN_WINDOW
        for frame in encode_chunks(Kind.STDIN, ref, data):
            while window < len(frame):
                reply = self._next_of(ref, Kind.STDIN_CREDIT, Kind.STDIN_CLOSED, Kind.ENDED)
                if reply.kind is not Kind.STDIN_CREDIT:
                    self._arrived.append(reply)
                    return
                window += int(reply.json()["bytes"])
            self.channel.sendall(frame)
            window -= len(frame)

    def _next_of(self, ref: int, *kinds: Kind) -> Frame:
        while True:
            for frame in self._arrived:
                if frame.ref == ref and frame.kind in kinds:
                    self._arrived.remove(frame)
                    return frame
            self._receive()

    def shell(self, text: str, *, stdin: bytes | None = None, **options: Unpack[Options]) -> Finished:
        return self.run("bash", "-c", text, stdin=stdin, **options)

    def python(self, text: str, *arguments: str, **options: Unpack[Options]) -> Finished:
        return self.run(sys.executable, "-I", "-S", "-c", text, *arguments, **options)

    def wait_for(self, name: str) -> Path:
        """Waits until a program has made a file in the workspace."""
        path = self.workspace / name
        self.until(path.exists)
        return path

    def until(self, holds: Callable[[], bool]) -> None:
        """Waits until something holds, of which nobody is told."""
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def programs(self) -> list[str]:
        """Returns the command lines of all that runs below the runner."""
        return _command_lines(self.process.pid)

    # Files

    def put(self, path: str, data: bytes, *, mode: int = 0o644) -> int:
        ref = self.ref()
        self.send(Kind.PUT, ref, {"path": path, "mode": mode})
        for frame in encode_chunks(Kind.CHUNK, ref, data):
            self.channel.sendall(frame)
        self.send(Kind.CHUNKS_END, ref)
        size: int = self.next(ref).json()["size"]
        return size

    def get(self, path: str, *, max_bytes: int = 1 << 30) -> tuple[bytes, dict[str, Any]]:
        ref = self.ref()
        self.send(Kind.GET, ref, {"path": path, "max_bytes": max_bytes})
        data = bytearray()
        while (frame := self.next(ref)).kind is Kind.DATA:
            data += frame.payload
            self.send(Kind.CREDIT, ref, {"bytes": len(frame.payload)})
        return bytes(data), frame.json()

    def collect(self, *patterns: str, **limits: int) -> Collected:
        ref = self.ref()
        caps = {"files": 100_000, "file_bytes": 1 << 30, "total_bytes": 1 << 30, **limits}
        self.send(Kind.COLLECT, ref, {"patterns": list(patterns), **caps})
        files: dict[str, tuple[dict[str, Any], bytearray]] = {}
        awaited: list[tuple[int, bytearray]] = []
        while (frame := self.next(ref)).kind is not Kind.END:
            if frame.kind is Kind.FILES:
                awaited = []
                for path, size, mode, take in frame.json()["files"]:
                    content = bytearray()
                    files[path] = {"path": path, "size": size, "mode": mode, "take": take}, content
                    awaited.append((take, content))
            else:
                data = frame.payload
                for take, content in awaited:
                    missing = take - len(content)
                    content.extend(data[:missing])
                    data = data[missing:]
                assert not data
                self.send(Kind.CREDIT, ref, {"bytes": len(frame.payload)})
        return Collected(frame.json(), {path: (head, bytes(data)) for path, (head, data) in files.items()})

    # The end

    def close(self) -> int:
        """Hangs up; returns the runner's exit code."""
        self.channel.close()
        return self.process.wait(PATIENCE)


def _readable_copy(workspace: Path) -> Path:
    """Returns a copy of the runner beside the workspace: another uid may not be able to read the checkout."""
    copy = workspace.parent / "runner.py"
    shutil.copyfile(RUNNER, copy)
    recorder = workspace.parent / "recorder.py"
    shutil.copyfile(RECORDER, recorder)
    for path in (copy, recorder, *workspace.parents):
        if path.is_relative_to("/tmp") and path != Path("/tmp"):
            path.chmod(0o755)
    return copy


def _command_lines(ancestor: int) -> list[str]:
    found: list[str] = []
    with suppress(OSError):  # one that has ended meanwhile
        for pid in Path(f"/proc/{ancestor}/task/{ancestor}/children").read_text().split():
            with suppress(OSError):
                found.append(" ".join(Path(f"/proc/{pid}/cmdline").read_text().split("\0")[:-1]))
            found += _command_lines(int(pid))
    return found


def order(*argv: str, stdin: str = "none", **options: Unpack[Options]) -> dict[str, Any]:
    """Returns the payload of a RUN."""
    tty = options.get("tty")
    limits = {
        "wall": options.get("wall", 10.0),
        "cpu": options.get("cpu"),
        "stdout": options.get("stdout", 1 << 20),
        "stderr": options.get("stderr", 1 << 20),
        "output": options.get("output", 1 << 40),
    }
    return {
        "argv": list(argv),
        "env": dict(options.get("env", ENVIRONMENT)),
        "cwd": options.get("cwd", "/"),
        "stdin": stdin,
        "tty": None if tty is None else {"rows": tty[0], "cols": tty[1]},
        "stream": options.get("stream", False),
        "limits": limits,
        "places": options.get("places"),
        "record": options.get("record"),
        "look_into": options.get("look_into"),
    }


def _checked(frame: Frame) -> Frame:
    if frame.kind is Kind.ERROR:
        body = frame.json()
        raise Refusal(body["code"], body["message"])
    return frame


class StartHost(Protocol):
    """Starts runners that end with the test."""

    def __call__(
        self,
        workspace: Path | None = None,
        *,
        prefix: Sequence[str] = (),
        user: int | None = None,
        hello: bool = True,
    ) -> Host: ...


@pytest.fixture
def start_host(tmp_path: Path) -> Iterator[StartHost]:
    hosts: list[Host] = []

    def start(
        workspace: Path | None = None,
        *,
        prefix: Sequence[str] = (),
        user: int | None = None,
        hello: bool = True,
    ) -> Host:
        place = workspace or tmp_path / f"workspace-{len(hosts)}"
        skills = tmp_path / "skills"
        for path in (place, skills):
            path.mkdir(exist_ok=True)
        if user is not None:
            os.chown(place, user, user)
        host = Host(place, skills, prefix=prefix, user=user)
        hosts.append(host)
        if hello:
            assert host.next().kind is Kind.HELLO
        return host

    yield start
    for host in hosts:
        host.channel.close()
        if host.process.poll() is None:
            host.process.wait(PATIENCE)


@pytest.fixture
def host(start_host: StartHost) -> Host:
    """One runner that has said HELLO."""
    return start_host()


@pytest.fixture(scope="session")
def runner_module() -> ModuleType:
    """The runner's own code, for its pure parts."""
    return _loaded(RUNNER)


@pytest.fixture(scope="session")
def recorder_module() -> ModuleType:
    """The recorder's own code, for its pure parts."""
    return _loaded(RECORDER)


@pytest.fixture(scope="session")
def fork_server_module() -> ModuleType:
    """The fork server's own code, for its pure parts."""
    return _loaded(FORK_SERVER)


def _loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{path.stem}_under_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

"""A fetch whose process is killed, whose server leads elsewhere, or whose disk is full."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.catalog import LockFile
from sandbox_skills.errors import EngineError, SourceError
from sandbox_skills.install import leash
from sandbox_skills.install.library import Library
from sandbox_skills.install.source import parse_source
from sandbox_skills.install.trust import Trust
from tests.processes import processes_with, wait_until_none_has

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SKILL = "---\nname: sums\ndescription: Adds.\n---\nBody\n"

ADD = """
import sys
from sandbox_skills.cli.main import run_program
sys.exit(run_program(["add", sys.argv[1]]))
"""


def fetch(root: Path, source: str) -> Path:
    library = Library(root, Trust(LockFile(root.parent / "skills.lock")))
    with library.incoming() as incoming:
        return library.place(asyncio.run(library.fetch(parse_source(source, base=root.parent), incoming)))


def test_git_with_its_helpers_ends_with_the_process_that_was_killed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/never.git"
        environment = {
            "PATH": os.environ["PATH"],  # noqa: TID251  # the environment of a child
            "HOME": str(tmp_path),
            "SANDBOX_SKILLS_DATA_DIR": str(tmp_path / "data"),
        }
        with subprocess.Popen(
            [sys.executable, "-c", ADD, url],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            connection, _ = silent.accept()
            with connection:
                assert any("remote-http" in line for line in processes_with(url))
                process.send_signal(signal.SIGKILL)
                process.wait()
                wait_until_none_has(url)
    library = tmp_path / "data" / "skills"
    assert [path.name[:10] for path in library.iterdir()] == [".incoming-"]
    assert len(Library(library, Trust(LockFile(tmp_path / "skills.lock"))).sweep()) == 1
    assert list(library.iterdir()) == []


def leashed(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", leash.__file__, *arguments],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize(("script", "code"), [("exit 7", 7), ("kill -TERM $$", 143), ("read x; exit 3", 3)])
def test_a_leashed_program_gives_its_own_code(script: str, code: int) -> None:
    with leashed("1000", "sh", "-c", script) as process:
        assert process.wait() == code


def test_a_leashed_program_that_is_not_there_is_not_found() -> None:
    with leashed("1000", "/nowhere") as process:
        assert process.wait() == leash.NOT_FOUND


def test_a_leashed_program_writes_no_large_file_and_says_so(tmp_path: Path) -> None:
    with leashed("1000", "dd", "if=/dev/zero", f"of={tmp_path}/file", "bs=3000", "count=1") as process:
        assert process.stderr is not None
        assert "File too large" in process.stderr.read()
        assert process.wait() == 1
    assert (tmp_path / "file").stat().st_size == 1000


def test_what_a_leashed_program_started_ends_when_the_pipe_closes(tmp_path: Path) -> None:
    mark = f"1{time.time_ns() % 10**8}.5"
    with leashed("1000", "sh", "-c", f"trap '' TERM HUP; (sleep {mark} & wait) & wait") as process:
        while not any(line.startswith("sleep") for line in processes_with(mark)):
            time.sleep(0.01)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    wait_until_none_has(mark)


class _Elsewhere(BaseHTTPRequestHandler):
    """Sends every request below /moved to /hidden, and writes down what arrives there."""

    def do_GET(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            if "/moved" in self.path:
                self.send_response(302)
                self.send_header("Location", self.path.replace("/moved", "/hidden"))
            else:
                assert isinstance(self.server, Server)
                self.server.reached.append(self.path)
                self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        pass


class Server(ThreadingHTTPServer):
    """One server for a test."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Elsewhere)
        self.reached: list[str] = []


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.mark.parametrize("scheme", ["http", "HTTP"])
def test_git_is_led_nowhere_else(server: Server, tmp_path: Path, scheme: str) -> None:
    with pytest.raises(SourceError, match="git cannot take it") as caught:
        fetch(tmp_path / "installed", f"{scheme}://127.0.0.1:{server.server_port}/moved.git")
    assert server.reached == []
    assert "name that address" in caught.value.hint


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 512 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)


def make_source(kind: str, place: Path) -> str:
    folder = place / "sums"
    folder.mkdir()
    (folder / "SKILL.md").write_text(SKILL)
    (folder / "noise").write_bytes(os.urandom(700_000))
    if kind == "zip":
        with zipfile.ZipFile(place / "sums.zip", "w") as archive:
            for file in folder.iterdir():
                archive.write(file, f"sums/{file.name}")
        return str(place / "sums.zip")
    if kind == "repository":
        run = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org"]
        for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
            subprocess.run([*run, *words], check=True)
        return f"git+{folder}"
    return str(folder)


@pytest.mark.root
@pytest.mark.parametrize("kind", ["folder", "zip", "repository"])
def test_a_full_disk_is_told_as_ours_and_leaves_nothing(small_disk: Path, tmp_path: Path, kind: str) -> None:
    source = make_source(kind, tmp_path)
    with pytest.raises(EngineError, match="No space left on device"):
        fetch(small_disk / "installed", source)
    assert list((small_disk / "installed").iterdir()) == []


@pytest.mark.root
def test_a_disk_that_is_full_before_is_told_as_ours(small_disk: Path, tmp_path: Path) -> None:
    source = make_source("repository", tmp_path)
    (small_disk / "installed").mkdir()
    with (small_disk / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while filler.write(bytes(4096)):
            pass
    with pytest.raises(EngineError, match="No space left on device"):
        fetch(small_disk / "installed", source)

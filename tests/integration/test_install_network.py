"""Skills that come over HTTP and from Git, from real servers on this host."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import subprocess
import tarfile
import threading
import time
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.catalog import LockFile
from sandbox_skills.errors import SourceError
from sandbox_skills.install.library import Library
from sandbox_skills.install.limits import FetchLimits
from sandbox_skills.install.source import parse_source
from sandbox_skills.install.trust import Trust
from tests.processes import wait_until_none_has

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SKILL = "---\nname: sums\ndescription: Adds.\n---\nBody\n"
GIT = {
    **os.environ,  # noqa: TID251  # the environment of a child
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


def archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        opened.writestr("repo-main/skills/sums/SKILL.md", SKILL)
    return buffer.getvalue()


class _Handler(BaseHTTPRequestHandler):
    """A few addresses, each with its own way to go wrong, and Git's own server below /git/."""

    server: Server

    def do_GET(self) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if self.path.startswith("/git/"):
                self._git(b"")
            else:
                getattr(self, "_" + self.path.strip("/").partition(".")[0], self._missing)()

    def do_POST(self) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._git(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        pass

    def _answer(self, data: bytes, code: int = 200, **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _missing(self) -> None:
        self._answer(b"no", 404)

    def _good(self) -> None:
        assert self.headers["Accept-Encoding"] == "identity"
        self._answer(archive())

    def _moved(self) -> None:
        self._answer(b"", 302, Location="/good.zip")

    def _round(self) -> None:
        self._answer(b"", 302, Location="/round.zip")

    def _file(self) -> None:
        self._answer(b"", 302, Location="file:///etc/passwd")

    def _large(self) -> None:
        self.send_response(200)
        self.end_headers()
        for _ in range(100):
            self.wfile.write(bytes(10_000))

    def _slow(self) -> None:
        self.send_response(200)
        self.end_headers()
        while not self.server.stopping:
            self.wfile.write(b"x")
            self.wfile.flush()
            time.sleep(0.05)

    def _cut(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        self.wfile.write(archive())
        self.close_connection = True

    def _page(self) -> None:
        self._answer(b"<html>not an archive</html>")

    def _git(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        done = subprocess.run(
            ["git", "http-backend"],
            input=body,
            capture_output=True,
            check=True,
            env={
                "PATH": os.environ["PATH"],  # noqa: TID251  # likewise
                "GIT_PROJECT_ROOT": str(self.server.repositories),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_CONFIG_GLOBAL": "/dev/null",
                "PATH_INFO": path.removeprefix("/git"),
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            },
        )
        head, _, data = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        code = int(headers.pop("Status", "200 OK").split()[0])
        self._answer(data, code, **headers)


class Server(ThreadingHTTPServer):
    """One server for a test."""

    def __init__(self, repositories: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories = repositories
        self.stopping = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.stopping = True
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture
def add(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    trust = Trust(LockFile(tmp_path / "skills.lock"))
    root = tmp_path / "installed"

    def run(text: str, path: str = "", limits: FetchLimits | None = None) -> Path:
        library = Library(root, trust, limits)
        with library.incoming() as incoming:
            source = parse_source(text, path, base=tmp_path)
            return library.place(asyncio.run(library.fetch(source, incoming)))

    yield run
    left = [entry.name for entry in root.iterdir() if entry.name.startswith(".")] if root.exists() else []
    assert left == []


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a skill, a hook, an attribute that leaves files out, a link that leaves and a submodule."""
    path = tmp_path / "repo"
    (path / "skills" / "sums").mkdir(parents=True)
    (path / "skills" / "sums" / "SKILL.md").write_text(SKILL)
    (path / "skills" / "sums" / "kept.txt").write_text("$Format:%H$\n")
    (path / ".gitattributes").write_text("kept.txt export-ignore export-subst\n")
    (path / "outside").symlink_to("/etc/passwd")
    (path / ".gitmodules").write_text('[submodule "s"]\n\tpath = s\n\turl = https://example.org/none\n')

    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", path, *arguments], env=GIT, check=True, capture_output=True)

    git("init", "--quiet")
    hook = path / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hook-ran\n")
    hook.chmod(0o755)
    git("add", ".")
    git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},s")
    git("commit", "--quiet", "-m", "first")
    return path


def test_an_archive_is_fetched_over_http(server: Server, add: Callable[..., Path]) -> None:
    assert add(f"{server.url}/good.zip").name == "sums"


def test_a_redirect_is_followed(server: Server, add: Callable[..., Path]) -> None:
    assert add(f"{server.url}/moved.zip#repo-main/skills/sums").name == "sums"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("none.zip", "404"),
        ("round.zip", "more than 5 times"),
        ("file.zip", "which is not fetched"),
        ("large.zip", "more than 100000 bytes"),
        ("slow.zip", "took more than"),
        ("cut.zip", "cannot be fetched"),
        ("page.zip", "neither a zip nor a tar"),
    ],
)
def test_each_way_to_go_wrong_is_told_and_leaves_nothing(
    server: Server, add: Callable[..., Path], path: str, words: str
) -> None:
    limits = replace(FetchLimits(), download_bytes=100_000, seconds=2.0 if path == "slow.zip" else 10.0)
    with pytest.raises(SourceError, match=words):
        add(f"{server.url}/{path}", limits=limits)


def test_a_server_that_is_not_there_is_told(server: Server, add: Callable[..., Path]) -> None:
    with pytest.raises(SourceError, match="cannot be fetched"):
        add("http://127.0.0.1:9/a.zip")


@pytest.mark.parametrize("over", ["http", "path"])
def test_a_skill_of_a_repository_comes_whole_and_nothing_of_it_is_run(
    server: Server, add: Callable[..., Path], repository: Path, tmp_path: Path, over: str
) -> None:
    source = f"{server.url}/git/repo/.git" if over == "http" else "git+repo"
    place = add(source, "skills/sums")
    assert sorted(path.name for path in place.iterdir()) == ["SKILL.md", "kept.txt"]
    assert (place / "kept.txt").read_text() == "$Format:%H$\n"
    assert not (tmp_path / "hook-ran").exists()


def test_a_repository_needs_no_path_where_it_has_one_skill(
    add: Callable[..., Path], repository: Path
) -> None:
    assert add("git+repo").name == "sums"


def test_a_path_that_the_repository_does_not_have_is_told(add: Callable[..., Path], repository: Path) -> None:
    with pytest.raises(SourceError, match="git cannot take it"):
        add("git+repo", "skills/none")


def test_a_repository_that_asks_for_a_password_is_refused_and_does_not_wait(
    server: Server, add: Callable[..., Path]
) -> None:
    with pytest.raises(SourceError, match="git cannot take it"):
        add(f"git+{server.url}/none")


def test_a_repository_that_never_answers_is_given_up_and_git_ended(
    server: Server, add: Callable[..., Path]
) -> None:
    with pytest.raises(SourceError, match="took more than 1 seconds"):
        add(f"git+{server.url}/slow.git", limits=replace(FetchLimits(), seconds=1.0))
    wait_until_none_has(f"{server.url}/slow.git")


def test_a_repository_that_is_too_large_is_stopped(add: Callable[..., Path], repository: Path) -> None:
    (repository / "noise").write_bytes(os.urandom(3_000_000))
    subprocess.run(["git", "-C", repository, "add", "."], env=GIT, check=True, capture_output=True)
    subprocess.run(["git", "-C", repository, "commit", "-m", "x"], env=GIT, check=True, capture_output=True)
    with pytest.raises(SourceError, match="more than 1000000 bytes"):
        add("git+repo", limits=replace(FetchLimits(), repository_bytes=1_000_000))


def test_a_repository_without_a_commit_is_told(add: Callable[..., Path], tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path / "bare"], env=GIT, check=True)
    with pytest.raises(SourceError, match="git cannot take it"):
        add("git+bare")


def test_a_tar_of_a_repository_is_what_git_makes_of_it(repository: Path) -> None:
    done = subprocess.run(
        ["git", "-C", repository, "archive", "HEAD"], env=GIT, check=True, capture_output=True
    )
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as opened:
        assert not [name for name in opened.getnames() if name.endswith("kept.txt")]  # what `add` must not do

"""`sandbox-skills serve` as a process of its own, and clients of it."""

from __future__ import annotations

import json
import signal
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Generator, Mapping, Sequence

    from tests.conftest import Program

WAIT_SECONDS = 60.0
"""Longest wait for one answer: a start of Docker's on a loaded machine takes a fifth of that."""


@dataclass(frozen=True, slots=True)
class Served:
    """A server that answers, and the first admin key."""

    process: subprocess.Popen[bytes]
    url: str
    key: str

    def kill(self) -> None:
        """Ends the process as a crash does."""
        self.process.kill()
        self.process.wait()

    def client(self, key: str | None = None) -> httpx.Client:
        """Returns a client with that key, the first one for None."""
        headers = {"Authorization": f"Bearer {key or self.key}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=WAIT_SECONDS)

    def run(self, order: dict[str, Any]) -> dict[str, Any]:
        """Returns a run once it has finished."""
        with self.client() as client:
            run: dict[str, Any] = client.post("/v1/runs", json=order, params={"wait": 60}).json()
        assert run["state"] == "finished", run
        return run


@contextmanager
def served(program: Program, *arguments: str, **environ: str) -> Generator[Served]:
    """Starts a server on a free port and an empty database; at the end it is told to end, and has to do so well."""
    for left in program.data_dir.glob("daemon.db*"):
        left.unlink()
    with _served(program, arguments, environ, key=None) as server:
        yield server


@contextmanager
def served_after(program: Program, first: Served, *arguments: str, **environ: str) -> Generator[Served]:
    """Starts a server as `served` does, with the database and so the keys of the one before it."""
    with _served(program, arguments, environ, key=first.key) as server:
        yield server


@contextmanager
def _served(
    program: Program, arguments: Sequence[str], environ: Mapping[str, str], key: str | None
) -> Generator[Served]:
    process = program.start("serve", "--port", "0", "--json", *arguments, environ=environ)
    try:
        told = announced(process)
        yield Served(process, told["url"], key or told["key"])
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            _, complaints = process.communicate(timeout=WAIT_SECONDS)
            assert process.returncode == 0, complaints
            assert b"Traceback" not in complaints, complaints
    finally:
        process.kill()
        process.communicate()


def announced(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Returns what the server prints once it answers."""
    assert process.stdout is not None
    text = b""
    while line := process.stdout.readline():
        text += line
        if line == b"}\n":
            told: dict[str, Any] = json.loads(text)
            return told
    assert process.stderr is not None
    raise AssertionError(process.stderr.read().decode())

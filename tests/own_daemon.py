"""A daemon of a test's own, beside the one that everybody uses, which may be ended and started again."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import docker
import docker.errors
import requests.exceptions

if TYPE_CHECKING:
    from collections.abc import Iterable

START_SECONDS = 60.0


class OwnDaemon:
    """A second dockerd, in mount and network namespaces of its own: it would delete the first one's bridge.

    The namespaces are held by another process, as the containerd of a daemon that was killed goes on in them.
    """

    def __init__(self, folder: Path, *arguments: str, prepare: str = ":") -> None:
        """`prepare` is a shell's command that is run in the namespaces first."""
        self._folder = folder
        self._arguments = arguments
        self._cgroup = f"sandbox-skills-test-{secrets.token_hex(4)}"
        self.socket = folder / "s"
        self._namespaces = subprocess.Popen(
            ["unshare", "-m", "-n", "sh", "-c", f"{prepare}; echo; exec sleep infinity"],
            stdout=subprocess.PIPE,
        )
        assert self._namespaces.stdout is not None
        self._namespaces.stdout.read(1)
        self.start()

    def start(self) -> None:
        """Starts the daemon, over what an earlier one left, and waits until it answers."""
        # It died with its daemon, but where nobody buries orphans its process is still there to be seen.
        (self._folder / "exec/containerd/containerd.pid").unlink(missing_ok=True)
        where = ["nsenter", "--target", str(self._namespaces.pid), "--mount", "--net"]
        argv = ["dockerd", "--bridge=none", "--iptables=false", f"--host=unix://{self.socket}"]
        folders = {"data-root": "data", "exec-root": "exec", "pidfile": "pid"}
        argv += [f"--{option}={self._folder}/{name}" for option, name in folders.items()]
        argv += [f"--cgroup-parent=/{self._cgroup}", *self._arguments]
        with (self._folder / "log").open("ab") as log:
            self.process = subprocess.Popen([*where, *argv], stdout=log, stderr=log)
        self.client = self._answering()

    @property
    def alive(self) -> bool:
        """Whether the daemon has not been ended."""
        return self.process.poll() is None

    def _answering(self) -> docker.APIClient:
        deadline = time.monotonic() + START_SECONDS
        while True:
            with suppress(docker.errors.DockerException, requests.exceptions.ConnectionError):
                return docker.APIClient(f"unix://{self.socket}", version="auto")
            log = (self._folder / "log").read_text(errors="replace")
            assert self.process.poll() is None, log
            assert time.monotonic() < deadline, log
            time.sleep(0.1)

    def load(self, image: Iterable[bytes]) -> None:
        """Takes an image as another daemon saves it."""
        self.client.load_image(image)  # type: ignore[no-untyped-call]  # in the stubs

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Ends the daemon: kills it as the kernel would for want of memory, or stops it as an operator does."""
        self.process.send_signal(number)
        self.process.wait()
        self.client.close()

    def close(self) -> None:
        """Ends what the daemon started, found by the directory that is its alone."""
        self.end()
        self._namespaces.kill()
        self._namespaces.communicate()
        while left := self._processes():
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        for folder in sorted(Path("/sys/fs/cgroup").glob(f"**/{self._cgroup}/**/"), reverse=True):
            with suppress(OSError):
                folder.rmdir()
        shutil.rmtree(self._folder / "data")

    def _processes(self) -> list[int]:
        mine = os.fsencode(self._folder)
        return [
            int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline") if mine in _bytes(path)
        ]


def _bytes(path: Path) -> bytes:
    with suppress(OSError):
        return path.read_bytes()
    return b""

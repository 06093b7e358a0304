"""A daemon of our own, beside the one that everybody uses, killed in the middle of a run."""

from __future__ import annotations

import asyncio
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
import pytest
import requests.exceptions

from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.engines.docker_client import DockerConnection
from sandbox_skills.engines.image import image_tag
from sandbox_skills.errors import EngineUnavailableError, SandboxLostError
from sandbox_skills.spec import Command, SandboxSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sandbox_skills.workspace.staging import SkillStore

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.docker,
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.timeout(240),
]

START_SECONDS = 60.0


class OwnDaemon:
    """A second dockerd, in mount and network namespaces of its own: it would delete the first one's bridge."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cgroup = f"sandbox-skills-test-{secrets.token_hex(4)}"
        self.socket = folder / "s"
        argv = [
            "unshare",
            "-m",
            "-n",
            "dockerd",
            "--bridge=none",
            "--iptables=false",
            f"--host=unix://{self.socket}",
        ]
        argv += [f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"]
        argv += [f"--cgroup-parent=/{self._cgroup}"]
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log)
        self.client = self._answering()

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

    def kill(self) -> None:
        """Kills the daemon as the kernel would for want of memory."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        """Ends what the daemon started, found by the directory that is its alone."""
        self.client.close()
        self.kill()
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


@pytest.fixture
def own_daemon(tmp_path: Path, daemon: docker.APIClient) -> Iterator[OwnDaemon]:
    (tmp_path / "own").mkdir()
    own = OwnDaemon(tmp_path / "own")
    try:
        own.load(daemon.get_image(image_tag("slim")))
        yield own
    finally:
        own.close()


async def test_a_run_whose_daemon_dies_is_lost_and_leaving_is_clean(
    own_daemon: OwnDaemon, store: SkillStore, tmp_path: Path
) -> None:
    engine = DockerEngine(
        DockerEngineOptions(
            data_dir=tmp_path / "state",
            connection=DockerConnection(f"unix://{own_daemon.socket}"),
            skills_dir=store.mount_dir,
            marker=store.marker(),
        )
    )
    async with engine.open(SandboxSpec()) as sandbox:
        run = asyncio.ensure_future(sandbox.run(Command(("sleep", "120"), env={"PATH": "/usr/bin:/bin"})))
        await asyncio.sleep(0.5)
        assert not run.done()
        started = time.monotonic()
        own_daemon.kill()
        with pytest.raises(SandboxLostError):
            await run
        assert not sandbox.alive
    assert time.monotonic() - started < 30
    with pytest.raises(EngineUnavailableError):
        async with engine.open(SandboxSpec()):
            pass
    await engine.aclose()
    # The record stays, so that whoever reaps next knows whose box that was.
    assert len(list((tmp_path / "state/instances").iterdir())) == 1

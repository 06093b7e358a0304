"""The daemon under test: a process over a dockerd of its own, killed and started again at the same place."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from sandbox_skills.engines.docker_config import LABEL_MANAGED
from tests.serve_process import announced

if TYPE_CHECKING:
    import subprocess

    from tests.conftest import Program
    from tests.own_daemon import OwnDaemon

END_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Sample:
    """What the process holds at a moment: seconds since its start, bytes of memory, descriptors."""

    seconds: float
    rss: int
    fds: int


@dataclass(slots=True)
class Server:
    """`sandbox-skills serve` on one port and one data directory, life after life."""

    program: Program
    docker: OwnDaemon
    log: Path
    url: str = ""
    key: str = ""
    started: float = 0.0
    samples: list[Sample] = field(default_factory=list[Sample])
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, on the port that it had before."""
        port = self.url.rpartition(":")[2] or "0"
        environ = {"DOCKER_HOST": f"unix://{self.docker.socket}"}
        with self.log.open("ab") as log:
            self._process = self.program.start("serve", "--port", port, "--json", environ=environ, stderr=log)
        told = announced(self._process)
        self.url, self.key = told["url"], told["key"] or self.key
        self.started, self.samples = time.monotonic(), []

    def kill(self) -> None:
        """Ends it as the kernel would for want of memory."""
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    def stop(self) -> int:
        """Tells it to end, and returns its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=END_SECONDS)
        return self._process.returncode

    def close(self) -> None:
        """Ends it, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def sample(self) -> Sample:
        """Looks at what the process holds."""
        assert self._process is not None
        proc = Path(f"/proc/{self._process.pid}")
        pages = int((proc / "statm").read_text().split()[1])
        taken = Sample(time.monotonic() - self.started, pages * 4096, len(list((proc / "fd").iterdir())))
        self.samples.append(taken)
        return taken

    def tenant_key(self, name: str) -> str:
        """Makes a tenant with limits that its work does not meet, and a key for it."""
        limits = {"runs_per_minute": 60_000}
        with httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.key}"}, timeout=60
        ) as client:
            tenant = client.post("/v1/admin/tenants", json={"name": name, "limits": limits})
            tenant.raise_for_status()
            made = client.post(f"/v1/admin/tenants/{tenant.json()['id']}/keys", json={"name": "soak"})
            made.raise_for_status()
            key: str = made.json()["key"]
        return key

    def leaks(self) -> list[str]:
        """Returns what a daemon that has ended must not leave: containers, volumes, sockets, unfinished copies."""
        client, data = self.docker.client, self.program.data_dir
        containers: list[dict[str, Any]] = client.containers(
            all=True, filters={"label": f"{LABEL_MANAGED}=1"}
        )
        volumes = client.volumes()["Volumes"] or []
        places = ("store/temporary/*", "sockets/*/*", "store/sockets/*/*")
        return [
            *(f"container {row['Id'][:12]} {row['Status']}" for row in containers),
            *(f"volume {row['Name']}" for row in volumes),
            *(f"left {path.relative_to(data)}" for pattern in places for path in data.glob(pattern)),
        ]

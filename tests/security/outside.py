"""A box as its host sees it: its processes, and what became of its root.

Docker's daemon tells it; of bubblewrap's boxes the kernel and the exported root file system do.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sandbox_skills.engines.bubblewrap.cgroup import hierarchies
from sandbox_skills.engines.bubblewrap.leftovers import leftovers
from tests.boxes import processes

if TYPE_CHECKING:
    import docker

    from sandbox_skills.engines.base import Sandbox


class Outside(Protocol):
    """What is asked of the host about one box."""

    def processes(self) -> int:
        """How many processes the box has, its runner among them."""
        ...

    def root_state(self) -> list[str]:
        """What the root that the box reads is like: the same twice where nothing of it was changed meanwhile."""
        ...

    def configuration(self) -> str:
        """What anybody on the host may read of how the box was started."""
        ...

    def gone(self) -> bool:
        """Whether nothing of the box is left."""
        ...


class Container:
    """As a Docker daemon tells it."""

    def __init__(self, client: docker.APIClient, sandbox: Sandbox) -> None:
        self._client = client
        self._name = sandbox.id

    def inspected(self) -> dict[str, Any]:
        found: dict[str, Any] = self._client.inspect_container(self._name)
        return found

    def processes(self) -> int:
        return len(self._client.top(self._name)["Processes"])

    def cpu_seconds(self) -> float:
        """How much of the processors all of the box has used so far, whatever it says itself."""
        found = self._client.stats(self._name, stream=False, one_shot=True)
        return float(found["cpu_stats"]["cpu_usage"]["total_usage"]) / 1e9

    def root_state(self) -> list[str]:
        rows: list[dict[str, object]] = self._client.diff(self._name) or []
        return sorted(str(row["Path"]) for row in rows)

    def configuration(self) -> str:
        return str(self.inspected())

    def gone(self) -> bool:
        return not self._client.containers(all=True, filters={"name": self._name})


class Namespaces:
    """As the kernel tells it of a box of bubblewrap's, whose root is a directory that all boxes share."""

    def __init__(self, root: Path, sandbox: Sandbox) -> None:
        self._root = root
        self._sandbox = sandbox

    def processes(self) -> int:
        return sum(self._is_inside(pid) for pid in processes(self._sandbox))

    @staticmethod
    def _is_inside(pid: int) -> bool:
        """Whether a process has a number in the box too: bubblewrap itself waits outside of it."""
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
        return any(line.startswith("NSpid:") and len(line.split()) > 2 for line in lines)

    def root_state(self) -> list[str]:
        # Not the time of access, which reading changes.
        return sorted(
            f"{path} {(known := path.lstat()).st_mode:o} {known.st_size} {known.st_mtime_ns} {known.st_ctime_ns}"
            for path in self._root.rglob("*")
        )

    def configuration(self) -> str:
        lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in processes(self._sandbox)]
        return b"\n".join(lines).decode()

    def gone(self) -> bool:
        return not processes(self._sandbox) and not [
            box for box in leftovers(hierarchies()) if box.id == self._sandbox.id
        ]

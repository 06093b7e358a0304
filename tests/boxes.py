"""The processes of a box as its host sees them, for tests that take it away from outside."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.engines.local import LocalSandbox

if TYPE_CHECKING:
    from sandbox_skills.engines.base import Sandbox


def processes(sandbox: Sandbox) -> list[int]:
    """Returns the processes of a box of bubblewrap or of the local engine, its runner among them."""
    kind, mark = (
        ("cgroup", sandbox.id) if not isinstance(sandbox, LocalSandbox) else ("cmdline", workspace(sandbox))
    )
    found: list[int] = []
    for path in Path("/proc").iterdir():
        with suppress(OSError):
            if path.name.isdecimal() and mark.encode() in (path / kind).read_bytes():
                found.append(int(path.name))
    return found


def workspace(sandbox: LocalSandbox) -> str:
    return str(sandbox._paths.workspace)


def kill(sandbox: Sandbox) -> None:
    for pid in processes(sandbox):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

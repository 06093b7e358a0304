"""Where the image's sources are and what they amount to: one hash for all that a build of a target depends on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sandbox_skills.bundled import bundled
from sandbox_skills.engines import wire
from sandbox_skills.engines.image_programs import PROGRAMS, joined
from sandbox_skills.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

Target = Literal["slim", "full"]

REPOSITORY = "sandbox-skills-runner"
"""Every image that we build is tagged in this repository, and nothing else is."""

UID_FIRST = 20000
"""First uid of a box: above people and services (below 10000 on Debian), below dynamic users (from 61184)."""

UID_COUNT = 4096
"""More boxes than one host starts; passwd stays at 200 KiB, so a look-up by name is still fast."""

NOT_IN_IMAGE = frozenset({"host-setup.sh"})
"""Files beside the sources that no build reads."""

DERIVED = frozenset({".in", ".pyc"})
"""What a lock file was made from, and what Python made: neither is read by a build."""

FOLDERS: Mapping[Target, Sequence[str]] = {"slim": ("slim",), "full": ("slim", "full")}
"""The folders that are a target's own; all else belongs to each."""

ESSENTIAL = ("Dockerfile", *(f"{program}/__init__.py" for program in PROGRAMS))

INSTALLED = (*(f"{program}.py" for program in PROGRAMS), "finish.sh", "handlers/")
"""What the last steps of the Dockerfile copy to /opt/sandbox-skills: files, and folders with a slash."""


def image_source() -> Path:
    """Returns the folder with the image's sources: in the installed package, else in the checkout.

    Raises ImageError where it is in neither.
    """
    folder = bundled("runner-image")
    if all((folder / name).is_file() for name in ESSENTIAL):
        return folder
    raise ImageError("the sources of the runner image are missing", hint="install sandbox-skills again")


def build_args() -> dict[str, str]:
    """Returns what the Dockerfile is told, apart from its base."""
    return {"UID_FIRST": str(UID_FIRST), "UID_COUNT": str(UID_COUNT)}


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file as it was read; of its mode only whether it may be executed counts."""

    data: bytes
    executable: bool


@dataclass(frozen=True, slots=True)
class Sources:
    """All that an image of `target` depends on in this version, read once: what is hashed is what is built.

    The base is not part of it: an image built from Debian's packages and one from a registry serve alike.
    """

    root: Path
    target: Target
    files: Mapping[str, SourceFile]

    @property
    def content(self) -> str:
        """The SHA-256 of it, in hex."""
        facts = {"target": self.target, "protocol": wire.PROTOCOL, "args": build_args()}
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
        for name, file in sorted(self.files.items()):
            digest.update(f"\0{name}\0{file.executable}\0{len(file.data)}\0".encode() + file.data)
        return digest.hexdigest()

    @property
    def installed(self) -> Mapping[str, SourceFile]:
        """The files that lie in /opt/sandbox-skills of every box, by their names there."""
        return {name: file for name, file in self.files.items() if name.startswith(INSTALLED)}

    def install(self, folder: Path) -> None:
        """Writes these files into a folder as they lie in /opt/sandbox-skills; raises OSError. Blocks."""
        for name, file in self.installed.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.data)

    @property
    def tag(self) -> str:
        """The tag under which an image of it is kept."""
        return f"{REPOSITORY}:{self.target}-{self.content[:12]}"

    @property
    def packages(self) -> list[str]:
        """The Debian packages that it wants, sorted."""
        lists = [self.files[f"{name}/packages.txt"] for name in FOLDERS[self.target]]
        lines = (line for file in lists for line in file.data.decode().splitlines())
        return sorted({name for line in lines if (name := line.partition("#")[0].strip())})


def read_sources(target: Target, root: Path | None = None) -> Sources:
    """Reads what a build of `target` uses; raises ImageError where there are no sources.

    `slim` does not use the folder `full`, so that a new library there leaves it current.
    """
    root = root if root is not None else image_source()
    unused = {folder for folders in FOLDERS.values() for folder in folders} - set(FOLDERS[target])
    files = {
        path.relative_to(root).as_posix(): SourceFile(path.read_bytes(), bool(path.stat().st_mode & 0o100))
        for path in root.rglob("*")
        if path.is_file() and _is_used(path.relative_to(root), unused)
    }
    return Sources(root, target, _with_programs(files))


def _with_programs(files: Mapping[str, SourceFile]) -> Mapping[str, SourceFile]:
    """Returns the files with one for each program, in place of its modules."""
    whole: dict[str, SourceFile] = {}
    modules: dict[str, dict[str, str]] = {name: {} for name in PROGRAMS}
    for name, file in files.items():
        program, _, module = name.removesuffix(".py").rpartition("/")
        if program in modules:
            modules[program][module] = file.data.decode()
        else:
            whole[name] = file
    programs = {f"{name}.py": joined(texts).encode() for name, texts in modules.items() if texts}
    return {**whole, **{name: SourceFile(text, executable=False) for name, text in programs.items()}}


def content_hash(target: Target, root: Path | None = None) -> str:
    """Returns the SHA-256, in hex, of all that an image of `target` depends on in this version."""
    return read_sources(target, root).content


def image_tag(target: Target, root: Path | None = None) -> str:
    """Returns the tag under which this version's image of `target` is kept."""
    return read_sources(target, root).tag


def _is_used(name: Path, unused: Collection[str]) -> bool:
    if any(part.startswith((".", "__pycache__")) for part in name.parts):
        return False
    return name.parts[0] not in NOT_IN_IMAGE and name.parts[0] not in unused and name.suffix not in DERIVED

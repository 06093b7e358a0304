"""How the root file system comes to be: from the runner image where a Docker Engine answers, else from packages.

Blocking.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.engines import image
from sandbox_skills.engines.bubblewrap import bootstrap, export, rootfs
from sandbox_skills.engines.bubblewrap.host import look
from sandbox_skills.errors import EngineUnavailableError, ImageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import docker

LEAST_BYTES = 1024**3
"""The slim tree has 370 MB, and its packages as much again while it is made."""


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """What is to be made and where. `connect` returns a client of the Docker Engine, if one answers."""

    folder: Path
    cache_dir: Path
    wanted: rootfs.Wanted
    base: image.Base
    program: Path | None
    connect: Callable[[], docker.APIClient]


@dataclass(frozen=True, slots=True)
class BuiltRoot:
    """A root file system that is there now; `cached` says that it was before."""

    path: Path
    name: str
    seconds: float
    cached: bool


def build(options: BuildOptions, progress: Callable[[str], None], *, fresh: bool = False) -> BuiltRoot:
    """Makes sure that it is there. `base: bootstrap` without Docker; `fresh` makes it anew.

    Raises EngineUnavailableError without bubblewrap, and ImageError with the last lines of what failed.
    """
    start = time.monotonic()
    host = look(options.program)
    before = rootfs.find(options.folder, options.wanted)
    if before is not None and options.wanted.image is None and not fresh:
        return _built(before, options, start, cached=True)
    _check_room(options.folder)
    client = _client(options, progress)
    if client is None:
        made = bootstrap.provide(
            options.folder,
            options.wanted,
            bwrap=host.program,
            cache_dir=options.cache_dir,
            progress=progress,
            fresh=fresh,
        )
    else:
        made = _exported(client, options, progress, fresh=fresh)
    return _built(made, options, start, cached=not fresh and before == made)


def _exported(
    client: docker.APIClient, options: BuildOptions, progress: Callable[[str], None], *, fresh: bool
) -> rootfs.RootFileSystem:
    wanted = options.wanted
    if wanted.image is None:
        image.build(
            client,
            target=wanted.target,
            base=options.base,
            cache_dir=options.cache_dir,
            progress=progress,
            fresh=fresh,
        )
    progress(f"exporting the files of {wanted}")
    return export.provide(client, options.folder, wanted, fresh=fresh)


def _client(options: BuildOptions, progress: Callable[[str], None]) -> docker.APIClient | None:
    try:
        return options.connect()
    except EngineUnavailableError as error:
        progress(f"without Docker: {error.message}")
        return None


def _check_room(folder: Path) -> None:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    if free < LEAST_BYTES:
        raise ImageError(
            f"{free >> 20} MiB are free at {existing}, and a root file system takes {LEAST_BYTES >> 20}",
            hint="make room, or choose another place with SANDBOX_SKILLS_DATA_DIR",
        )


def _built(made: rootfs.RootFileSystem, options: BuildOptions, start: float, *, cached: bool) -> BuiltRoot:
    return BuiltRoot(made.path, options.wanted.name, time.monotonic() - start, cached)

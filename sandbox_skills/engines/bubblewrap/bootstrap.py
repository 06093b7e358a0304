"""The root file system without Docker: Debian packages, Node and the runner, put together as the image's recipe does.

Blocking.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox_skills.directories import make_private
from sandbox_skills.engines.bubblewrap import rootfs
from sandbox_skills.engines.image.base import bootstrap_tar
from sandbox_skills.engines.image.downloads import Downloader, architecture_of
from sandbox_skills.engines.image.progress import run_tool
from sandbox_skills.engines.image_source import UID_COUNT, UID_FIRST, Sources, read_sources
from sandbox_skills.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Callable

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
"""What `uname -m` says → what Docker, and with it `downloads`, calls the same."""

OURS = "opt/sandbox-skills"
"""Where the runner, the handler shims and the recipe's last step lie."""


def provide(
    folder: Path,
    wanted: rootfs.Wanted,
    *,
    bwrap: Path,
    cache_dir: Path,
    progress: Callable[[str], None],
    fresh: bool = False,
) -> rootfs.RootFileSystem:
    """Makes sure that `folder` has this version's own slim root file system.

    Raises ImageError for another one, which takes a Docker Engine, and with the last lines of what failed.
    """
    if wanted.image is not None or wanted.target != "slim":
        raise ImageError(
            f"{wanted} can only be exported from a Docker Engine, and none answers", hint="make docker"
        )
    sources = read_sources(wanted.target)

    def fill(root: Path) -> None:
        progress("making the root file system from Debian packages")
        with tempfile.TemporaryDirectory(dir=cache_dir, prefix="base-") as place:
            tar = Path(place) / "base.tar"
            bootstrap_tar(sources.packages, tar, progress)
            with tar.open("rb") as file:
                rootfs.unpack(file, root)
        _add_ours(root, sources, cache_dir, progress)
        run_tool(finish_command(bwrap, root, is_root=os.geteuid() == 0), progress)

    make_private(cache_dir)
    return rootfs.make(folder, wanted, wanted.name, fill, fresh=fresh)


def _add_ours(root: Path, sources: Sources, cache_dir: Path, progress: Callable[[str], None]) -> None:
    architecture = architecture_of(MACHINES.get(os.uname().machine, os.uname().machine))
    node = Downloader(cache_dir, sources.root, architecture, progress).fetch("slim")["node"]
    shutil.copyfile(node, root / "usr/local/bin/node")
    (root / "usr/local/bin/node").chmod(0o755)
    sources.install(root / OURS)


def finish_command(bwrap: Path, root: Path, *, is_root: bool) -> list[str]:
    """Returns the command that runs the recipe's last step in the tree, without network. Pure.

    Who is not root owns the whole tree, and is root of a user namespace there. Root needs none, and could not look
    into directories of other owners in one.
    """
    user = () if is_root else ("--unshare-user", "--uid", "0", "--gid", "0")
    return [
        str(bwrap),
        *user,
        *(
            "--unshare-ipc",
            "--unshare-pid",
            "--unshare-net",
            "--unshare-uts",
            "--die-with-parent",
            "--new-session",
        ),
        *("--bind", str(root), "/", "--dev", "/dev", "--proc", "/proc"),
        *("--clearenv", "--setenv", "PATH", "/usr/sbin:/usr/bin:/sbin:/bin", "--setenv", "LANG", "C.UTF-8"),
        *("--", "sh", f"/{OURS}/finish.sh", str(UID_FIRST), str(UID_COUNT)),
    ]

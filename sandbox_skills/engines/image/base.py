"""What the image starts from: Debian's own image where a registry answers, else the same made from packages."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sandbox_skills.engines.image.progress import run_tool
from sandbox_skills.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sandbox_skills.engines.image.daemon import ImageDaemon
    from sandbox_skills.engines.image_source import Sources

Base = Literal["auto", "registry", "bootstrap"]

SUITE = "trixie"
"""The Debian release whose `python3` is 3.13."""

REGISTRY_BASE = f"debian:{SUITE}-slim"

BOOTSTRAP_REPOSITORY = "sandbox-skills-base"
"""Every base that we made from packages is tagged in this repository."""

LABEL_BOOTSTRAP = "sandbox-skills.bootstrap"
"""Is on every one of them: whatever else is tagged so is somebody's own."""

UNUSED_IN_A_BOX = ("/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/doc/*")
"""What Debian's slim images leave out too: a third of the size, and nobody reads it there."""

FORGET_THE_HOST = 'rm -rf "$1"/etc/apt/sources.list* "$1"/etc/resolv.conf "$1"/etc/hostname'
"""A hook: the host's mirror, resolver and name are nothing that a skill should read."""

INSTALL_HINT = "apt-get install --yes mmdebstrap"


@dataclass(frozen=True, slots=True)
class BaseRequest:
    """Which base is wanted. `fresh` fetches or makes it anew, for Debian's latest security updates."""

    sources: Sources
    base: Base = "auto"
    registry_image: str = REGISTRY_BASE
    fresh: bool = False


def provide_base(
    daemon: ImageDaemon, request: BaseRequest, cache_dir: Path, progress: Callable[[str], None]
) -> str:
    """Returns the reference of a base that the daemon has, after getting it if need be.

    Raises ImageError where it can be had in no way that `request.base` allows.
    """
    if not request.fresh and (local := _local_base(daemon, request)):
        return local
    if request.base == "registry" or (
        request.base == "auto" and daemon.registry_answers(request.registry_image)
    ):
        daemon.pull(request.registry_image, progress)
        return request.registry_image
    return _bootstrap(daemon, request, cache_dir, progress)


def has_base(daemon: ImageDaemon, request: BaseRequest) -> bool:
    """Tells whether a base is there or can be pulled, so that none has to be made from packages."""
    return _local_base(daemon, request) is not None or daemon.registry_answers(request.registry_image)


def serves(base: Base, reference: str, registry_image: str = REGISTRY_BASE) -> bool:
    """Tells whether an image that was built on `reference` is what someone who asks for `base` wants."""
    if base == "auto":
        return True
    return (
        reference.startswith(f"{BOOTSTRAP_REPOSITORY}:")
        if base == "bootstrap"
        else reference == registry_image
    )


def bootstrap_tag(packages: Sequence[str]) -> str:
    """Returns the tag of the base that holds these packages."""
    recipe = bootstrap_command("mmdebstrap", packages, Path("base.tar"), [])
    return f"{BOOTSTRAP_REPOSITORY}:{SUITE}-{hashlib.sha256(repr(recipe).encode()).hexdigest()[:12]}"


def bootstrap_command(program: str, packages: Sequence[str], tar: Path, mirrors: Sequence[str]) -> list[str]:
    """Returns the command that makes a root file system of `packages`; no mirror leaves the choice to it."""
    return [
        program,
        "--variant=minbase",
        f"--include={','.join(packages)}",
        '--aptopt=APT::Install-Recommends "false"',
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in UNUSED_IN_A_BOX),
        "--dpkgopt=path-include=/usr/share/doc/*/copyright",
        f"--customize-hook={FORGET_THE_HOST}",
        "--format=tar",
        SUITE,
        str(tar),
        *mirrors,
    ]


def mirrors_of(index_targets: str) -> list[str]:
    """Returns source lines for SUITE on the mirrors that a Debian host uses itself.

    Takes lines of `label TAB address`, as apt prints them; nothing of Debian there, no lines.
    """
    known: dict[str, str] = {}
    for line in index_targets.splitlines():
        label, _, uri = line.partition("\t")
        known.setdefault(label, uri)
    lines: list[str] = []
    if main := known.get("Debian"):
        lines += [f"deb {main} {suite} main" for suite in (SUITE, f"{SUITE}-updates")]
        if security := known.get("Debian-Security"):
            lines.append(f"deb {security} {SUITE}-security main")
    return lines


def _host_mirrors() -> list[str]:
    apt = shutil.which("apt-get")
    if apt is None:
        return []
    asked = [apt, "indextargets", "--format", "$(LABEL)\t$(REPO_URI)", "Created-By: Packages"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)
    return mirrors_of(answer.stdout)


def _local_base(daemon: ImageDaemon, request: BaseRequest) -> str | None:
    made = bootstrap_tag(request.sources.packages)
    for allowed, reference in (("registry", request.registry_image), ("bootstrap", made)):
        if request.base in {"auto", allowed} and daemon.find(reference):
            return reference
    return None


def _bootstrap(
    daemon: ImageDaemon, request: BaseRequest, cache_dir: Path, progress: Callable[[str], None]
) -> str:
    tag = bootstrap_tag(request.sources.packages)
    progress(f"making {tag} from Debian packages")
    with tempfile.TemporaryDirectory(dir=cache_dir, prefix="base-") as folder:
        tar = Path(folder) / "base.tar"
        bootstrap_tar(request.sources.packages, tar, progress)
        daemon.import_tar(tar, tag, LABEL_BOOTSTRAP)
    return tag


def bootstrap_tar(packages: Sequence[str], tar: Path, progress: Callable[[str], None]) -> None:
    """Makes a base of Debian packages as a tar; raises ImageError with the last lines of what failed."""
    program = shutil.which("mmdebstrap")
    if program is None:
        raise ImageError(
            "no registry answers with a base image, and mmdebstrap, which makes one, is missing",
            hint=INSTALL_HINT,
        )
    run_tool(bootstrap_command(program, packages, tar, _host_mirrors()), progress)

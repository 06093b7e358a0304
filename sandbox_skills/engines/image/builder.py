"""Whether the daemon has this version's image, and building it where it has not.

An image is known by a hash over its sources, so that one made by another version is never taken for ours.
"""

from __future__ import annotations

import fcntl
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sandbox_skills.directories import make_private
from sandbox_skills.engines import wire
from sandbox_skills.engines.image.base import (
    BOOTSTRAP_REPOSITORY,
    LABEL_BOOTSTRAP,
    REGISTRY_BASE,
    Base,
    BaseRequest,
    bootstrap_tag,
    provide_base,
    serves,
)
from sandbox_skills.engines.image.context import write_context
from sandbox_skills.engines.image.daemon import BuildRequest, FoundImage, ImageDaemon
from sandbox_skills.engines.image.downloads import Downloader, architecture_of
from sandbox_skills.engines.image_source import (
    REPOSITORY,
    Sources,
    Target,
    build_args,
    read_sources,
)
from sandbox_skills.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Mapping
    from pathlib import Path

    import docker


LABEL_PROTOCOL = "sandbox-skills.protocol"
LABEL_CONTENT = "sandbox-skills.content"
LABEL_TARGET = "sandbox-skills.target"
LABEL_BASE = "sandbox-skills.base"

BUILD_HINT = "sandbox-skills image build"
UNFIT_FIX = (
    "build it again, its Dockerfile starting with FROM what `sandbox-skills image status --target slim` names"
)


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """An image that the daemon has now. `cached` says that it had it already; `seconds` is what this took."""

    id: str
    tag: str
    content: str
    seconds: float
    cached: bool


@dataclass(frozen=True, slots=True)
class ImageStatus:
    """What the daemon has of a target. `stale`: only images of other versions, named in `found`.

    `id` is empty and `size` (bytes) 0 unless the image is present.
    """

    state: Literal["present", "missing", "stale"]
    tag: str
    content: str
    id: str = ""
    size: int = 0
    base: str = ""
    found: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImageRef:
    """An image that boxes may be made from. `env` is what it declares, for instance its PATH."""

    id: str
    name: str
    user_image: bool
    env: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class OwnImage:
    """What the daemon has of an image of the user's own. `unfit`: boxes cannot be made from it, for `reasons`.

    `id` is empty and `size` (bytes) 0 where it is missing; `fix` is what to do where it is not fit.
    """

    state: Literal["present", "missing", "unfit"]
    name: str
    id: str = ""
    size: int = 0
    reasons: tuple[str, ...] = ()
    fix: str = ""


def own_status(client: docker.APIClient, name: str) -> OwnImage:
    """Returns whether boxes can be made from an image of the user's own, as far as can be read without running it.

    Blocks; raises EngineUnavailableError.
    """
    found, reasons = _judged(ImageDaemon(client), name)
    if found is None:
        return OwnImage("missing", name, fix=f"build it, or `docker pull {name}`")
    if reasons:
        return OwnImage("unfit", name, found.id, found.size, reasons, UNFIT_FIX)
    return OwnImage("present", name, found.id, found.size)


def status(client: docker.APIClient, *, target: Target) -> ImageStatus:
    """Returns whether the daemon has this version's image. Blocks; raises EngineUnavailableError."""
    daemon = ImageDaemon(client)
    sources = read_sources(target)
    tag, content = sources.tag, sources.content
    if image := _ours(daemon, sources):
        return ImageStatus("present", tag, content, image.id, image.size, image.labels.get(LABEL_BASE, ""))
    others = _versions(daemon, target)
    return ImageStatus("stale" if others else "missing", tag, content, found=others)


def resolve(client: docker.APIClient, image: str | None, target: Target) -> ImageRef:
    """Returns the image to make boxes from, pinned by id: this version's own, or the one the user names.

    Blocks. Raises ImageError with every reason for which it cannot serve. What only running it shows is not
    looked at here: interpreters, users, localhost.
    """
    daemon = ImageDaemon(client)
    if image is not None:
        return _own(daemon, image)
    sources = read_sources(target)
    if found := _ours(daemon, sources):
        return ImageRef(found.id, sources.tag, user_image=False, env=found.env)
    why = "was built by another version" if _versions(daemon, target) else "is missing"
    raise ImageError(f"the runner image ({target}) {why}", hint=_build_hint(target))


def unfit(image: FoundImage, architecture: str) -> list[str]:
    """Returns why boxes cannot be made from an image; nothing where they can, as far as it can be read."""
    reasons: list[str] = []
    protocol = image.labels.get(LABEL_PROTOCOL)
    if protocol is None:
        reasons.append(f"it has no label {LABEL_PROTOCOL}: it is not made from a runner image")
    elif protocol != str(wire.PROTOCOL):
        reasons.append(
            f"its runner speaks protocol {protocol}, and {wire.PROTOCOL} is needed: build it again"
        )
    if image.volumes:
        reasons.append(f"it declares VOLUME {' '.join(image.volumes)}, which is writable and has no limit")
    if image.architecture != architecture:
        reasons.append(f"it is made for {image.architecture}, and the daemon runs on {architecture}")
    return reasons


def build(
    client: docker.APIClient,
    *,
    target: Target,
    base: Base,
    cache_dir: Path,
    progress: Callable[[str], None],
    registry_image: str = REGISTRY_BASE,
    fresh: bool = False,
) -> BuiltImage:
    """Makes sure that the daemon has this version's image; builds it where it has not.

    `fresh` builds anyway, on a new base. Blocks, for minutes at worst; builds that share `cache_dir` take
    turns. Raises ImageError with the last lines of what failed.
    """
    start = time.monotonic()
    daemon = ImageDaemon(client)
    request = BaseRequest(read_sources(target), base, registry_image, fresh)
    if fresh or not (image := _wanted(daemon, request)):
        with _lock(cache_dir, progress):
            # Whoever held the lock may have built just this.
            image = None if fresh else _wanted(daemon, request)
            if image is None:
                image = _build(daemon, request, cache_dir, progress)
                return _built(image, request.sources, start, cached=False)
    return _built(image, request.sources, start, cached=True)


def prune_images(client: docker.APIClient, keep: Collection[str] = ()) -> list[str]:
    """Removes images that builds of ours left, which their labels say; returns the tags and ids removed, sorted.

    Kept: this version's images, those whose tag or id is in `keep`, the bases of all these, and what is in use.
    """
    daemon = ImageDaemon(client)
    targets: tuple[Target, ...] = ("slim", "full")
    current = [read_sources(target) for target in targets]
    kept = {*keep, *(sources.tag for sources in current), *(bootstrap_tag(s.packages) for s in current)}
    images = _labelled(daemon, REPOSITORY, LABEL_CONTENT)
    doomed = [tag for tag, found in images.items() if kept.isdisjoint({tag, found.id})]
    kept |= {found.labels.get(LABEL_BASE, "") for tag, found in images.items() if tag not in doomed}
    doomed += [tag for tag in _labelled(daemon, BOOTSTRAP_REPOSITORY, LABEL_BOOTSTRAP) if tag not in kept]
    removed = [tag for tag in doomed if daemon.remove(tag)]
    removed += [stage for stage in daemon.leftover_stages(LABEL_TARGET) if daemon.remove(stage)]
    return sorted(removed)


def _labelled(daemon: ImageDaemon, repository: str, label: str) -> dict[str, FoundImage]:
    """Returns the tags of a repository whose image we made: a name alone anyone may give."""
    found = {tag: daemon.find(tag) for tag in daemon.tags(repository)}
    return {tag: image for tag, image in found.items() if image is not None and label in image.labels}


def _build(
    daemon: ImageDaemon, request: BaseRequest, cache_dir: Path, progress: Callable[[str], None]
) -> FoundImage:
    sources = request.sources
    architecture = architecture_of(daemon.architecture())
    base = provide_base(daemon, request, cache_dir, progress)
    downloads = Downloader(cache_dir, sources.root, architecture, progress).fetch(sources.target)
    wanted = BuildRequest(
        tag=sources.tag,
        target=sources.target,
        args={**build_args(), "BASE": base},
        labels={
            LABEL_PROTOCOL: str(wire.PROTOCOL),
            LABEL_CONTENT: sources.content,
            LABEL_TARGET: sources.target,
            LABEL_BASE: base,
        },
        use_cache=not request.fresh,
    )
    with tempfile.TemporaryFile(dir=cache_dir) as context:
        write_context(context, sources, downloads)
        daemon.build(wanted, context, progress)
    built = _ours(daemon, sources)
    if built is None:
        raise ImageError(f"the build ended without an error and without {sources.tag}")
    return built


def _built(image: FoundImage, sources: Sources, start: float, *, cached: bool) -> BuiltImage:
    return BuiltImage(image.id, sources.tag, sources.content, time.monotonic() - start, cached)


def _wanted(daemon: ImageDaemon, request: BaseRequest) -> FoundImage | None:
    image = _ours(daemon, request.sources)
    if image and serves(request.base, image.labels.get(LABEL_BASE, ""), request.registry_image):
        return image
    return None


def _ours(daemon: ImageDaemon, sources: Sources) -> FoundImage | None:
    # The label as well: a tag is cut short, and anyone may set one.
    image = daemon.find(sources.tag)
    return image if image and image.labels.get(LABEL_CONTENT) == sources.content else None


def _versions(daemon: ImageDaemon, target: Target) -> tuple[str, ...]:
    return tuple(tag for tag in daemon.tags(REPOSITORY) if tag.startswith(f"{REPOSITORY}:{target}-"))


def _judged(daemon: ImageDaemon, name: str) -> tuple[FoundImage | None, tuple[str, ...]]:
    found = daemon.find(name)
    return found, tuple(unfit(found, daemon.architecture())) if found else ()


def _own(daemon: ImageDaemon, name: str) -> ImageRef:
    found, reasons = _judged(daemon, name)
    if found is None:
        raise ImageError(f"the daemon has no image {name}", hint=f"build it, or `docker pull {name}`")
    if reasons:
        raise ImageError(f"image {name} cannot serve: {'; '.join(reasons)}", hint=UNFIT_FIX)
    return ImageRef(found.id, name, user_image=True, env=found.env)


def _build_hint(target: Target) -> str:
    return BUILD_HINT if target == "slim" else f"{BUILD_HINT} --target {target}"


@contextmanager
def _lock(cache_dir: Path, progress: Callable[[str], None]) -> Generator[None]:
    """Holds the cache for one build; the kernel lets go of it should this process die."""
    make_private(cache_dir)
    with (cache_dir / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("waiting for another build to end")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield

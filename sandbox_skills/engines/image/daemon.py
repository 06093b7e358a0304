"""The few things we ask a Docker daemon about images, typed, with its errors translated."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Thread
from typing import IO, TYPE_CHECKING, Any

import docker
import docker.errors

from sandbox_skills.engines.docker_client import translated, understood
from sandbox_skills.engines.image.progress import Tail
from sandbox_skills.errors import EngineError, ImageError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping
    from pathlib import Path

REGISTRY_SECONDS = 20.0
"""A registry that has not answered by then is blocked without a word; one that is there takes under 2 s."""


@dataclass(frozen=True, slots=True)
class FoundImage:
    """One image as the daemon describes it. `size` in bytes; `env` as the image declares it."""

    id: str
    tags: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    volumes: tuple[str, ...] = ()
    architecture: str = ""
    size: int = 0


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What the daemon is asked to build from a context."""

    tag: str
    target: str
    args: Mapping[str, str]
    labels: Mapping[str, str]
    use_cache: bool = True


class ImageDaemon:
    """A Docker daemon's images. Every method blocks and raises ImageError or EngineUnavailableError."""

    def __init__(self, client: docker.APIClient) -> None:
        # docker-py's stubs leave most of these results untyped: what we read is checked in `_found`.
        self._api: Any = client

    def architecture(self) -> str:
        """Returns what the daemon runs on, as images spell it: `amd64`, `arm64`."""
        with _errors("ask the daemon for its version"):
            version = self._api.version()
        with understood("its version"):
            return str(version["Arch"])

    def find(self, reference: str) -> FoundImage | None:
        """Returns the image of that name or id, None where there is none."""
        with _errors(f"inspect image {reference}"):
            try:
                answer = self._api.inspect_image(reference)
            except docker.errors.ImageNotFound:
                return None
        with understood("an image"):
            return _found(answer)

    def tags(self, repository: str) -> list[str]:
        """Returns every tag of a repository that this daemon has, as `repository:tag`, sorted."""
        with _errors("list images"):
            listed = self._api.images(name=repository)
        with understood("a list of images"):
            names = {str(tag) for image in listed for tag in image.get("RepoTags") or ()}
        return sorted(tag for tag in names if tag.startswith(f"{repository}:"))

    def leftover_stages(self, label: str) -> list[str]:
        """Returns the ids of nameless images with that label: stages that a build kept for the next one."""
        with _errors("list images"):
            listed = self._api.images(filters={"dangling": True, "label": label})
        with understood("a list of images"):
            return sorted(str(image["Id"]) for image in listed)

    def remove(self, reference: str) -> bool:
        """Removes one tag or image; returns False where it is used, or gone already."""
        with _errors(f"remove image {reference}"):
            try:
                self._api.remove_image(reference)
            except docker.errors.APIError as error:
                if error.status_code in {404, 409}:
                    return False
                raise
        return True

    def import_tar(self, tar: Path, tag: str, label: str) -> None:
        """Makes an image of one layer from a root file system, with that label."""
        repository, _, name = tag.rpartition(":")
        with _errors("import the base image"):
            changes = [f"LABEL {label}=1"]
            self._api.import_image_from_file(str(tar), repository=repository, tag=name, changes=changes)

    def registry_answers(self, reference: str) -> bool:
        """Tells whether the image's registry answers the daemon within REGISTRY_SECONDS and has it."""
        answers: list[bool] = []

        def ask() -> None:
            try:
                with _errors("ask the registry"):
                    self._api.inspect_distribution(reference)
            except EngineError:
                return
            answers.append(True)

        # A thread that may outlive us: docker-py offers no time-out of one request.
        thread = Thread(target=ask, daemon=True, name="registry-answers")
        thread.start()
        thread.join(REGISTRY_SECONDS)
        return bool(answers)

    def pull(self, reference: str, progress: Callable[[str], None]) -> None:
        """Fetches an image from its registry."""
        repository, _, tag = reference.rpartition(":")
        with _errors(f"pull {reference}"):
            _follow(
                self._api.pull(repository, tag=tag, stream=True, decode=True), f"pull {reference}", progress
            )

    def build(self, request: BuildRequest, context: IO[bytes], progress: Callable[[str], None]) -> None:
        """Builds a tar of sources into an image, with the host's network for steps that need one."""
        what = f"build {request.tag}"
        with _errors(what):
            events = self._api.build(
                fileobj=context,
                custom_context=True,
                tag=request.tag,
                target=request.target,
                buildargs=dict(request.args),
                labels=dict(request.labels),
                network_mode="host",
                nocache=not request.use_cache,
                rm=True,
                forcerm=True,
                decode=True,
            )
            _follow(events, what, progress)


def _follow(events: Iterator[Any], what: str, progress: Callable[[str], None]) -> None:
    tail = Tail(progress)
    for event in events:
        with understood("the progress of its work"):
            error, text = event.get("error"), event.get("stream") or _status(event)
            is_news = not event.get("progressDetail")
        if error is not None:
            tail.feed(str(error))
            raise tail.failure(f"cannot {what}")
        # Bars of a download come many times a second; only changes of state are news.
        if is_news:
            tail.feed(str(text))


def _status(event: Mapping[str, Any]) -> str:
    parts = (event.get("id"), event.get("status"))
    return ": ".join(str(part) for part in parts if part)


def _found(raw: Mapping[str, Any]) -> FoundImage:
    config: Mapping[str, Any] = raw.get("Config") or {}
    return FoundImage(
        id=str(raw["Id"]),
        tags=tuple(raw.get("RepoTags") or ()),
        labels=dict(config.get("Labels") or {}),
        env=dict(entry.split("=", 1) for entry in config.get("Env") or () if "=" in entry),
        volumes=tuple(sorted(config.get("Volumes") or ())),
        architecture=str(raw.get("Architecture", "")),
        size=int(raw.get("Size", 0)),
    )


@contextmanager
def _errors(action: str) -> Generator[None]:
    with translated(action):
        try:
            yield
        except docker.errors.APIError as error:
            raise ImageError(f"cannot {action}: {error.explanation or error}") from error

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from sandbox_skills.engines import wire
from sandbox_skills.engines.image import (
    Base,
    BuiltImage,
    OwnImage,
    build,
    content_hash,
    image_tag,
    own_status,
    prune_images,
    resolve,
    status,
    unfit,
)
from sandbox_skills.engines.image import builder as image
from sandbox_skills.engines.image.base import bootstrap_tag
from sandbox_skills.engines.image.daemon import BuildRequest, FoundImage
from sandbox_skills.engines.image.downloads import Downloader
from sandbox_skills.engines.image_source import read_sources
from sandbox_skills.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import IO

    import docker

CLIENT = cast("docker.APIClient", None)
TAG = image_tag("slim")
BASE = "sandbox-skills-base:trixie-1"


def labels(content: str, base: str = BASE) -> Mapping[str, str]:
    return {
        "sandbox-skills.protocol": str(wire.PROTOCOL),
        "sandbox-skills.content": content,
        "sandbox-skills.base": base,
    }


OURS = FoundImage(
    "sha256:ours", (TAG,), labels(content_hash("slim")), {"PATH": "/bin"}, size=5, architecture="amd64"
)

MADE = FoundImage("sha256:made", labels={"sandbox-skills.bootstrap": "1"})
"""A base that was made from packages."""


class FakeDaemon:
    """A daemon's images in a dictionary."""

    def __init__(self, **images: FoundImage) -> None:
        self.images: dict[str, FoundImage] = images
        self.in_use: set[str] = set()
        self.stages: list[str] = []
        self.built: list[BuildRequest] = []

    def architecture(self) -> str:
        return "amd64"

    def find(self, reference: str) -> FoundImage | None:
        return self.images.get(reference)

    def tags(self, repository: str) -> list[str]:
        return sorted(tag for tag in self.images if tag.startswith(f"{repository}:"))

    def leftover_stages(self, label: str) -> list[str]:
        return self.stages

    def remove(self, reference: str) -> bool:
        return reference not in self.in_use

    def build(self, request: BuildRequest, context: IO[bytes], progress: Callable[[str], None]) -> None:
        assert context.read(1)
        progress("Step 1/1")
        self.built.append(request)
        self.images[request.tag] = FoundImage("sha256:new", (request.tag,), request.labels)


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> FakeDaemon:
    fake = FakeDaemon()
    monkeypatch.setattr(image, "ImageDaemon", lambda _: fake)
    monkeypatch.setattr(image, "provide_base", lambda *_: BASE)
    monkeypatch.setattr(Downloader, "fetch", lambda *_: {})
    return fake


def built(cache: Path, base: Base = "auto", *, fresh: bool = False) -> BuiltImage:
    return build(CLIENT, target="slim", base=base, cache_dir=cache, progress=lambda _: None, fresh=fresh)


def test_status_of_nothing_is_missing(daemon: FakeDaemon) -> None:
    found = status(CLIENT, target="slim")
    assert (found.state, found.tag, found.content, found.id) == ("missing", TAG, content_hash("slim"), "")


def test_status_of_ours_is_present(daemon: FakeDaemon) -> None:
    daemon.images[TAG] = OURS
    found = status(CLIENT, target="slim")
    assert (found.state, found.id, found.size, found.base) == ("present", "sha256:ours", 5, BASE)


def test_status_of_another_version_is_stale_and_names_it(daemon: FakeDaemon) -> None:
    daemon.images = {"sandbox-skills-runner:slim-0": OURS, "sandbox-skills-runner:full-1": OURS}
    found = status(CLIENT, target="slim")
    assert (found.state, found.found) == ("stale", ("sandbox-skills-runner:slim-0",))


def test_a_foreign_image_under_our_tag_is_not_ours(daemon: FakeDaemon) -> None:
    daemon.images[TAG] = replace(OURS, labels={})
    assert status(CLIENT, target="slim").state == "stale"


def test_resolve_pins_our_image_by_id(daemon: FakeDaemon) -> None:
    daemon.images[TAG] = OURS
    found = resolve(CLIENT, None, "slim")
    assert (found.id, found.name, found.user_image, found.env) == (
        "sha256:ours",
        TAG,
        False,
        {"PATH": "/bin"},
    )


def test_resolve_tells_missing_from_stale_and_how_to_build(daemon: FakeDaemon) -> None:
    with pytest.raises(ImageError, match="is missing") as caught:
        resolve(CLIENT, None, "slim")
    assert caught.value.hint == "sandbox-skills image build"
    daemon.images["sandbox-skills-runner:full-0"] = OURS
    with pytest.raises(ImageError, match="another version") as caught:
        resolve(CLIENT, None, "full")
    assert caught.value.hint == "sandbox-skills image build --target full"


def test_a_user_s_image_that_is_made_from_ours_serves(daemon: FakeDaemon) -> None:
    daemon.images["mine"] = replace(OURS, id="sha256:mine")
    found = resolve(CLIENT, "mine", "slim")
    assert (found.id, found.name, found.user_image) == ("sha256:mine", "mine", True)


def test_a_user_s_image_that_is_not_there_is_an_error(daemon: FakeDaemon) -> None:
    with pytest.raises(ImageError, match="no image mine"):
        resolve(CLIENT, "mine", "slim")


def test_a_user_s_image_is_refused_with_every_reason(daemon: FakeDaemon) -> None:
    daemon.images["mine"] = FoundImage("1", volumes=("/data",), architecture="arm64")
    with pytest.raises(ImageError, match=r"no label sandbox-skills\.protocol.*VOLUME /data.*arm64"):
        resolve(CLIENT, "mine", "slim")


def test_a_runner_of_another_protocol_is_unfit() -> None:
    (reason,) = unfit(replace(OURS, labels={"sandbox-skills.protocol": "0"}), "amd64")
    assert "protocol 0" in reason


def test_a_build_labels_what_it_is(daemon: FakeDaemon, tmp_path: Path) -> None:
    result = built(tmp_path)
    assert (result.id, result.tag, result.content, result.cached) == (
        "sha256:new",
        TAG,
        content_hash("slim"),
        False,
    )
    (request,) = daemon.built
    assert request.labels == {**labels(content_hash("slim")), "sandbox-skills.target": "slim"}
    assert request.args["BASE"] == BASE
    assert request.use_cache


def test_a_second_build_is_cached(daemon: FakeDaemon, tmp_path: Path) -> None:
    built(tmp_path)
    assert built(tmp_path).cached
    assert len(daemon.built) == 1


def test_another_base_or_a_fresh_one_builds_again(daemon: FakeDaemon, tmp_path: Path) -> None:
    built(tmp_path)
    assert built(tmp_path, "bootstrap").cached
    assert not built(tmp_path, "registry").cached
    assert not built(tmp_path, fresh=True).cached
    assert [request.use_cache for request in daemon.built] == [True, True, False]


def test_a_build_without_a_result_is_an_error(
    daemon: FakeDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "build", lambda *_: None)
    with pytest.raises(ImageError, match="without"):
        built(tmp_path)


def test_builds_take_turns_and_the_second_finds_the_first_one_s_image(
    daemon: FakeDaemon, tmp_path: Path
) -> None:
    inside, proceed = threading.Event(), threading.Event()
    original = daemon.build

    def slow(request: BuildRequest, context: IO[bytes], progress: Callable[[str], None]) -> None:
        inside.set()
        assert proceed.wait(5)
        original(request, context, progress)

    daemon.build = slow  # type: ignore[method-assign]  # one instance, for this test
    waiting = threading.Event()
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(built, tmp_path)
        assert inside.wait(5)
        second = threads.submit(
            build, CLIENT, target="slim", base="auto", cache_dir=tmp_path, progress=lambda _: waiting.set()
        )
        assert waiting.wait(5)
        proceed.set()
        assert [first.result(5).cached, second.result(5).cached] == [False, True]
    assert len(daemon.built) == 1


def test_pruning_keeps_this_version_what_is_asked_for_and_their_bases(daemon: FakeDaemon) -> None:
    old = replace(OURS, labels=labels("old", "sandbox-skills-base:trixie-0"))
    daemon.images = {
        TAG: OURS,
        "sandbox-skills-runner:slim-0": replace(old, id="sha256:kept"),
        "sandbox-skills-runner:slim-1": replace(old, id="sha256:old"),
        "sandbox-skills-runner:slim-2": replace(old, id="sha256:used"),
        BASE: OURS,
        "sandbox-skills-base:trixie-0": MADE,
        "sandbox-skills-base:trixie-2": MADE,
        bootstrap_tag(read_sources("full").packages): MADE,
        "mine": OURS,
    }
    daemon.in_use = {"sandbox-skills-runner:slim-2"}
    daemon.stages = ["sha256:stage"]
    assert prune_images(CLIENT, keep=["sha256:kept"]) == [
        "sandbox-skills-base:trixie-2",
        "sandbox-skills-runner:slim-1",
        "sha256:stage",
    ]


def test_pruning_leaves_what_only_has_a_name_like_ours(daemon: FakeDaemon) -> None:
    daemon.images = {
        "sandbox-skills-runner:slim-9": replace(OURS, labels={}),
        "sandbox-skills-base:trixie-9": replace(OURS, labels={"sandbox-skills.target": "slim"}),
        "sandbox-skills-runner-of-mine:slim-1": OURS,
    }
    assert prune_images(CLIENT) == []


def test_an_image_of_the_users_own_is_present_missing_or_unfit(daemon: FakeDaemon) -> None:
    assert own_status(CLIENT, "mine").state == "missing"
    daemon.images["mine"] = OURS
    assert own_status(CLIENT, "mine") == OwnImage("present", "mine", "sha256:ours", 5)
    daemon.images["mine"] = replace(OURS, labels={}, volumes=("/data",))
    found = own_status(CLIENT, "mine")
    assert (found.state, len(found.reasons)) == ("unfit", 2)
    assert "sandbox-skills image status --target slim" in found.fix

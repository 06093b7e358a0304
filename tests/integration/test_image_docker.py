"""The runner image as it is built here: what is in it, what is not, and who else's image is let in."""

from __future__ import annotations

import io
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.engines import image, image_source, wire
from sandbox_skills.engines.image import UID_COUNT, UID_FIRST
from sandbox_skills.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import docker

pytestmark = pytest.mark.docker

TOOLS = (
    "awk bash bc curl diff file find git grep jq node openssl patch ps python python3 rg sed sqlite3 tar tree"
    " unzip xz zip"
)


def run_inside(daemon: docker.APIClient, image_id: str, script: str, uid: int = UID_FIRST) -> str:
    """Runs a script as a box would: no network, read-only root, a uid of its own; returns what it printed."""
    box = daemon.create_container(
        image_id,
        entrypoint=["bash", "-c"],
        command=[script],
        user=f"{uid}:{uid}",
        network_disabled=True,
        host_config=daemon.create_host_config(read_only=True, cap_drop=["ALL"], tmpfs={"/tmp": "exec"}),
    )
    try:
        daemon.start(box)
        code = daemon.wait(box)["StatusCode"]
        output: str = daemon.logs(box).decode()
    finally:
        daemon.remove_container(box, force=True)
    assert code == 0, output
    return output


def config_of(daemon: docker.APIClient, image_id: str) -> dict[str, Any]:
    untyped: Any = daemon
    config: dict[str, Any] = untyped.inspect_image(image_id)["Config"]
    return config


@pytest.fixture(scope="module")
def slim(daemon: docker.APIClient) -> image.ImageRef:
    return image.resolve(daemon, None, "slim")


@pytest.fixture
def inside(daemon: docker.APIClient, slim: image.ImageRef) -> Callable[[str], str]:
    return lambda script: run_inside(daemon, slim.id, script)


@pytest.fixture
def derived(daemon: docker.APIClient, slim: image.ImageRef) -> Iterator[Callable[[str], str]]:
    """Makes images as a user would, from ours, and removes them."""
    names: list[str] = []

    def make(instructions: str) -> str:
        name = f"sandbox-skills-test:derived-{len(names)}"
        dockerfile = io.BytesIO(f"FROM {slim.name}\n{instructions}\n".encode())
        for event in daemon.build(fileobj=dockerfile, tag=name, rm=True, decode=True):
            assert "error" not in event, event
        names.append(name)
        return name

    yield make
    for name in names:
        daemon.remove_image(name, force=True)


def test_a_second_build_is_cached_and_quick(daemon: docker.APIClient, tmp_path: Path) -> None:
    built = image.build(daemon, target="slim", base="auto", cache_dir=tmp_path, progress=pytest.fail)
    assert built.cached
    assert built.seconds < 30  # a build takes minutes
    assert list(tmp_path.iterdir()) == []


def test_status_and_labels_tell_what_it_is(daemon: docker.APIClient, slim: image.ImageRef) -> None:
    found = image.status(daemon, target="slim")
    assert (found.state, found.id) == ("present", slim.id)
    assert found.size > 0
    labels = config_of(daemon, slim.id)["Labels"]
    assert labels["sandbox-skills.protocol"] == str(wire.PROTOCOL)
    assert labels["sandbox-skills.content"] == image.content_hash("slim")
    assert labels["sandbox-skills.target"] == "slim"


def test_it_declares_nothing_that_a_box_could_not_override(
    daemon: docker.APIClient, slim: image.ImageRef
) -> None:
    config = config_of(daemon, slim.id)
    assert not config.get("Volumes")
    assert not config.get("Entrypoint")
    assert not config.get("Healthcheck")


def test_the_tools_are_there(inside: Callable[[str], str]) -> None:
    assert inside(f"for tool in {TOOLS}; do command -v $tool > /dev/null || echo $tool; done") == ""


def test_interpreters_are_new_enough(inside: Callable[[str], str]) -> None:
    python, node = inside("python3 --version; node --version").split("\n")[:2]
    assert python.startswith("Python 3.13.")
    assert int(node.removeprefix("v").split(".")[0]) >= 22


def test_node_runs_typescript_by_stripping_types(inside: Callable[[str], str]) -> None:
    script = "echo 'const n: number = 41; console.log(n + 1)' > /tmp/a.ts && node /tmp/a.ts"
    assert inside(script) == "42\n"


def test_nothing_is_setuid_or_has_capabilities(daemon: docker.APIClient, slim: image.ImageRef) -> None:
    script = """
find / -xdev -perm /6000 2> /dev/null || true  # apt's two empty folders are closed to all but apt
python3 - <<'END'
import os
for folder, _, names in os.walk("/usr"):
    for name in names:
        path = os.path.join(folder, name)
        if not os.path.islink(path) and "security.capability" in os.listxattr(path):
            print(path)
END
"""
    # As root, which owns nearly every folder and can look into it without a capability.
    assert run_inside(daemon, slim.id, script, uid=0) == ""


@pytest.mark.parametrize("uid", [UID_FIRST, UID_FIRST + UID_COUNT - 1])
def test_every_uid_of_the_range_has_a_name_and_a_home(
    daemon: docker.APIClient, slim: image.ImageRef, uid: int
) -> None:
    look = "python3 -c 'import grp, os, pwd; p = pwd.getpwuid(os.getuid()); print(*p, grp.getgrgid(p[3])[0])'"
    name = f"box{uid}"
    assert run_inside(daemon, slim.id, look, uid).split() == [
        name, "x", str(uid), str(uid), "/workspace/home", "/bin/bash", name,
    ]  # fmt: skip


def test_no_uid_beyond_the_range_has_a_name(inside: Callable[[str], str]) -> None:
    count = inside(f"grep -c '^box' /etc/passwd; id -nu {UID_FIRST + UID_COUNT} 2>&1 || true")
    assert count.split("\n")[0] == str(UID_COUNT)
    assert "no such user" in count


def test_localhost_resolves_without_a_network(inside: Callable[[str], str]) -> None:
    script = (
        "python3 -c 'import socket; print(*sorted({a[4][0] for a in socket.getaddrinfo(\"localhost\", 80)}))'"
    )
    assert inside(script) == "127.0.0.1 ::1\n"
    assert "127.0.0.1" in inside(
        "node -e \"require('dns').lookup('localhost', 4, (e, a) => console.log(e, a))\""
    )


def test_it_forgets_the_host_that_made_it(inside: Callable[[str], str]) -> None:
    base = inside("ls /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true")
    assert base == ""


def test_text_is_utf_8_and_mount_points_are_there(inside: Callable[[str], str]) -> None:
    assert inside("locale charmap; test -d /workspace && test -d /skills") == "UTF-8\n"


def test_the_runner_is_compiled_from_its_source(inside: Callable[[str], str]) -> None:
    script = """python3 - <<'END'
import importlib.util, marshal
from pathlib import Path
runner = Path("/opt/sandbox-skills/runner.py")
data = runner.with_suffix(".pyc").read_bytes()
assert data[:4] == importlib.util.MAGIC_NUMBER
assert int.from_bytes(data[4:8], "little") == 1, "hash based and unchecked"
assert data[8:16] == importlib.util.source_hash(runner.read_bytes())
END"""
    assert inside(script) == ""


def test_a_user_s_image_that_is_made_from_ours_serves(
    daemon: docker.APIClient, derived: Callable[[str], str]
) -> None:
    name = derived("LABEL mine=1")
    found = image.resolve(daemon, name, "slim")
    assert found.user_image
    assert found.id.startswith("sha256:")


@pytest.mark.parametrize(
    ("instructions", "reason"),
    [("VOLUME /data", "VOLUME /data"), ("LABEL sandbox-skills.protocol=0", "protocol 0")],
)
def test_a_user_s_image_that_cannot_serve_is_refused(
    daemon: docker.APIClient, derived: Callable[[str], str], instructions: str, reason: str
) -> None:
    with pytest.raises(ImageError, match=reason):
        image.resolve(daemon, derived(instructions), "slim")


def test_an_image_that_is_not_there_is_an_error(daemon: docker.APIClient) -> None:
    with pytest.raises(ImageError, match="no image"):
        image.resolve(daemon, "sandbox-skills-test:absent", "slim")


@pytest.fixture
def other_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This version's sources with one more line, so that nothing that is built from them can be cached."""
    copy = tmp_path / "runner-image"
    shutil.copytree(image.image_source(), copy)
    with (copy / "finish.sh").open("a") as file:
        file.write("echo finished by a test\n")
    monkeypatch.setattr(image_source, "image_source", lambda: copy)
    return copy


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_base_from_a_registry_gets_its_packages_in_the_build(
    daemon: docker.APIClient, other_sources: Path, tmp_path: Path
) -> None:
    """A bare Debian under a local name stands in for one that was pulled."""
    name = "sandbox-skills-test:bare"
    tar = tmp_path / "bare.tar"
    subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "trixie", str(tar)], check=True)
    daemon.import_image_from_file(str(tar), repository="sandbox-skills-test", tag="bare")
    lines: list[str] = []
    try:
        built = image.build(
            daemon, target="slim", base="registry", cache_dir=tmp_path / "cache", progress=lines.append,
            registry_image=name,
        )  # fmt: skip
        assert not built.cached
        assert "finished by a test" in lines
        assert image.status(daemon, target="slim").base == name
        assert run_inside(daemon, built.id, "jq -n 1; node -p 2; ls /var/lib/apt/lists") == "1\n2\n"
    finally:
        daemon.remove_image(image.image_tag("slim"), force=True)
        daemon.remove_image(name, force=True)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_build_that_fails_tells_why_and_leaves_no_image(
    daemon: docker.APIClient, other_sources: Path, tmp_path: Path
) -> None:
    with (other_sources / "finish.sh").open("a") as file:
        file.write("echo the reason >&2; exit 3\n")
    with pytest.raises(ImageError, match=r"the reason\n(.*\n)*.*non-zero code: 3"):
        image.build(daemon, target="slim", base="auto", cache_dir=tmp_path / "cache", progress=lambda _: None)
    assert image.status(daemon, target="slim").state == "stale"
    assert not list((tmp_path / "cache").glob("base-*"))

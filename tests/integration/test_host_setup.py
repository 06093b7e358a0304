"""`make docker` and `make docker-stop`, on a daemon of the test's own in namespaces of its own."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "runner-image" / "host-setup.sh"

OWN_DAEMON = f"""
set -e
mount -t tmpfs none /run
export STATE_DIR=$PWD/state ENGINE_SOCKET=$PWD/docker.sock DOCKER_HOST=unix://$PWD/docker.sock
export DOCKERD_ARGS="--data-root $PWD/data --exec-root /run/docker $EXTRA"
mkdir state && echo '1 5' > state/dockerd.pid  # stale: another program has that number
sh {SCRIPT} start; echo "start $?"
sh {SCRIPT} start; echo "again $?"
read -r pid ticks < state/dockerd.pid
grep -q dockerd /proc/$pid/cmdline && echo "ours"
sh {SCRIPT} stop; echo "stop $?"
test -e /proc/$pid/stat && grep -qv ' Z ' /proc/$pid/stat && echo "still there"
sh {SCRIPT} stop; echo "stop again $?"
ls state
"""


def run(argv: list[str], cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=cwd, env=environ() | env, capture_output=True, text=True, check=False)


def environ() -> dict[str, str]:
    kept = ("PATH", "HOME", "LANG")
    return {name: os.environ[name] for name in kept if name in os.environ}  # noqa: TID251  # a script's environment


@pytest.mark.root
@pytest.mark.docker
@pytest.mark.parametrize("extra", ["", "--storage-driver=no-such-driver"], ids=["plain", "second try"])
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_start_and_stop_are_idempotent_and_touch_their_own_daemon_only(tmp_path: Path, extra: str) -> None:
    done = run(["unshare", "--mount", "--net", "sh", "-c", OWN_DAEMON], tmp_path, EXTRA=extra)
    expected = ["start 0", "again 0", "ours", "stop 0", "stop again 0", "dockerd.log", "engine.lock"]
    assert done.stdout.splitlines() == expected, done.stderr
    assert ("trying once more" in done.stderr) == bool(extra)


@pytest.mark.root
@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_daemon_that_cannot_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    done = run(["unshare", "--mount", "--net", "sh", "-c", OWN_DAEMON], tmp_path, EXTRA="--no-such-option")
    assert done.returncode == 1
    assert "unknown flag: --no-such-option" in done.stderr


@pytest.mark.docker
def test_an_engine_that_answers_is_used_as_it_is(tmp_path: Path) -> None:
    done = run(["sh", str(SCRIPT)], tmp_path, STATE_DIR=str(tmp_path / "state"))
    assert done.returncode == 0
    assert "answers" in done.stderr
    assert not (tmp_path / "state").exists()


def test_it_installs_nothing_where_that_is_forbidden(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "docker.sock")
    done = run(
        ["sh", str(SCRIPT)],
        tmp_path,
        ENGINE_SETUP="no",
        ENGINE_SOCKET=nowhere,
        DOCKER_HOST=f"unix://{nowhere}",
    )
    assert done.returncode == 1
    assert "ENGINE_SETUP=no" in done.stderr
    assert "apt-get install" in done.stderr


def test_an_engine_that_the_user_named_is_never_replaced(tmp_path: Path) -> None:
    done = run(["sh", str(SCRIPT)], tmp_path, DOCKER_HOST=f"unix://{tmp_path}/other.sock")
    assert done.returncode == 1
    assert "engine of your own" in done.stderr


@pytest.mark.root
def test_an_engine_that_the_user_may_not_use_is_not_installed_again(tmp_path: Path) -> None:
    place = tmp_path / "docker.sock"
    # Who may read everything reaches a .venv wherever it is, and still needs the right to write to a socket.
    capability = "+dac_read_search"
    nobody = ["setpriv", "--reuid", "65534", "--inh-caps", capability, "--ambient-caps", capability]
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen()
        done = run(
            [*nobody, "sh", str(SCRIPT)], tmp_path, ENGINE_SOCKET=str(place), DOCKER_HOST=f"unix://{place}"
        )
    assert done.returncode == 1
    assert "the group that owns its socket" in done.stderr
    assert "apt-get install" not in done.stderr


def test_an_unknown_word_is_refused_with_the_usage(tmp_path: Path) -> None:
    done = run(["sh", str(SCRIPT), "restart"], tmp_path)
    assert done.returncode == 2
    assert "usage" in done.stderr

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.directories import Account
from sandbox_skills.engines.docker_client import NO_DAEMON_HINT, NO_PERMISSION_HINT
from sandbox_skills.engines.doctor.checks import (
    DATA_NEEDS,
    GIB,
    SEVERITY,
    Check,
    Directory,
    SocketAccess,
    Space,
    State,
    arranged,
    directory_check,
    failure,
    image_check,
    leftovers_check,
    mount_table_check,
    own_image_check,
    shown_size,
    space_check,
    temporary_check,
    unreachable,
    worst,
)
from sandbox_skills.engines.image import ImageStatus, OwnImage
from sandbox_skills.errors import EngineUnavailableError
from sandbox_skills.spec import KIB, MIB

if TYPE_CHECKING:
    from sandbox_skills.engines.image_source import Target

SOCKET = SocketAccess("/run/docker.sock", "docker", "ada", member=False)
DENIED = EngineUnavailableError("permission denied on its socket", hint=NO_PERMISSION_HINT)
ABSENT = EngineUnavailableError("no daemon listens there", hint=NO_DAEMON_HINT)

CHECKS = st.lists(
    st.builds(Check, st.text(max_size=3), st.sampled_from(get_args(State)), st.text(max_size=3))
)


@given(CHECKS)
def test_the_most_severe_come_first_and_the_rest_keeps_its_order(checks: list[Check]) -> None:
    ordered = arranged(checks)
    for state in get_args(State):
        assert [c for c in ordered if c.state == state] == [c for c in checks if c.state == state]
    severities = [SEVERITY[check.state] for check in ordered]
    assert severities == sorted(severities, reverse=True)
    assert worst(checks) == (ordered[0].state if ordered else "ok")


def test_every_state_has_a_severity() -> None:
    assert list(SEVERITY) == list(get_args(State))


def test_no_daemon_says_how_to_get_one() -> None:
    check = unreachable(ABSENT, None)
    assert (check.name, check.state, check.fix) == ("engine", "failed", NO_DAEMON_HINT)


def test_no_permission_names_the_group_and_what_it_means() -> None:
    fix = unreachable(DENIED, SOCKET).fix
    assert "sudo usermod -aG docker ada" in fix
    assert "can become root" in fix


def test_a_member_of_the_group_logs_in_again() -> None:
    fix = unreachable(DENIED, SocketAccess("/run/docker.sock", "docker", "ada", member=True)).fix
    assert fix.startswith("log in again")
    assert "usermod" not in fix


def test_a_socket_of_no_group_needs_root() -> None:
    fix = unreachable(DENIED, SocketAccess("/run/docker.sock", "", "ada", member=False)).fix
    assert fix.startswith("run as root")


def test_a_socket_that_cannot_be_looked_at_gets_the_general_advice() -> None:
    assert unreachable(DENIED, None).fix == NO_PERMISSION_HINT


def test_a_failure_without_words_is_named_by_its_type() -> None:
    assert failure("x", TimeoutError()).detail == "TimeoutError"


def directory(**changes: object) -> Check:
    facts: dict[str, object] = {
        "path": Path("/data"),
        "exists": True,
        "writable": True,
        "mode": 0o040700,
        "uid": 7,
        "asking_uid": 7,
    }
    return directory_check(Directory(**(facts | changes)))  # type: ignore[arg-type]  # each test names its fields


@pytest.mark.parametrize(
    ("store", "state"), [("/home/alice/.local/share/x/store", "warning"), ("/var/lib/x/1000/store", "ok")]
)
def test_a_store_whose_path_tells_a_name_is_told_with_what_to_do(store: str, state: State) -> None:
    found = mount_table_check(Path(store), Account(1000, "alice", Path("/home/alice")))
    assert (found.state, store in found.detail) == (state, True)
    assert ("-o 1000 -m 700 /var/lib/sandbox-skills/1000" in found.fix) is (state == "warning")


@pytest.mark.parametrize(
    ("changes", "state", "fix"),
    [
        ({}, "ok", ""),
        ({"mode": 0o040500}, "ok", ""),
        ({"exists": False, "mode": 0o041777, "uid": 0}, "ok", ""),
        ({"mode": 0o040755}, "warning", "chmod 700 /data"),
        ({"mode": 0o042700}, "warning", "chmod 700 /data"),
        ({"uid": 8}, "warning", "sudo chown 7 /data"),
        ({"writable": False}, "failed", "choose another with SANDBOX_SKILLS_DATA_DIR"),
        ({"writable": False, "exists": False}, "failed", "choose another with SANDBOX_SKILLS_DATA_DIR"),
    ],
)
def test_the_data_directory_is_ours_alone(changes: dict[str, object], state: str, fix: str) -> None:
    check = directory(**changes)
    assert (check.state, check.fix) == (state, fix)


@pytest.mark.parametrize(
    ("size", "inodes", "state"),
    [
        (50 * GIB, 1_000_000, "ok"),
        (50 * GIB, None, "ok"),
        (DATA_NEEDS.enough, DATA_NEEDS.inodes, "ok"),
        (DATA_NEEDS.enough - 1, None, "warning"),
        (50 * GIB, DATA_NEEDS.inodes - 1, "warning"),
        (DATA_NEEDS.least, None, "warning"),
        (DATA_NEEDS.least - 1, None, "failed"),
    ],
)
def test_room_is_judged_by_bytes_and_inodes(size: int, inodes: int | None, state: str) -> None:
    check = space_check("data disk", Space("/data", size, inodes), DATA_NEEDS)
    assert check.state == state
    assert bool(check.fix) == (state != "ok")


def test_sandboxes_that_are_left_are_told_with_the_command_that_removes_them() -> None:
    assert leftovers_check(3, 0).detail == "none; 3 sandboxes in use"
    assert leftovers_check(3, 0, 4_500_000).detail == "none; 3 sandboxes in use, 4.3 MiB of memory each"
    check = leftovers_check(3, 1)
    assert (check.state, check.fix) == ("warning", "sandbox-skills gc")
    assert check.detail.startswith("1 sandbox left")


def test_unfinished_copies_are_counted() -> None:
    assert temporary_check(0).state == "ok"
    assert temporary_check(1).detail.startswith("1 unfinished copy ")
    assert temporary_check(2).fix == "sandbox-skills gc"


@pytest.mark.parametrize(
    ("target", "command"),
    [("slim", "sandbox-skills image build"), ("full", "sandbox-skills image build --target full")],
)
def test_an_image_that_is_missing_or_old_is_built(target: Target, command: str) -> None:
    missing = image_check(ImageStatus("missing", "tag", "hash"), target)
    stale = image_check(ImageStatus("stale", "tag", "hash", found=("repo:old-1", "repo:old-2")), target)
    assert (missing.state, missing.fix) == (stale.state, stale.fix) == ("failed", command)
    assert "repo:old-1, repo:old-2" in stale.detail


def test_an_image_that_is_there_is_told_with_its_size() -> None:
    check = image_check(ImageStatus("present", "repo:slim-1", "hash", id="sha256:1", size=345 * MIB), "slim")
    assert (check.state, check.detail) == ("ok", "repo:slim-1, 345 MiB")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (KIB, "1 KiB"),
        (2 * MIB - 1, "1 MiB"),
        (GIB * 3 // 2, "1.5 GiB"),
        (20 * GIB, "20.0 GiB"),
    ],
)
def test_sizes_are_rounded_down(size: int, text: str) -> None:
    assert shown_size(size) == text


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (OwnImage("present", "mine", "id", 5 * MIB), ("ok", "mine, your own (image.name), 5 MiB")),
        (
            OwnImage("missing", "mine", fix="build it"),
            ("failed", "your own image mine (image.name) is not there"),
        ),
        (
            OwnImage("unfit", "mine", "id", 5, ("one", "two"), "again"),
            ("failed", "your own image mine (image.name) cannot serve: one; two"),
        ),
    ],
)
def test_an_image_of_the_users_own_is_spoken_of_as_that(image: OwnImage, expected: tuple[str, str]) -> None:
    check = own_image_check(image)
    assert check.state == expected[0]
    assert check.detail.startswith(expected[1])
    assert check.fix == image.fix

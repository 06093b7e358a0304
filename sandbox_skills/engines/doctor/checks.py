"""What a check of `doctor` is, and what the facts about this host mean. Pure."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sandbox_skills.directories import NEUTRAL, tells_of
from sandbox_skills.engines.docker_client import NO_PERMISSION_HINT
from sandbox_skills.spec import KIB, MIB

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from pathlib import Path

    from sandbox_skills.directories import Account
    from sandbox_skills.engines.image import ImageStatus, OwnImage
    from sandbox_skills.engines.image_source import Target
    from sandbox_skills.errors import SandboxSkillsError
    from sandbox_skills.spec import Guarantee

State = Literal["ok", "warning", "lost", "failed"]

SEVERITY: Mapping[State, int] = {"ok": 0, "warning": 1, "lost": 2, "failed": 3}

GIB = 1024 * MIB

PRIVATE_MODE = 0o700

GC = "sandbox-skills gc"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: `failed` where sandboxes do not start, `lost` where they start without a guarantee.

    `detail` and `fix` are sentences for people; `guarantee` names the one that a finding is about, if any.
    """

    name: str
    state: State
    detail: str
    fix: str = ""
    guarantee: str = ""


@dataclass(frozen=True, slots=True)
class SocketAccess:
    """Who may use the daemon's socket. `group` is empty where no group may; `user` is the one who asks.

    `member` says that the group lists the user, who may have logged in before it did.
    """

    path: str
    group: str
    user: str
    member: bool


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory of ours, or where it will be made. `uid` is the owner's, `asking_uid` that of this process.

    `writable` is that of the nearest directory that exists.
    """

    path: Path
    exists: bool
    writable: bool
    mode: int
    uid: int
    asking_uid: int


@dataclass(frozen=True, slots=True)
class Space:
    """What is free for us where `path` lies; `inodes` is None where the file system does not count them."""

    path: str
    bytes: int
    inodes: int | None


@dataclass(frozen=True, slots=True)
class SpaceNeeds:
    """Below `least` bytes nothing works, below `enough` bytes or `inodes` not everything does."""

    least: int
    enough: int
    inodes: int
    fix: str


DATA_NEEDS = SpaceNeeds(
    least=16 * MIB,  # the largest public skill has 14.6 MB
    enough=GIB,  # two skills of the largest size that is staged
    inodes=20_000,  # likewise: of 10,000 entries each
    fix=f"make room, or remove what nothing uses with `{GC}`",
)

DOCKER_NEEDS = SpaceNeeds(
    least=64 * MIB,  # a box writes under 1 MiB there; so little free means a daemon about to fail
    enough=4 * GIB,  # the full image and its base have 3.4 GiB
    inodes=100_000,  # the full image has 44,000 files, and a build holds its base as well
    fix="make room, or remove what nothing uses with `docker system prune`",
)


def worst(checks: Iterable[Check]) -> State:
    """Returns the most severe state there is, `ok` for no checks."""
    first = next(iter(arranged(checks)), None)
    return first.state if first is not None else "ok"


def arranged(checks: Iterable[Check]) -> list[Check]:
    """Returns the checks with the most severe first, otherwise in their order."""
    return sorted(checks, key=lambda check: -SEVERITY[check.state])


def shortfalls(
    checks: Iterable[Check], needs: Collection[Guarantee], documented: Collection[Guarantee]
) -> list[Check]:
    """Returns what is less than SECURITY.md says of an engine that gives the `documented` guarantees.

    That is every failure and warning, every one of these guarantees that is lost, and each that sandboxes do not need.
    """
    found = [check for check in checks if _is_short(check, documented)]
    fix = "take it out of `without` in the settings"
    return found + [
        Check("settings", "lost", f"sandboxes do not demand {name}", fix, name)
        for name in sorted(set(documented) - set(needs))
    ]


def _is_short(check: Check, documented: Collection[Guarantee]) -> bool:
    if check.state != "lost":
        return check.state != "ok"
    return not check.guarantee or check.guarantee in documented


def guarantee_check(
    name: str, guarantee: Guarantee, reason: str, fix: str, *, needs: Collection[Guarantee]
) -> Check:
    """Returns the finding that a guarantee is missing: a failure where sandboxes demand it."""
    if guarantee in needs:
        detail = f"{reason}; sandboxes demand {guarantee} and do not start without it"
        return Check(name, "failed", detail, fix, str(guarantee))
    return Check(name, "lost", reason, fix, str(guarantee))


def failure(name: str, error: Exception, hint: str = "") -> Check:
    """Returns the finding that something could not be looked at."""
    return Check(name, "failed", str(error) or type(error).__name__, hint)


def unreachable(error: SandboxSkillsError, access: SocketAccess | None) -> Check:
    """Returns why no daemon answers, with what to do; `access` is None for what is no socket file."""
    fix = error.hint
    if access is not None and fix == NO_PERMISSION_HINT:
        fix = _permission_fix(access)
    return Check("engine", "failed", error.message, fix)


def _permission_fix(access: SocketAccess) -> str:
    if not access.group:
        return f"run as root: no group may use {access.path}"
    if access.member:
        return f"log in again: {access.user} is a member of {access.group}, but this login is older than that"
    return (
        f"run as root, or `sudo usermod -aG {access.group} {access.user}` and log in again; "
        f"whoever is in {access.group} can become root"
    )


def directory_check(directory: Directory) -> Check:
    """Returns whether the data directory can be written, and by us alone."""
    name, path = "data directory", directory.path
    if not directory.writable:
        return Check(
            name, "failed", f"{path} cannot be written", "choose another with SANDBOX_SKILLS_DATA_DIR"
        )
    if not directory.exists:
        return Check(name, "ok", f"{path} will be made when it is needed")
    if directory.uid != directory.asking_uid:
        detail = f"{path} belongs to uid {directory.uid}, who can replace the skills in it"
        return Check(name, "warning", detail, f"sudo chown {directory.asking_uid} {path}")
    mode = stat.S_IMODE(directory.mode)
    if mode & ~PRIVATE_MODE:
        return Check(
            name, "warning", f"{path} has mode {mode:04o} and is open to others", f"chmod 700 {path}"
        )
    return Check(name, "ok", f"{path} is ours alone")


def mount_table_check(store: Path, account: Account) -> Check:
    """Returns whether the path that sandboxes read in their mount tables tells whose host this is."""
    if not tells_of(store, account):
        return Check("mount table", "ok", f"sandboxes read {store}, which tells nobody's name")
    place = NEUTRAL / str(account.uid)
    return Check(
        "mount table",
        "warning",
        f"sandboxes can read {store}, which tells a name or a home directory of this host",
        f"sudo install -d -m 755 {NEUTRAL} && sudo install -d -o {account.uid} -m 700 {place}, and name {place}/store "
        "in store.dir",
    )


def space_check(name: str, space: Space, needs: SpaceNeeds) -> Check:
    """Returns whether there is room for what is going to be written."""
    detail = f"{shown_size(space.bytes)} free at {space.path}"
    if space.bytes < needs.least:
        return Check(name, "failed", detail, needs.fix)
    if space.bytes < needs.enough:
        return Check(name, "warning", f"{detail}, under {shown_size(needs.enough)}", needs.fix)
    if space.inodes is not None and space.inodes < needs.inodes:
        return Check(name, "warning", f"{detail}, but only {space.inodes} inodes", needs.fix)
    return Check(name, "ok", detail)


def leftovers_check(sandboxes: int, left: int, memory: int | None = None) -> Check:
    """Returns whether some of the sandboxes have outlived their owner or their time.

    `memory` is the bytes that one of them takes, waiting in a pool or not; None where nobody knows.
    """
    if left:
        return Check(
            "leftovers", "warning", f"{_count(left, 'sandbox', 'sandboxes')} left by processes that ended", GC
        )
    each = "" if memory is None else f", {memory / MIB:.1f} MiB of memory each"
    return Check("leftovers", "ok", f"none; {_count(sandboxes, 'sandbox', 'sandboxes')} in use{each}")


def temporary_check(stale: int) -> Check:
    """Returns whether copies of skills were left half written."""
    if stale:
        return Check(
            "temporary files",
            "warning",
            f"{_count(stale, 'unfinished copy', 'unfinished copies')} in the store",
            GC,
        )
    return Check("temporary files", "ok", "none left")


def image_check(status: ImageStatus, target: Target) -> Check:
    """Returns whether the runner image of this version is there, with the command that makes it."""
    build = "sandbox-skills image build" + ("" if target == "slim" else f" --target {target}")
    if status.state == "present":
        return Check("image", "ok", f"{status.tag}, {shown_size(status.size)}")
    if status.state == "missing":
        return Check("image", "failed", f"the runner image ({target}) is missing", build)
    others = ", ".join(status.found)
    return Check("image", "failed", f"the runner image ({target}) is of another version: {others}", build)


def own_image_check(image: OwnImage) -> Check:
    """Returns whether the image that the user names in `image.name` can serve."""
    if image.state == "present":
        detail = f"{image.name}, your own (image.name), {shown_size(image.size)}, fit as far as can be read"
        return Check("image", "ok", detail)
    why = f"cannot serve: {'; '.join(image.reasons)}" if image.reasons else "is not there"
    return Check("image", "failed", f"your own image {image.name} (image.name) {why}", image.fix)


def shown_size(size: int) -> str:
    """Returns a number of bytes for people, rounded down."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size * 10 // unit / 10:.1f} {name}" if unit == GIB else f"{size // unit} {name}"
    return f"{size} bytes"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"

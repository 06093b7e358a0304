"""Looks at everything that sandboxes of an engine need, and says what to do about each fault.

Gathers facts; `checks` and `daemon` judge them, and `bubblewrap` its own. A look that fails is itself a finding.
"""

from __future__ import annotations

import grp
import os
import platform
import pwd
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from sandbox_skills.directories import current_account
from sandbox_skills.engines import image
from sandbox_skills.engines.bubblewrap.rootfs import Wanted
from sandbox_skills.engines.docker_client import DockerConnection, address, connect, translated
from sandbox_skills.engines.docker_config import GVISOR, LOST_IN_GVISOR
from sandbox_skills.engines.docker_leftovers import average_memory, is_left, owned
from sandbox_skills.engines.doctor.bubblewrap import examine_bubblewrap
from sandbox_skills.engines.doctor.checks import (
    DATA_NEEDS,
    DOCKER_NEEDS,
    Check,
    Directory,
    SocketAccess,
    Space,
    arranged,
    directory_check,
    failure,
    image_check,
    leftovers_check,
    mount_table_check,
    own_image_check,
    space_check,
    temporary_check,
    unreachable,
)
from sandbox_skills.engines.doctor.daemon import daemon_checks
from sandbox_skills.engines.doctor.facts import Daemon, known
from sandbox_skills.engines.instance import dead_instances
from sandbox_skills.errors import EngineUnavailableError, SandboxSkillsError
from sandbox_skills.spec import BASE_GUARANTEES, Guarantee

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import docker

    from sandbox_skills.engines.attach import DaemonAddress
    from sandbox_skills.engines.doctor.daemon import AppArmor
    from sandbox_skills.engines.image_source import Target


KNOCK_SECONDS = 10.0
"""A host that drops our packets would hold a thread for minutes; one that lives takes under a second."""


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """What is to be examined: the engine's options, and what a sandbox must hold.

    `unfinished` names what writers that died have left in the store; `program` is bubblewrap's, None that of PATH.
    """

    data_dir: Path
    connection: DockerConnection = field(default_factory=DockerConnection)
    image: str | None = None
    target: Target = "slim"
    runtime: str | None = None
    apparmor: AppArmor = "auto"
    needs: frozenset[Guarantee] = BASE_GUARANTEES
    unfinished: Callable[[], Collection[str]] = tuple
    store: Path | None = None
    engine: str = "docker"
    program: Path | None = None


def documented(options: DoctorOptions) -> frozenset[Guarantee]:
    """Returns the guarantees that SECURITY.md says the engine has, with AppArmor where that is demanded."""
    if options.engine not in _ENGINES:
        return frozenset()
    asked = options.needs & {Guarantee.APPARMOR}
    if options.engine == "docker" and options.runtime == GVISOR:
        return (BASE_GUARANTEES | {Guarantee.KERNEL_BOUNDARY}) - LOST_IN_GVISOR.keys()
    return BASE_GUARANTEES | asked


async def examine(options: DoctorOptions) -> list[Check]:
    """Returns every finding, the most severe first. Starts and changes nothing; raises nothing."""
    checks = await _ENGINES.get(options.engine, _no_engine)(options)
    for name, gather in (
        ("data directory", _data_directory),
        ("mount table", _mount_table),
        ("data disk", _data_disk),
        ("temporary files", _temporary_files),
    ):
        checks += await _gathered(name, partial(gather, options))
    return arranged(checks)


async def _bubblewrap(options: DoctorOptions) -> list[Check]:
    return await _gathered(
        "engine",
        lambda: examine_bubblewrap(
            options.program,
            options.data_dir / "rootfs",
            Wanted(options.target, options.image),
            options.data_dir / "bubblewrap" / "instances",
            options.needs,
        ),
    )


async def _no_engine(options: DoctorOptions) -> list[Check]:
    detail = f"{options.engine} isolates nothing, and guarantees nothing"
    return [Check("engine", "lost", detail, "use --engine docker or --engine bubblewrap")]


async def _docker(options: DoctorOptions) -> list[Check]:
    try:
        client = await _connected(options.connection)
    except SandboxSkillsError as error:
        access = await anyio.to_thread.run_sync(_socket_access, options.connection)
        return [unreachable(error, access)]
    except Exception as error:  # noqa: BLE001  # whatever ails the connection is the finding
        return [failure("engine", error)]
    try:
        checks = [Check("engine", "ok", f"answers at {options.connection.host}")]
        for name, gather in (("daemon", _daemon), ("image", _image), ("leftovers", _leftovers)):
            checks += await _gathered(name, partial(gather, options, client))
        return checks
    finally:
        client.close()


_ENGINES = {"docker": _docker, "bubblewrap": _bubblewrap}


async def _connected(connection: DockerConnection) -> docker.APIClient:
    await _knock(address(connection))
    return await anyio.to_thread.run_sync(connect, connection)


async def _knock(where: DaemonAddress) -> None:
    """Finds out by a bare connection, which can be given up, whether anything listens."""
    name = where.path or f"{where.host}:{where.port}"
    try:
        with anyio.fail_after(KNOCK_SECONDS), translated(f"reach the Docker daemon at {name}"):
            stream = await (
                anyio.connect_unix(where.path) if where.path else anyio.connect_tcp(where.host, where.port)
            )
            await stream.aclose()
    except TimeoutError as error:
        hint = "see whether the daemon's host is up and its port open to this one"
        raise EngineUnavailableError(
            f"{name} does not answer within {KNOCK_SECONDS:g} s", hint=hint
        ) from error


async def _gathered(name: str, gather: Callable[[], list[Check]]) -> list[Check]:
    try:
        return await anyio.to_thread.run_sync(gather)
    except SandboxSkillsError as error:
        return [failure(name, error, error.hint)]
    except Exception as error:  # noqa: BLE001  # a doctor that dies of a symptom tells nothing
        return [failure(name, error)]


def _daemon(options: DoctorOptions, client: docker.APIClient) -> list[Check]:
    with translated("ask the Docker daemon about itself"):
        version = known(client.version())
        info = known(client.info())
    connection = options.connection
    daemon = Daemon(info, version, connection.host, connection.tls is not None, platform.release())
    return [
        *daemon_checks(daemon, needs=options.needs, runtime=options.runtime, apparmor=options.apparmor),
        *_docker_disk(daemon),
    ]


def _docker_disk(daemon: Daemon) -> list[Check]:
    root = Path(daemon.info.get("DockerRootDir", ""))
    if not (daemon.same_kernel and root.is_absolute() and root.exists()):
        return []
    return [space_check("docker disk", _space(root), DOCKER_NEEDS)]


def _image(options: DoctorOptions, client: docker.APIClient) -> list[Check]:
    if options.image is not None:
        return [own_image_check(image.own_status(client, options.image))]
    return [image_check(image.status(client, target=options.target), options.target)]


def _leftovers(options: DoctorOptions, client: docker.APIClient) -> list[Check]:
    dead = dead_instances(options.data_dir / "instances")
    boxes = owned(client)
    left = sum(is_left(client, box, dead, time.time()) for box in boxes)
    return [leftovers_check(len(boxes), left, average_memory(client, boxes))]


def _data_directory(options: DoctorOptions) -> list[Check]:
    path = options.data_dir
    nearest = _nearest(path)
    status = nearest.stat()
    directory = Directory(
        path=path,
        exists=nearest == path,
        writable=_usable(nearest),
        mode=status.st_mode,
        uid=status.st_uid,
        asking_uid=os.geteuid(),
    )
    return [directory_check(directory)]


def _mount_table(options: DoctorOptions) -> list[Check]:
    return [] if options.store is None else [mount_table_check(options.store.resolve(), current_account())]


def _data_disk(options: DoctorOptions) -> list[Check]:
    return [space_check("data disk", _space(_nearest(options.data_dir)), DATA_NEEDS)]


def _temporary_files(options: DoctorOptions) -> list[Check]:
    return [temporary_check(len(options.unfinished()))]


def _nearest(path: Path) -> Path:
    """Returns the path itself, or the first directory above it that exists."""
    return next((candidate for candidate in (path, *path.parents) if candidate.exists()), Path("/"))


def _usable(folder: Path) -> bool:
    effective = os.access in os.supports_effective_ids
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK, effective_ids=effective)


def _space(path: Path) -> Space:
    status = os.statvfs(path)
    # Btrfs and others make inodes as they are needed and count none.
    inodes = status.f_favail if status.f_files else None
    return Space(str(path), status.f_bavail * status.f_frsize, inodes)


def _socket_access(connection: DockerConnection) -> SocketAccess | None:
    """Returns who may use the daemon's socket; None for what is none, or whose directory is closed to us."""
    url = urlsplit(connection.host)
    if url.scheme != "unix":
        return None
    try:
        status = Path(url.path).stat()
        group = grp.getgrgid(status.st_gid)
        user = pwd.getpwuid(os.geteuid()).pw_name
    except (OSError, KeyError):
        return None
    usable = status.st_mode & 0o020 and status.st_gid
    return SocketAccess(url.path, group.gr_name if usable else "", user, user in group.gr_mem)

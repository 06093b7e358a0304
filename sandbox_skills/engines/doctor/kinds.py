"""Which daemon it is, where it runs and how it is reached. Pure.

Rootful Docker on Linux is what the tests run on. Of the others it is said what to expect; the check from inside that
every sandbox passes before it is used refuses whatever turns out weaker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sandbox_skills.engines.doctor.checks import Check, guarantee_check
from sandbox_skills.engines.image_source import UID_COUNT, UID_FIRST
from sandbox_skills.spec import Guarantee

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sandbox_skills.engines.doctor.facts import Daemon


def kind_checks(daemon: Daemon, needs: Collection[Guarantee]) -> Iterator[Check]:
    """Yields what is known of this kind of daemon in this place, reached in this way."""
    yield from _kind(daemon, needs)
    yield from _place(daemon, needs)
    yield from _transport(daemon)


def _kind(daemon: Daemon, needs: Collection[Guarantee]) -> Iterator[Check]:
    if daemon.podman:
        # Its parser of mount options knows size and mode, and refuses a container with any other (up to 6.0).
        yield guarantee_check(
            "daemon",
            Guarantee.INODES,
            "Podman is not tested, and refuses our tmpfs options (nr_inodes, uid, gid)",
            "use Docker Engine",
            needs=needs,
        )
    elif daemon.rootless:
        detail = (
            "rootless Docker is not tested. Expected to work where its cgroup is delegated and "
            f"{UID_FIRST + UID_COUNT} subordinate ids are mapped; AppArmor cannot be applied"
        )
        yield Check("daemon", "warning", detail)
    elif daemon.desktop:
        detail = (
            "Docker Desktop is not tested. Expected to work where the data directory is in a shared folder; "
            "its share may not keep the modes that hide skills from each other"
        )
        yield Check("daemon", "warning", detail, "share the data directory in Docker Desktop's settings")
    elif daemon.same_kernel:
        yield Check("daemon", "ok", "rootful Docker on this host")


def _place(daemon: Daemon, needs: Collection[Guarantee]) -> Iterator[Check]:
    if daemon.remote:
        yield guarantee_check(
            "place",
            Guarantee.READONLY_SKILLS,
            f"the daemon at {daemon.address} is on another host and cannot mount skills from this one",
            "use a daemon on this host",
            needs=needs,
        )
    elif not daemon.same_kernel and not daemon.desktop:
        detail = (
            f"the daemon's kernel {daemon.text('KernelVersion')} is not this host's, {daemon.kernel}: it "
            "runs in a virtual machine or elsewhere, and sees only directories that are shared with it"
        )
        yield Check(
            "place", "warning", detail, "put the data directory where the daemon sees it at the same path"
        )


def _transport(daemon: Daemon) -> Iterator[Check]:
    if urlsplit(daemon.address).scheme != "unix" and not daemon.tls:
        detail = f"{daemon.address} has no TLS: whoever reaches that port is root on the daemon's host"
        yield Check("transport", "warning", detail, "use TLS, or forward the daemon's socket with `ssh -L`")

"""The Docker engine: hardened containers, each with the runner as pid 1 and a channel to it."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from sandbox_skills.engines import docker_box, image
from sandbox_skills.engines.base import EngineReport
from sandbox_skills.engines.cancellation import finish
from sandbox_skills.engines.daemon_calls import DaemonCalls
from sandbox_skills.engines.docker_client import address, connect, translated, understood
from sandbox_skills.engines.docker_config import chosen_runtime, guarantees, lost_guarantees, socket_may_work
from sandbox_skills.engines.docker_leftovers import Owned, is_left, owned
from sandbox_skills.engines.docker_sandbox import Box, Daemon, DockerEngineOptions, Setup, body_options
from sandbox_skills.engines.instance import Instance, dead_instances, forget_instances
from sandbox_skills.engines.socket_channel import SocketPlace, sweep
from sandbox_skills.engines.uids import leased_uid
from sandbox_skills.errors import EngineError, GuaranteeError, ImageError, SettingsError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection

    from sandbox_skills.engines.base import Sandbox
    from sandbox_skills.spec import Guarantee, SandboxId, SandboxSpec

__all__ = ["DockerEngine", "DockerEngineOptions"]

logger = logging.getLogger(__name__)

REAP_SECONDS = 10.0
"""How long closing waits for the first reap: it takes well under a second, unless the daemon hangs."""

LAST_SECONDS = 5.0
"""For the last try to remove what was left: the daemon failed to before, and somebody is waiting for us to end."""


class DockerEngine:
    """Sandboxes on a Docker daemon. Construct it anywhere; it connects when it is first used."""

    def __init__(self, options: DockerEngineOptions) -> None:
        self._asked = self._options = options
        self._instances = options.data_dir / "instances"
        self._instance: Instance | None = None
        self._daemon: Daemon | None = None
        self._image: image.ImageRef | None = None
        self._connecting = asyncio.Lock()
        self._calls = DaemonCalls()
        self._checked: set[tuple[str, ...]] = set()
        self._sockets_dir = options.sockets_dir or options.data_dir
        self._sockets = SocketPlace(self._sockets_dir)
        self._live: set[SandboxId] = set()
        self._left: dict[SandboxId, Box] = {}
        self._first_reap: asyncio.Task[None] | None = None

    @property
    def channel(self) -> Literal["attach", "socket"]:
        """How the next box will be spoken to, as far as is known: no socket before the daemon has been asked."""
        return "socket" if self._daemon is not None and self._sockets.usable else "attach"

    @property
    def guarantees(self) -> frozenset[Guarantee]:
        """What this daemon enforces; empty until it has been asked."""
        if self._daemon is None:
            return frozenset()
        options = body_options(self._options, self._daemon.info, instance="")
        return guarantees(options, self._daemon.info)

    async def probe(self) -> EngineReport:
        daemon = await self._connected()
        return EngineReport(
            engine="docker",
            version=daemon.version,
            details=daemon.info,
            lost={str(name): reason for name, reason in daemon.lost.items()},
        )

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncGenerator[Sandbox]:
        daemon = await self._connected()
        _check_runtime(self._options.runtime, daemon.runtimes)
        self._demand(spec, daemon)
        ref = await self._resolved(daemon)
        with leased_uid(image.UID_FIRST, image.UID_COUNT) as uid:
            box = Box(self._setup(daemon, ref), uid)
            self._live.add(box.id)
            try:
                await box.start(spec)
                yield box.client
            except ImageError:
                self._image = None
                raise
            finally:
                await finish(self._end(box))

    async def reap(self, keep: Collection[SandboxId]) -> list[SandboxId]:
        daemon = await self._connected()
        # In this order: a box that comes after the look at the instances is of one that lives.
        dead = await self._calls.look(dead_instances, self._instances)
        reaped: list[SandboxId] = []
        kept: set[str] = set()
        for box in await self._calls.look(owned, daemon.client):
            if box.id in keep or box.id in self._live or not await self._is_left(daemon, box, dead):
                continue
            try:
                await self._calls.change(docker_box.remove, daemon.client, box.id)
            except EngineError as error:
                logger.warning("a sandbox that nobody owns could not be removed: %s", error)
                kept.add(box.instance)
            else:
                reaped.append(box.id)
                self._left.pop(box.id, None)
        await self._calls.look(forget_instances, self._instances, dead - kept)
        await self._calls.look(sweep, self._sockets_dir)
        return reaped

    async def aclose(self) -> None:
        if self._first_reap is not None:
            # A daemon that failed us does not answer this any sooner.
            await asyncio.wait([self._first_reap], timeout=REAP_SECONDS if self._daemon else 0)
            self._first_reap.cancel()
            await asyncio.wait([self._first_reap])
            self._first_reap = None
        await asyncio.gather(*map(self._try_again, tuple(self._left.values())))
        if self._instance is not None:
            self._instance.close(forget=not self._left)
            self._instance = None
        if self._daemon is not None:
            self._daemon.client.close()
            self._daemon = None
        self._sockets.close()

    async def _connected(self) -> Daemon:
        async with self._connecting:
            if self._daemon is None:
                self._daemon = await self._calls.look(_connect, self._asked)
                chosen = chosen_runtime(self._daemon.info, self._asked.runtime)
                self._options = replace(self._asked, runtime=chosen)
                self._checked.clear()
                self._sockets.usable = self._offers_sockets(self._daemon)
            if self._instance is None:
                self._instance = Instance(self._instances)
                # A host process that died by SIGKILL before its container started left one nobody else removes.
                self._first_reap = asyncio.create_task(self._reap_once(), name="first reap")
            return self._daemon

    async def _reap_once(self) -> None:
        try:
            await self.reap(())
        except Exception as error:  # noqa: BLE001  # nobody waits for this task, and a run must not fail of it
            # Where it is the daemon that fails, whoever uses it is told so; `gc` and `doctor` tell the rest.
            logger.info("what earlier processes left could not be looked for: %s", error)

    def _setup(self, daemon: Daemon, ref: image.ImageRef) -> Setup:
        assert self._instance is not None
        return Setup(
            self._options, daemon, self._instance.id, ref.id, self._checked, self._calls, self._sockets
        )

    def _offers_sockets(self, daemon: Daemon) -> bool:
        wanted = self._options.channel == "auto" and bool(daemon.address.path)
        return wanted and socket_may_work(daemon.info, self._options.runtime)

    async def _resolved(self, daemon: Daemon) -> image.ImageRef:
        if self._image is None:
            self._image = await self._calls.look(
                image.resolve, daemon.client, self._options.image, self._options.target
            )
        return self._image

    def _demand(self, spec: SandboxSpec, daemon: Daemon) -> None:
        missing = sorted(spec.needs - self.guarantees)
        if missing:
            reasons = [
                f"{name} ({daemon.lost.get(name, 'this engine does not have it')})" for name in missing
            ]
            raise GuaranteeError(
                f"this Docker cannot enforce {', '.join(reasons)}",
                hint="sandbox-skills doctor tells what to change on this host; docker.without in the settings "
                "names what sandboxes may do without",
                lost=missing,
            )

    async def _end(self, box: Box) -> None:
        self._live.discard(box.id)
        if not box.client.alive:
            # Something took the box away: whatever was verified of this daemon may no longer hold.
            self._checked.clear()
        try:
            # The channel stays open and read meanwhile: a runner that hangs up by itself would have the daemon remove
            # the box on its own, and we would have to ask again and again whether it is done.
            found = await self._calls.change(docker_box.remove, box.daemon.client, box.id)
        except EngineError:
            # The daemon is away. Its restart removes the box (auto-remove), `reap` whatever is left.
            self._left[box.id] = box
            self._daemon = None
            self._image = None
        else:
            if box.may_come and not found:
                self._left[box.id] = box
        finally:
            box.client.close()

    async def _try_again(self, box: Box) -> None:
        """Removes what could not be removed before; if it still cannot, our record tells the next reap whose it is."""
        try:
            found = await self._calls.change(docker_box.remove, box.daemon.client, box.id, LAST_SECONDS)
        except EngineError as error:
            logger.info("sandbox %s is left to the next process: %s", box.id, error)
        else:
            if found or not box.may_come:
                self._left.pop(box.id, None)

    async def _is_left(self, daemon: Daemon, box: Owned, dead: Collection[str]) -> bool:
        mine = self._instance is not None and box.instance == self._instance.id
        return mine or await self._calls.look(is_left, daemon.client, box, dead, time.time())


def _connect(options: DockerEngineOptions) -> Daemon:
    client = connect(options.connection, timeout_seconds=options.timeout_seconds)
    with translated("ask the Docker daemon about itself"):
        info, version = client.info(), client.version()
    with understood("a description of itself"):
        return Daemon(
            client=client,
            address=address(options.connection),
            version=str(version.get("Version", "unknown")),
            info=info,
            runtimes=frozenset(map(str, info.get("Runtimes") or ())),
            lost=lost_guarantees(info, options.runtime),
        )


def _check_runtime(runtime: str | None, known: Collection[str]) -> None:
    """Raises SettingsError where a daemon that names its runtimes has none of that name."""
    if runtime is not None and known and runtime not in known:
        # The daemon names its own shims besides.
        others = ", ".join(sorted(name for name in known if not name.startswith("io.containerd.")))
        raise SettingsError(
            f"the daemon has no runtime {runtime}",
            hint=f"install it and register it with the daemon, or set docker.runtime to one that is there: {others}",
        )

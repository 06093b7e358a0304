"""The bubblewrap engine: boxes without a daemon, each with the runner as its first process and a socket to it."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio.to_thread

from sandbox_skills.engines import verify
from sandbox_skills.engines.base import EngineReport
from sandbox_skills.engines.bubblewrap import rootfs
from sandbox_skills.engines.bubblewrap.faults import explained
from sandbox_skills.engines.bubblewrap.host import look
from sandbox_skills.engines.bubblewrap.launch import Launch
from sandbox_skills.engines.bubblewrap.leftovers import Leftover, leftovers, remove
from sandbox_skills.engines.bubblewrap.order import Host, guarantees, lost_guarantees, order, stage
from sandbox_skills.engines.cancellation import finish
from sandbox_skills.engines.channel import StreamProtocol
from sandbox_skills.engines.classify import Death
from sandbox_skills.engines.client import RunnerClient
from sandbox_skills.engines.image_source import UID_COUNT, UID_FIRST, Target
from sandbox_skills.engines.instance import Instance, dead_instances, forget_instances
from sandbox_skills.engines.seccomp.bpf import digest, program
from sandbox_skills.engines.uids import leased_uid
from sandbox_skills.errors import GuaranteeError, SandboxLostError
from sandbox_skills.spec import SandboxId

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection
    from pathlib import Path

    from sandbox_skills.engines.base import Sandbox
    from sandbox_skills.spec import Guarantee, SandboxSpec

logger = logging.getLogger(__name__)

HINT = "sandbox-skills doctor --engine bubblewrap"
"""The command that examines this engine."""

HELLO_SECONDS = 30.0
"""From the order to the runner's first word: 30 ms alone, seconds when many start on two cores."""

DEATH_SECONDS = 2.0
"""How long the launcher may take to tell of a death: the channel ends first, its answer comes within 20 ms."""


@dataclass(frozen=True, slots=True)
class BubblewrapEngineOptions:
    """What an operator decides about the engine; `marker` is (file name, sha256) of a file in `skills_dir`.

    `program` None is the bubblewrap that PATH has; `rootfs_dir` None is `rootfs` in the data directory.
    """

    data_dir: Path
    skills_dir: Path | None = None
    marker: tuple[str, str] | None = None
    image: str | None = None
    target: Target = "slim"
    program: Path | None = None
    rootfs_dir: Path | None = None
    concurrent_runs: int = 1

    @property
    def wanted(self) -> rootfs.Wanted:
        """The root file system of its boxes."""
        return rootfs.Wanted(self.target, self.image)


@dataclass(frozen=True, slots=True)
class _Setup:
    """What every box of an engine needs to know; `checked` is shared by all of them."""

    options: BubblewrapEngineOptions
    host: Host
    launch: Launch
    instance: str
    root: rootfs.RootFileSystem
    checked: set[tuple[str, ...]]


class BubblewrapEngine:
    """Sandboxes of this process alone. Construct it anywhere; it looks at its host when it is first used."""

    def __init__(self, options: BubblewrapEngineOptions) -> None:
        self._options = options
        self._instances = options.data_dir / "bubblewrap" / "instances"
        self._host: Host | None = None
        self._launch: Launch | None = None
        self._instance: Instance | None = None
        self._root: rootfs.RootFileSystem | None = None
        self._held = ExitStack()
        self._starting = asyncio.Lock()
        self._checked: set[tuple[str, ...]] = set()
        self._live: set[SandboxId] = set()

    @property
    def guarantees(self) -> frozenset[Guarantee]:
        """What this host enforces; empty until it has been looked at."""
        return frozenset() if self._host is None else guarantees(self._host)

    async def probe(self) -> EngineReport:
        host = await self._looked()
        return EngineReport(
            engine="bubblewrap",
            version=".".join(map(str, host.version)),
            details={
                "program": str(host.program),
                "cgroups": [f"{each.parent} (version {each.version})" for each in host.hierarchies],
            },
            lost={str(name): reason for name, reason in lost_guarantees(host).items()},
        )

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncGenerator[Sandbox]:
        _demand(spec, await self._looked())
        setup = await self._ready()
        with leased_uid(UID_FIRST, UID_COUNT) as uid:
            box = _Box(setup, uid)
            self._live.add(box.id)
            try:
                await box.start(spec)
                yield box.client
            finally:
                await finish(self._end(box))

    async def reap(self, keep: Collection[SandboxId]) -> list[SandboxId]:
        host = await self._looked()
        # In this order: a box that comes after the look at the instances is of one that lives.
        dead = await anyio.to_thread.run_sync(dead_instances, self._instances)
        found = await anyio.to_thread.run_sync(leftovers, host.hierarchies)
        mine = self._instance.id if self._instance else None
        reaped: list[SandboxId] = []
        kept: set[str] = set()
        for box in found:
            if box.id in keep or box.id in self._live or box.instance not in {*dead, mine}:
                continue
            if await _removed(box):
                reaped.append(box.id)
            else:
                kept.add(box.instance)
        await anyio.to_thread.run_sync(forget_instances, self._instances, dead - kept)
        return reaped

    async def aclose(self) -> None:
        if self._launch is not None:
            await self._launch.aclose()
            self._launch = None
        if self._instance is not None:
            self._instance.close()
            self._instance = None
        self._root = None
        self._held.close()

    async def _looked(self) -> Host:
        if self._host is None:
            self._host = await anyio.to_thread.run_sync(look, self._options.program)
        return self._host

    async def _ready(self) -> _Setup:
        async with self._starting:
            host = await self._looked()
            root = await self._used_root()
            if self._instance is None:
                self._instance = Instance(self._instances)
                await self._reap_first()
            if self._launch is None or not self._launch.alive:
                await self._start_launcher(host, root)
            assert self._launch is not None
            return _Setup(self._options, host, self._launch, self._instance.id, root, self._checked)

    async def _used_root(self) -> rootfs.RootFileSystem:
        if self._root is None:
            folder = self._options.rootfs_dir or self._options.data_dir / "rootfs"
            entered = rootfs.used(folder, self._options.wanted)
            self._root = await anyio.to_thread.run_sync(self._held.enter_context, entered)
        return self._root

    async def _start_launcher(self, host: Host, root: rootfs.RootFileSystem) -> None:
        if self._launch is not None:
            await self._launch.aclose()
        self._checked.clear()
        self._launch = Launch(program(host.machine))
        store = self._options.skills_dir
        await self._launch.prepare(stage(host, root.path, store and store.absolute()))

    async def _reap_first(self) -> None:
        """Removes what processes left that were killed together with their launcher: a look at one directory."""
        try:
            await self.reap(())
        except Exception as error:  # noqa: BLE001  # a run must not fail of it; `gc` and `doctor` tell more
            logger.info("what earlier processes left could not be looked for: %s", error)

    async def _end(self, box: _Box) -> None:
        try:
            await box.end()
        finally:
            self._live.discard(box.id)


class _Box:
    """One box and the client of its runner."""

    def __init__(self, setup: _Setup, uid: int) -> None:
        self.id = SandboxId(f"sandbox-{secrets.token_hex(8)}")
        self._setup = setup
        self._uid = uid
        self._groups: tuple[Path, ...] = ()
        self.client = RunnerClient(
            self.id,
            post_mortem=self._post_mortem,
            concurrent_runs=setup.options.concurrent_runs,
            seccomp=digest(setup.host.machine),
        )

    async def start(self, spec: SandboxSpec) -> None:
        """Brings the box up and checks it from inside; raises and leaves the removal to the caller."""
        await self._launched(spec)
        try:
            hello = await self.client.hello(HELLO_SECONDS)
        except SandboxLostError as error:
            gone = await self._setup.launch.gone(self.id, DEATH_SECONDS)
            raise explained(gone, error) from error
        verify.refuse(
            verify.check_box(hello.get("facts"), spec=spec, uid=self._uid, runtime=verify.BUBBLEWRAP),
            hint=HINT,
        )
        await self._check_once(spec)

    async def _launched(self, spec: SandboxSpec) -> None:
        setup = self._setup
        asked = order(
            spec,
            host=setup.host,
            uid=self._uid,
            sandbox_id=self.id,
            instance=setup.instance,
        )
        ours, theirs = socket.socketpair()
        with theirs:
            link = self.client.link
            _, channel = await asyncio.get_running_loop().create_connection(
                lambda: StreamProtocol(link.received, link.lost), sock=ours
            )
            link.connect(channel)
            await setup.launch.start(asked, theirs)

    async def end(self) -> None:
        """Ends the box; returns when nothing is left of it."""
        self.client.close()
        gone = await self._setup.launch.end(self.id)
        if not gone.known:
            # The launcher died, and bubblewrap with it; its cgroups are for us to remove.
            mine = [box for box in leftovers(self._setup.host.hierarchies) if box.id == self.id]
            await asyncio.gather(*map(_removed, mine))

    async def _check_once(self, spec: SandboxSpec) -> None:
        """Tries what must be blocked, once for each root file system, set of needs and launcher."""
        setup = self._setup
        key = (setup.root.identity, *sorted(spec.needs))
        if key in setup.checked:
            return
        name, digest = setup.options.marker or (None, None)
        reply = await self.client.facts(name)
        verify.refuse_probed(
            reply,
            spec=spec,
            runtime=verify.BUBBLEWRAP,
            marker=digest,
            image=setup.options.image,
            hint=HINT,
        )
        setup.checked.add(key)

    async def _post_mortem(self) -> Death:
        gone = await self._setup.launch.gone(self.id, DEATH_SECONDS)
        return Death(oom=gone.oom, exit_code=gone.code)


async def _removed(box: Leftover) -> bool:
    return await anyio.to_thread.run_sync(remove, box.groups)


def _demand(spec: SandboxSpec, host: Host) -> None:
    lost = lost_guarantees(host)
    missing = sorted(spec.needs - guarantees(host))
    if missing:
        reasons = [f"{name} ({lost.get(name, 'this engine does not have it')})" for name in missing]
        raise GuaranteeError(
            f"bubblewrap cannot enforce {', '.join(reasons)}",
            hint="sandbox-skills doctor --engine bubblewrap tells what to change on this host; bubblewrap.without "
            "in the settings names what sandboxes may do without",
            lost=missing,
        )

"""The Docker engine: hardened containers, each with the runner as pid 1 and an attached stream to it."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sandbox_skills.engines import docker_box, image, verify
from sandbox_skills.engines.attach import attach
from sandbox_skills.engines.base import EngineReport
from sandbox_skills.engines.cancellation import finish
from sandbox_skills.engines.client import RunnerClient
from sandbox_skills.engines.daemon_calls import DaemonCalls
from sandbox_skills.engines.docker_client import (
    REQUEST_SECONDS,
    DockerConnection,
    address,
    connect,
    translated,
    understood,
)
from sandbox_skills.engines.docker_config import (
    DockerOptions,
    create_body,
    guarantees,
    has_apparmor,
    lost_guarantees,
    profile_digest,
    seccomp_profile,
)
from sandbox_skills.engines.instance import Instance, dead_instances, forget_instances
from sandbox_skills.engines.uids import leased_uid
from sandbox_skills.errors import EngineError, GuaranteeError, ImageError, SandboxSkillsError, SettingsError
from sandbox_skills.spec import Guarantee, SandboxId

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
    from pathlib import Path

    import docker

    from sandbox_skills.engines.attach import DaemonAddress
    from sandbox_skills.engines.base import Sandbox
    from sandbox_skills.engines.classify import Death
    from sandbox_skills.engines.image import Target
    from sandbox_skills.engines.verify import Lost
    from sandbox_skills.spec import SandboxSpec

logger = logging.getLogger(__name__)


HELLO_SECONDS = 30.0
"""From start to the runner's first word: 80 ms alone, seconds when eight boxes start on two cores."""

REAP_SECONDS = 10.0
"""How long closing waits for the first reap: it takes well under a second, unless the daemon hangs."""

LAST_SECONDS = 5.0
"""For the last try to remove what was left: the daemon failed to before, and somebody is waiting for us to end."""


@dataclass(frozen=True, slots=True)
class DockerEngineOptions:
    """What an operator decides about the engine; `marker` is (file name, sha256) of a file in `skills_dir`."""

    data_dir: Path
    connection: DockerConnection = field(default_factory=DockerConnection)
    skills_dir: Path | None = None
    marker: tuple[str, str] | None = None
    image: str | None = None
    target: Target = "slim"
    runtime: str | None = None
    use_apparmor: bool = True
    timeout_seconds: float = REQUEST_SECONDS
    concurrent_runs: int = 1


@dataclass(frozen=True, slots=True)
class _Daemon:
    """What is known of a daemon that answered."""

    client: docker.APIClient
    address: DaemonAddress
    version: str
    info: Mapping[str, Any]
    runtimes: frozenset[str]
    lost: Mapping[Guarantee, str]

    @property
    def api_version(self) -> str:
        return str(self.client.api_version)


@dataclass(frozen=True, slots=True)
class _Setup:
    """What every box of an engine needs to know; `checked` is shared by all of them."""

    options: DockerEngineOptions
    daemon: _Daemon
    instance: str
    image_id: str
    checked: set[tuple[str, ...]]
    calls: DaemonCalls

    @property
    def runtime(self) -> str:
        return self.options.runtime or "runc"


class DockerEngine:
    """Sandboxes on a Docker daemon. Construct it anywhere; it connects when it is first used."""

    def __init__(self, options: DockerEngineOptions) -> None:
        self._options = options
        self._instances = options.data_dir / "instances"
        self._instance: Instance | None = None
        self._daemon: _Daemon | None = None
        self._image: image.ImageRef | None = None
        self._connecting = asyncio.Lock()
        self._calls = DaemonCalls()
        self._checked: set[tuple[str, ...]] = set()
        self._live: set[SandboxId] = set()
        self._left: dict[SandboxId, _Box] = {}
        self._first_reap: asyncio.Task[None] | None = None

    @property
    def guarantees(self) -> frozenset[Guarantee]:
        """What this daemon enforces; empty until it has been asked."""
        if self._daemon is None:
            return frozenset()
        options = _body_options(self._options, self._daemon.info, instance="")
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
            box = _Box(self._setup(daemon, ref), uid)
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
        for box in await self._calls.look(docker_box.owned, daemon.client):
            if box.id in keep or box.id in self._live or not self._may_reap(box, dead):
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

    async def _connected(self) -> _Daemon:
        async with self._connecting:
            if self._daemon is None:
                self._daemon = await self._calls.look(_connect, self._options)
                self._checked.clear()
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

    def _setup(self, daemon: _Daemon, ref: image.ImageRef) -> _Setup:
        assert self._instance is not None
        return _Setup(self._options, daemon, self._instance.id, ref.id, self._checked, self._calls)

    async def _resolved(self, daemon: _Daemon) -> image.ImageRef:
        if self._image is None:
            self._image = await self._calls.look(
                image.resolve, daemon.client, self._options.image, self._options.target
            )
        return self._image

    def _demand(self, spec: SandboxSpec, daemon: _Daemon) -> None:
        missing = sorted(spec.needs - self.guarantees)
        if missing:
            reasons = [
                f"{name} ({daemon.lost.get(name, 'this engine does not have it')})" for name in missing
            ]
            raise GuaranteeError(
                f"this Docker cannot enforce {', '.join(reasons)}",
                hint="sandbox-skills doctor tells what to change on this host",
                lost=missing,
            )

    async def _end(self, box: _Box) -> None:
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

    async def _try_again(self, box: _Box) -> None:
        """Removes what could not be removed before; if it still cannot, our record tells the next reap whose it is."""
        try:
            found = await self._calls.change(docker_box.remove, box.daemon.client, box.id, LAST_SECONDS)
        except EngineError as error:
            logger.info("sandbox %s is left to the next process: %s", box.id, error)
        else:
            if found or not box.may_come:
                self._left.pop(box.id, None)

    def _may_reap(self, box: docker_box.Owned, dead: Collection[str]) -> bool:
        mine = self._instance is not None and box.instance == self._instance.id
        return mine or box.instance in dead or (box.expires is not None and box.expires < time.time())


class _Box:
    """One container and the client of its runner."""

    def __init__(self, setup: _Setup, uid: int) -> None:
        self.id = SandboxId(f"sandbox-{secrets.token_hex(8)}")
        self.daemon = setup.daemon
        self.may_come = False  # the daemon was asked to make it, and nobody knows whether it will
        self._setup = setup
        self._uid = uid
        self._since = time.time()
        self.client = RunnerClient(
            self.id, post_mortem=self._post_mortem, concurrent_runs=setup.options.concurrent_runs
        )

    async def start(self, spec: SandboxSpec) -> None:
        """Brings the box up and checks it from inside; raises and leaves the removal to the caller."""
        setup = self._setup
        client = setup.daemon.client
        await self._create(spec)
        link = self.client.link
        link.connect(await attach(setup.daemon.address, setup.daemon.api_version, self.id, link))
        await setup.calls.change(docker_box.start, client, self.id)
        hello = await self.client.hello(HELLO_SECONDS)
        _refuse(verify.check_box(hello.get("facts"), spec=spec, uid=self._uid, runtime=setup.runtime))
        await self._check_once(spec)

    async def _create(self, spec: SandboxSpec) -> None:
        self.may_come = True
        try:
            await self._setup.calls.change(docker_box.create, self.daemon.client, self.id, self._body(spec))
        except SandboxSkillsError as error:
            self.may_come = docker_box.may_exist(error)
            raise
        self.may_come = False

    def _body(self, spec: SandboxSpec) -> dict[str, Any]:
        setup = self._setup
        options = _body_options(setup.options, setup.daemon.info, setup.instance)
        return create_body(
            spec, image_id=setup.image_id, uid=self._uid, options=options, now=self._since, sandbox_id=self.id
        )

    async def _check_once(self, spec: SandboxSpec) -> None:
        """Tries what must be blocked, once for each image, runtime, profile, set of needs and daemon start."""
        setup = self._setup
        key = (setup.image_id, setup.runtime, profile_digest(), *sorted(spec.needs))
        if key in setup.checked:
            return
        name, digest = setup.options.marker or (None, None)
        reply = await self.client.facts(name)
        _refuse(verify.check_probe(reply, spec=spec, runtime=setup.runtime, marker=digest))
        if setup.options.image and (faults := verify.image_faults(reply)):
            raise ImageError(f"the image {setup.options.image} {', '.join(faults)}")
        setup.checked.add(key)

    async def _post_mortem(self) -> Death:
        return await self._setup.calls.look(
            docker_box.post_mortem, self._setup.daemon.client, self.id, self._since
        )


def _connect(options: DockerEngineOptions) -> _Daemon:
    client = connect(options.connection, timeout_seconds=options.timeout_seconds)
    with translated("ask the Docker daemon about itself"):
        info, version = client.info(), client.version()
    with understood("a description of itself"):
        return _Daemon(
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


def _body_options(options: DockerEngineOptions, info: Mapping[str, Any], instance: str) -> DockerOptions:
    return DockerOptions(
        instance=instance,
        seccomp=seccomp_profile(),
        runtime=options.runtime,
        skills_dir=options.skills_dir,
        apparmor=options.use_apparmor and has_apparmor(info),
    )


def _refuse(lost: Sequence[Lost]) -> None:
    if lost:
        raise GuaranteeError(
            "the sandbox does not hold what it must: "
            + "; ".join(f"{row.guarantee}: {row.reason}" for row in lost),
            hint="sandbox-skills doctor",
            lost=[str(row.guarantee) for row in lost],
        )

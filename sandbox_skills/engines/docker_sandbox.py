"""One box of the Docker engine: its container, the channel to its runner, and what is checked before it is used."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from sandbox_skills.engines import docker_box, verify
from sandbox_skills.engines.attach import attach
from sandbox_skills.engines.client import RunnerClient
from sandbox_skills.engines.docker_client import REQUEST_SECONDS, DockerConnection
from sandbox_skills.engines.docker_config import (
    GVISOR,
    DockerOptions,
    create_body,
    has_apparmor,
    profile_digest,
    seccomp_profile,
)
from sandbox_skills.engines.docker_sockets import counts_them_apart, limit_sockets
from sandbox_skills.engines.socket_channel import Standby, take_over
from sandbox_skills.errors import SandboxSkillsError
from sandbox_skills.spec import SandboxId

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import docker

    from sandbox_skills.engines.attach import DaemonAddress
    from sandbox_skills.engines.classify import Death
    from sandbox_skills.engines.daemon_calls import DaemonCalls
    from sandbox_skills.engines.image import Target
    from sandbox_skills.engines.socket_channel import SocketOffer, SocketPlace
    from sandbox_skills.spec import Guarantee, SandboxSpec

HINT = "sandbox-skills doctor"
"""The command that examines this engine."""

HELLO_SECONDS = 30.0
"""From start to the runner's first word: 80 ms alone, seconds when eight boxes start on two cores."""


@dataclass(frozen=True, slots=True)
class DockerEngineOptions:
    """What an operator decides about the engine; `marker` is (file name, sha256) of a file in `skills_dir`.

    Sockets to boxes are made below `sockets_dir`, the data directory where it is None. A box reads that path in its
    mount table.
    """

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
    channel: Literal["auto", "attach"] = "auto"
    sockets_dir: Path | None = None


@dataclass(frozen=True, slots=True)
class Daemon:
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
class Setup:
    """What every box of an engine needs to know; `checked` is shared by all of them."""

    options: DockerEngineOptions
    daemon: Daemon
    instance: str
    image_id: str
    checked: set[tuple[str, ...]]
    calls: DaemonCalls
    sockets: SocketPlace

    @property
    def runtime(self) -> str:
        return self.options.runtime or "runc"


class Box:
    """One container and the client of its runner."""

    def __init__(self, setup: Setup, uid: int) -> None:
        self.id = SandboxId(f"sandbox-{secrets.token_hex(8)}")
        self.daemon = setup.daemon
        self.may_come = False  # the daemon was asked to make it, and nobody knows whether it will
        self._setup = setup
        self._uid = uid
        self.client = RunnerClient(
            self.id,
            post_mortem=self._post_mortem,
            concurrent_runs=setup.options.concurrent_runs,
            # gVisor does not apply it: its kernel is the filter.
            seccomp="" if setup.runtime == GVISOR else profile_digest(),
        )

    async def start(self, spec: SandboxSpec) -> None:
        """Brings the box up and checks it from inside; raises and leaves the removal to the caller."""
        setup = self._setup
        with setup.sockets.offered(self.id) as offer:
            await self._create(spec, offer)
            hello = await self._started(offer, spec.limits.memory)
        verify.refuse(
            verify.check_box(hello.get("facts"), spec=spec, uid=self._uid, runtime=setup.runtime), hint=HINT
        )
        await self._check_once(spec)

    async def _create(self, spec: SandboxSpec, offer: SocketOffer | None) -> None:
        body = self._body(spec, offer)
        self.may_come = True
        try:
            await self._setup.calls.change(docker_box.create, self.daemon.client, self.id, body)
        except SandboxSkillsError as error:
            self.may_come = docker_box.may_exist(error)
            raise
        self.may_come = False

    def _body(self, spec: SandboxSpec, offer: SocketOffer | None) -> dict[str, Any]:
        setup = self._setup
        return create_body(
            spec,
            image_id=setup.image_id,
            uid=self._uid,
            options=body_options(setup.options, setup.daemon.info, setup.instance),
            now=time.time(),
            sandbox_id=self.id,
            channel_dir=None if offer is None else offer.directory,
        )

    async def _started(self, offer: SocketOffer | None, memory: int) -> Mapping[str, Any]:
        """Starts the container; returns the runner's first message, over whichever channel it came."""
        setup, link = self._setup, self.client.link
        standby = Standby(link)
        attached = await attach(setup.daemon.address, setup.daemon.api_version, self.id, standby)
        link.connect(attached)
        if offer is None:
            return await self._begun(memory)
        taking = asyncio.create_task(take_over(offer, self._uid, link, standby, attached))
        try:
            hello = await self._begun(memory)
            if standby.relieved:
                await taking
            else:
                # This box speaks over its attached stream, and so would the next ones.
                setup.sockets.usable = False
        finally:
            taking.cancel()
            await asyncio.wait([taking])
        return hello

    async def _begun(self, memory: int) -> Mapping[str, Any]:
        await self._setup.calls.change(docker_box.start, self.daemon.client, self.id)
        if not counts_them_apart(self.daemon.info):
            return await self.client.hello(HELLO_SECONDS)
        # While the runner starts, which takes longer.
        limited = self._setup.calls.look(limit_sockets, self.daemon.client, self.id, memory)
        told: tuple[Mapping[str, Any], None] = await asyncio.gather(self.client.hello(HELLO_SECONDS), limited)
        return told[0]

    async def _check_once(self, spec: SandboxSpec) -> None:
        """Tries what must be blocked, once for each image, runtime, profile, set of needs and daemon start."""
        setup = self._setup
        key = (setup.image_id, setup.runtime, profile_digest(), *sorted(spec.needs))
        if key in setup.checked:
            return
        name, digest = setup.options.marker or (None, None)
        reply = await self.client.facts(name)
        verify.refuse_probed(
            reply,
            spec=spec,
            runtime=setup.runtime,
            marker=digest,
            image=setup.options.image,
            hint=HINT,
        )
        setup.checked.add(key)

    async def _post_mortem(self) -> Death:
        return await self._setup.calls.look(docker_box.post_mortem, self._setup.daemon.client, self.id)


def body_options(options: DockerEngineOptions, info: Mapping[str, Any], instance: str) -> DockerOptions:
    return DockerOptions(
        instance=instance,
        seccomp=seccomp_profile(),
        runtime=options.runtime,
        skills_dir=options.skills_dir,
        apparmor=options.use_apparmor and has_apparmor(info),
    )

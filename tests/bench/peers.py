"""The same by others, on the same image and daemon: docker-py's `containers.run`, and llm-sandbox with its pool."""

from __future__ import annotations

import asyncio
import io
import sys
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import docker
from llm_sandbox.const import SupportedLanguage  # type: ignore[import-untyped]
from llm_sandbox.pool import (  # type: ignore[import-untyped]
    PoolConfig,
    PooledSandboxSession,
    create_pool_manager,
)

from sandbox_skills.engines import image
from sandbox_skills.workspace.manager import Argv, RunRequest, WorkspaceManager
from tests.bench.report import Bound, Row
from tests.bench.scenarios import REST_SECONDS, SPEC, TENANT, Bench, alone, timed, timed_async
from tests.docker_host import connection

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 30
CODE = "print(1)"
PRINT = RunRequest(Argv(("python3", "-c", CODE)))

TAG = "sandbox-skills-bench-peer:1"
DOCKERFILE = """FROM {base}
USER 0
RUN mkdir -p /sandbox/.sandbox-venv/bin \\
 && ln -s /usr/bin/python3 /sandbox/.sandbox-venv/bin/python \\
 && ln -s /usr/bin/python3 /usr/local/bin/python
ENTRYPOINT []
CMD ["sleep", "infinity"]
"""
"""The runner image with what llm-sandbox needs to find: a virtual environment, and root."""

OPTIONS = {"network_disabled": True, "init": True}
"""Without an init each of its containers would take ten seconds to stop: `sleep` as pid 1 hears no SIGTERM."""


async def rows(bench: Bench) -> list[Row]:
    """`print(1)` in a session of ours, and in a session of theirs from a filled pool; `true` by `containers.run`."""
    await bench.pool.settled()
    client = docker.DockerClient(base_url=connection().host)
    manager = WorkspaceManager(bench.engine, bench.store, spec=SPEC)
    ours: list[float] = []
    theirs: list[float] = []
    with _peer_image(bench, client), _pool(client) as pool:
        async with manager.session(tenant=TENANT) as session:
            staged = await session.stage(bench.skill)
            for _ in range(ROUNDS):
                await asyncio.sleep(
                    REST_SECONDS
                )  # their `docker exec` has ended, and Docker cleans up behind it
                ours.append(await timed_async(lambda: session.run(staged, PRINT)))
                theirs.append(await asyncio.to_thread(timed, lambda: _print(pool)))
        once = [await asyncio.to_thread(timed, lambda: _run(client)) for _ in range(ROUNDS)]
    own, peer = (
        Row("session: print(1)", tuple(ours)),
        Row("llm-sandbox: print(1), from its pool", tuple(theirs)),
    )
    bound = Bound("llm-sandbox ÷ session", peer.p50 / own.p50, 10, at_most=False)
    return [replace(own, bounds=(bound,)), peer, Row("docker-py: containers.run of true", tuple(once))]


@contextmanager
def _peer_image(bench: Bench, client: docker.DockerClient) -> Iterator[None]:
    base = image.resolve(bench.client, None, "slim").id
    client.images.build(fileobj=io.BytesIO(DOCKERFILE.format(base=base).encode()), tag=TAG, rm=True)
    try:
        yield
    finally:
        client.images.remove(TAG, force=True)


@contextmanager
def _pool(client: docker.DockerClient) -> Iterator[Any]:
    pool = create_pool_manager(
        client=client,
        config=PoolConfig(max_pool_size=2, min_pool_size=2),
        lang=SupportedLanguage.PYTHON,
        image=TAG,
        skip_environment_setup=True,
        runtime_configs=OPTIONS,
    )
    try:
        yield pool
    finally:
        pool.close()


def _print(pool: Any) -> None:  # noqa: ANN401  # its types are not told
    with PooledSandboxSession(pool_manager=pool, lang=SupportedLanguage.PYTHON) as session:
        assert session.run(CODE).stdout == "1\n"


def _run(client: docker.DockerClient) -> None:
    client.containers.run(TAG, ["true"], remove=True, network_disabled=True, init=True)


if __name__ == "__main__":
    sys.exit(alone(rows))

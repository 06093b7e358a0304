"""What a tenant does all the time: runs, cancels, broken connections, sessions with files, artifacts."""

from __future__ import annotations

import random
import secrets
from typing import TYPE_CHECKING

import anyio

from sandbox_skills.client import ServerOptions, SkillsClient
from sandbox_skills.errors import SandboxSkillsError
from sandbox_skills.outgoing.retry_policy import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.soak.ledger import Ledger

SKILL = "python-math"

PATIENCE = RetryPolicy(attempts=60, seconds=180.0, first_wait=0.2, longest_wait=3.0)
"""A daemon that was killed, or waits for its dockerd, is back within this on a busy machine."""


class Tenant:
    """One tenant's work until `over`; what it was told is in the ledger."""

    def __init__(self, url: str, key: str, ledger: Ledger, seed: int) -> None:
        self._options = ServerOptions(url, key, retry=PATIENCE)
        self._ledger = ledger
        self._random = random.Random(seed)  # which work comes next is no secret
        self._work: tuple[Callable[[SkillsClient], Awaitable[None]], ...] = (
            self._plain, self._plain, self._cancelled, self._disconnected, self._session, self._artifact
        )  # fmt: skip

    async def go_on(self, over: Callable[[], bool]) -> None:
        """Works, one thing after the other; a fault that somebody injected costs it one of them."""
        while not over():
            work = self._random.choice(self._work)
            async with SkillsClient(self._options) as client:
                try:
                    with anyio.fail_after(PATIENCE.seconds):
                        await work(client)
                except (SandboxSkillsError, TimeoutError) as error:
                    self._ledger.errors[getattr(error, "code", "timeout")] += 1
                else:
                    self._ledger.done[work.__name__.strip("_")] += 1

    async def _plain(self, client: SkillsClient) -> None:
        word = secrets.token_hex(4)
        begun = await client.runs.create(SKILL, command=f"echo {word}", wait=self._random.choice((0, 5)))
        self._ledger.take(begun)
        self._ledger.expect(await client.runs.wait(begun.id), stdout=f"{word}\n")

    async def _cancelled(self, client: SkillsClient) -> None:
        begun = await client.runs.create(SKILL, command="sleep 300")
        self._ledger.take(begun)
        await anyio.sleep(self._random.random())
        await client.runs.cancel(begun.id)
        run = await client.runs.wait(begun.id)
        self._ledger.take(run)
        if run.ok:
            self._ledger.wrong.append(f"run {run.id} was cancelled and ended well")

    async def _disconnected(self, client: SkillsClient) -> None:
        begun = await client.runs.create(SKILL, command="for i in 1 2 3 4; do echo $i; sleep 0.2; done")
        self._ledger.take(begun)
        async with SkillsClient(self._options) as other:
            events = other.runs.events(begun.id)
            async for event in events:
                if event.type == "output":
                    break
            await events.aclose()
        self._ledger.expect(await client.runs.wait(begun.id), stdout="1\n2\n3\n4\n")

    async def _session(self, client: SkillsClient) -> None:
        session = await client.sessions.create(ttl_seconds=300)
        word = secrets.token_hex(200).encode()
        await client.sessions.put_file(session.id, "work/in.txt", word)
        begun = await client.runs.create(SKILL, command="cat $WORK_DIR/in.txt", session_id=session.id)
        self._ledger.take(begun)
        self._ledger.expect(await client.runs.wait(begun.id), stdout=word.decode())
        back = b"".join([piece async for piece in client.sessions.file(session.id, "work/in.txt")])
        if back != word:
            self._ledger.wrong.append(f"session {session.id} gives another file back")
        await client.sessions.close(session.id)

    async def _artifact(self, client: SkillsClient) -> None:
        word = secrets.token_hex(4)
        begun = await client.runs.create(
            SKILL, command=f"echo {word} > $OUTPUT_DIR/{word}", output_files=["out/*"], save_as_artifacts=True
        )
        self._ledger.take(begun)
        self._ledger.expect(await client.runs.wait(begun.id), stdout="")

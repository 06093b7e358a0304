"""A life of the daemon's database in which every change happens once, ended by SIGKILL at a named point.

Run as a program with a folder: for every boundary of every change it forks a process that lives until it dies there,
and prints how each ended. What a life was told is done stands in `told.jsonl` of its folder, written before it goes on.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox_skills.artifacts import LocalArtifactStore
from sandbox_skills.daemon.access.keys import KeyRing
from sandbox_skills.daemon.access.scopes import Scope
from sandbox_skills.daemon.dispatch.base import Accepted, Node
from sandbox_skills.daemon.dispatch.bell import Bell
from sandbox_skills.daemon.dispatch.sql_nodes import SqlNodeRegistry
from sandbox_skills.daemon.dispatch.sql_queue import SqlRunQueue
from sandbox_skills.daemon.truth.agents import Agents, Beginning, LegRequest
from sandbox_skills.daemon.truth.audit import AuditTrail, Deed
from sandbox_skills.daemon.truth.changes import Boundary, Change
from sandbox_skills.daemon.truth.database import opened_database
from sandbox_skills.daemon.truth.ids import new_id
from sandbox_skills.daemon.truth.keys import Keys
from sandbox_skills.daemon.truth.retention import RecordAges, Records
from sandbox_skills.daemon.truth.run import Finished, IdempotencyKey, NewEvent, NewRun, RunKind, restarted
from sandbox_skills.daemon.truth.sessions import Sessions
from sandbox_skills.daemon.truth.skills import NewVersion, SkillQuota, add_version, delete_version
from sandbox_skills.daemon.truth.tenants import Tenants
from sandbox_skills.daemon.truth.tool_conversations import ToolConversations

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from sandbox_skills.daemon.dispatch.base import Lease
    from sandbox_skills.daemon.truth.database import Database
    from sandbox_skills.daemon.truth.tenants import Tenant

NODE = Node("node-1", slots=8)
DATABASE = "daemon.db"
TOLD = "told.jsonl"
CONTENT = b"kept"

POINTS = [(change, boundary) for change in Change for boundary in Boundary]


def name_of(change: Change, boundary: Boundary) -> str:
    return f"{change}-{boundary}"


class Life:
    """One life in `folder`."""

    def __init__(self, folder: Path, database: Database) -> None:
        self._told = os.open(folder / TOLD, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.database = database
        self.queue = SqlRunQueue(database, Bell())
        self.nodes = SqlNodeRegistry(database)
        self.sessions = Sessions(database)
        self.store = LocalArtifactStore(folder / "artifacts")

    def tell(self, what: str, **facts: object) -> None:
        """Writes down what a caller was told is done."""
        os.write(self._told, json.dumps({"what": what, **facts}).encode() + b"\n")

    async def live(self) -> None:
        tenant = await Tenants(self.database).create("acme", actor="test")
        self.tell("tenant", id=tenant.id)
        await self._govern(tenant)
        await self._skills(tenant)
        await self._agents(tenant)
        await self._tools(tenant)
        await self._work(tenant)
        await self._sessions(tenant)
        await self._end(tenant)

    async def _govern(self, tenant: Tenant) -> None:
        await Tenants(self.database).update(tenant.id, limits={"concurrency": 8}, actor="test")
        ring = KeyRing(self.database)
        created = await ring.create(tenant.id, scopes={Scope.RUN}, actor="test")
        self.tell("key", token=created.token)
        await ring.identify(created.token)
        spare = await ring.create(tenant.id, scopes={Scope.RUN}, actor="test")
        await Keys(self.database).revoke(spare.key.id, actor="test")
        self.tell("revoked", token=spare.token)

    async def _skills(self, tenant: Tenant) -> None:
        now = self.database.clock()
        new = NewVersion("greeter", "Says hello.", "sha", 3, 1)
        add = partial(add_version, new=new, tenant_id=tenant.id, now=now, quota=SkillQuota())
        await self.database.write(Change.SKILL_ADD, add)
        delete = partial(delete_version, name="greeter", version=1, tenant_id=tenant.id, now=now)
        await self.database.write(Change.SKILL_DELETE, delete)

    async def _agents(self, tenant: Tenant) -> None:
        agents = Agents(self.database)
        begin = LegRequest(new_id(), begin=Beginning({"model": "m"}, "hello", "test"))
        new = NewRun(tenant.id, begin.kept(), kind=RunKind.AGENT)
        accepted = await self.queue.submit(new)
        assert isinstance(accepted, Accepted)
        made = await agents.of_run(accepted.run)
        await self.queue.cancel(accepted.run.id, tenant_id=tenant.id)
        self.tell("agent", id=made.id)
        await agents.say(made.id, "more")

    async def _tools(self, tenant: Tenant) -> None:
        await ToolConversations(self.database, NODE.id).taken("mine", "tools-1", tenant_id=tenant.id)

    async def _submit(self, tenant: Tenant, key: str) -> str:
        new = NewRun(tenant.id, {"argv": [key]}, idempotency=IdempotencyKey(key, "body"))
        accepted = await self.queue.submit(new)
        assert isinstance(accepted, Accepted)
        self.tell("run", id=accepted.run.id, key=key, tenant=tenant.id)
        return accepted.run.id

    async def _work(self, tenant: Tenant) -> None:
        await self.nodes.heartbeat(NODE)
        for key in ("finishes", "is released", "waits"):
            await self._submit(tenant, key)
        last = await self._submit(tenant, "is cancelled")
        finishes, released = await self.queue.claim(NODE, slots=2)
        await self._finish(finishes, tenant)
        await released.release()
        await self.queue.cancel(last, tenant_id=tenant.id)
        self.tell("finished", id=last, outcome={"type": "stopped", "reason": "cancelled"}, artifacts=[])
        await self.queue.claim(NODE, slots=1)
        for run in await self.queue.abandon(restarted()):
            self.tell("finished", id=run.id, outcome=run.outcome, artifacts=[])
        await self.queue.claim(NODE, slots=8)
        await self._begun_at_once(tenant)
        await self._submit(tenant, "goes on")

    async def _begun_at_once(self, tenant: Tenant) -> None:
        """Queues a run for which a node waits, as nothing else does."""
        waiting = asyncio.ensure_future(self.queue.claim(NODE, slots=1, wait_seconds=60.0))
        await asyncio.sleep(0)
        begun = await self._submit(tenant, "begins at once")
        assert [lease.run.id for lease in await waiting] == [begun]

    async def _finish(self, lease: Lease, tenant: Tenant) -> None:
        await lease.renew()
        seq = await lease.append([NewEvent("output", {"text": "hello"})])
        self.tell("event", run=lease.run.id, seq=seq)
        kept = await self.store.save("out.txt", CONTENT, tenant=tenant.id)
        outcome = {"type": "exited", "code": 0}
        await lease.complete(Finished(outcome, {"artifact_files": [{"name": kept.name}]}))
        self.tell("finished", id=lease.run.id, outcome=outcome, artifacts=[kept.name])

    async def _sessions(self, tenant: Tenant) -> None:
        for ended in (False, True):
            made = await self.sessions.create(tenant_id=tenant.id, ttl_seconds=60.0, max_open=9, actor="test")
            self.tell("session", id=made.id)
            await self.nodes.place(made.id, NODE.id)
            await self.sessions.used(made.id, tenant_id=tenant.id, node=NODE.id)
            if ended:
                await self.sessions.close(made.id, tenant_id=tenant.id, actor="test")
        await self.sessions.lose()

    async def _end(self, tenant: Tenant) -> None:
        await AuditTrail(self.database).record(Deed("test", "look", "nothing", tenant.id))
        await Records(self.database).retain(RecordAges())
        await self.nodes.drain(NODE.id)
        await self.nodes.leave(NODE.id)


async def live_until(folder: Path, point: tuple[Change, Boundary]) -> None:
    def die(change: Change, boundary: Boundary) -> None:
        if (change, boundary) == point:
            os.kill(os.getpid(), signal.SIGKILL)

    async with opened_database(folder / DATABASE, faults=die) as database:
        await Life(folder, database).live()


async def make(path: Path) -> None:
    async with opened_database(path):
        pass


def forked(work: Coroutine[Any, Any, None]) -> int:
    """Does it in a process of its own, which may die of it; returns how that ended."""
    child = os.fork()
    if not child:
        try:
            asyncio.run(work)
        except Exception:  # noqa: BLE001  # told by the parent's own test
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    work.close()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(root: Path) -> None:
    empty = root / "empty.db"
    assert forked(make(empty)) == 0
    ended = {}
    for change, boundary in POINTS:
        folder = root / name_of(change, boundary)
        folder.mkdir()
        shutil.copy(empty, folder / DATABASE)
        ended[folder.name] = forked(live_until(folder, (change, boundary)))
    print(json.dumps(ended))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Tools over the API: offered in every format, called in every format, one tenant's never another's."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills.catalog.define import PREFIX
from sandbox_skills.daemon.errors import SessionNotFoundError
from sandbox_skills.daemon.service import tools as tools_module
from sandbox_skills.daemon.service.kept_skills import KeptSkills
from sandbox_skills.daemon.service.skill_folders import SkillFolders
from sandbox_skills.daemon.service.skill_upload import Upload
from sandbox_skills.daemon.service.skills import SkillService
from sandbox_skills.daemon.service.tenant_skills import ServerSkills
from sandbox_skills.daemon.service.tools import ToolService, conversation_id
from sandbox_skills.daemon.truth.database import opened_database
from sandbox_skills.daemon.truth.ids import new_id
from sandbox_skills.daemon.truth.tenants import Tenants
from sandbox_skills.daemon.truth.tool_conversations import ToolConversations
from sandbox_skills.errors import SettingsError
from sandbox_skills.install.received import ReceivedFile
from sandbox_skills.settings import Settings
from sandbox_skills.toolsets.wire_formats import WIRE_FORMATS
from sandbox_skills.wiring import catalog, opened

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

    from sandbox_skills.toolsets.wire_formats import WireFormat

pytestmark = pytest.mark.anyio

CALLS: Mapping[WireFormat, Any] = {
    "responses": {
        "type": "function_call",
        "call_id": "c1",
        "name": "load_skill",
        "arguments": '{"skill": "sums"}',
    },
    "chat": {
        "id": "c1",
        "type": "function",
        "function": {"name": "load_skill", "arguments": '{"skill": "sums"}'},
    },
    "anthropic": {"type": "tool_use", "id": "c1", "name": "load_skill", "input": {"skill": "sums"}},
    "gemini": {"functionCall": {"id": "c1", "name": "load_skill", "args": {"skill": "sums"}}},
    "mcp": {"name": "load_skill", "arguments": {"skill": "sums"}},
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Sessions:
    """Knows one session."""

    def __init__(self) -> None:
        self.known = new_id()

    async def check(self, session_id: str, *, tenant: str) -> None:
        if session_id != self.known:
            raise SessionNotFoundError(f"no session {session_id} of {tenant}")

    async def opened(self, session_id: str, *, tenant: str) -> None:
        await self.check(session_id, tenant=tenant)


@dataclass
class World:
    skills: SkillService
    tools: ToolService
    tenants: Tenants
    sessions: Sessions
    a: str
    b: str

    async def send(self, tenant: str, name: str) -> None:
        async with self.skills.receiving(tenant=tenant) as incoming:
            path = incoming / "sent"
            path.write_text(f"---\nname: {name}\ndescription: Adds.\n---\nAdd {name}.\n", encoding="utf-8")
            upload = Upload(files=(ReceivedFile("SKILL.md", path),))
            await self.skills.add(upload, incoming, tenant=tenant, actor="test")


@asynccontextmanager
async def opened_world(tmp_path: Path, **given: Any) -> AsyncGenerator[World]:  # noqa: ANN401  # settings
    server = tmp_path / "server" / "served"
    server.mkdir(parents=True)
    (server / "SKILL.md").write_text("---\nname: served\ndescription: x\n---\n", encoding="utf-8")
    own = {"data_dir": tmp_path / "data", "engine": "fake", "skills": {"roots": [server.parent]}}
    settings = Settings.of({**own, **given})
    async with opened(settings) as live, opened_database(tmp_path / "daemon.db") as database:
        tenants, sessions = Tenants(database), Sessions()
        kept = KeptSkills(database, SkillFolders(tmp_path / "tenants"), ServerSkills(catalog(settings)))
        tools = ToolService(live, kept, tenants, sessions, ToolConversations(database, new_id()), slots=4)
        ids = [(await tenants.create(name, actor="test")).id for name in ("a", "b")]
        yield World(SkillService(database, kept), tools, tenants, sessions, *ids)
        await tools.aclose()


@pytest.mark.parametrize("wire_format", WIRE_FORMATS)
async def test_every_format_is_offered_and_answered(tmp_path: Path, wire_format: WireFormat) -> None:
    async with opened_world(tmp_path) as world:
        await world.send(world.a, "sums")
        offer = await world.tools.offer(wire_format, tenant=world.a)
        assert "sums" in offer.prompt
        assert "load_skill" in str(offer.tools)
        answers = await world.tools.call([CALLS[wire_format]] * 2, wire_format, tenant=world.a)
        assert len(answers.results) == 2
        assert "Add sums." in str(answers.results)
        assert answers.session_id


async def test_a_tenant_is_offered_its_own_skills_and_the_server_s_as_they_are_now(tmp_path: Path) -> None:
    async with opened_world(tmp_path) as world:
        for _ in range(2):
            before = await world.tools.offer("mcp", tenant=world.b)
            assert "served" in before.prompt
            assert "sums" not in before.prompt
            await world.send(world.a, "sums")
        (refused,) = (await world.tools.call([CALLS["mcp"]], "mcp", tenant=world.b)).results
        assert refused["isError"] is True
        await world.skills.delete("sums", tenant=world.a, actor="test")
        assert "sums" not in (await world.tools.offer("mcp", tenant=world.a)).prompt


async def test_what_an_admin_says_of_a_tenant_counts_from_the_next_call_on(tmp_path: Path) -> None:
    policy = {"tenants": {"a": {"skills": {"served": {"allow": False}}}}}
    async with opened_world(tmp_path, policy=policy) as world:
        assert "served" not in (await world.tools.offer("mcp", tenant=world.a)).prompt
        assert "served" in (await world.tools.offer("mcp", tenant=world.b)).prompt
        own = {"skills": {"served": {"allow": True}}}
        await world.tenants.update(world.a, policy=own, actor="test")
        assert "served" in (await world.tools.offer("mcp", tenant=world.a)).prompt


async def test_what_changes_of_a_tenant_put_out_of_use_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools_module, "MAX_OUTDATED", 2)
    async with opened_world(tmp_path) as world:
        for number in range(1, 6):
            await world.tools.offer("mcp", ["native"], tenant=world.a)  # whose tools lie in a folder
            await world.tenants.update(world.a, limits={"concurrency": number}, actor="test")
        assert len(list((tmp_path / "data" / "defined").glob(f"{PREFIX}*"))) == 3
    assert list((tmp_path / "data" / "defined").glob(f"{PREFIX}*")) == []


async def test_calls_of_one_session_share_what_was_loaded_and_others_do_not(tmp_path: Path) -> None:
    async with opened_world(tmp_path, tools={"toolsets": ["workspace"]}) as world:
        await world.send(world.a, "sums")
        first = await world.tools.offer("mcp", session_id="mine", tenant=world.a)
        assert first.tools
        assert conversation_id("mine") != conversation_id("yours")
        assert conversation_id(world.sessions.known) == world.sessions.known
        await world.tools.call([], "mcp", session_id=world.sessions.known, tenant=world.a)
        with pytest.raises(SessionNotFoundError):
            await world.tools.call([], "mcp", session_id=new_id(), tenant=world.a)


async def test_a_toolset_that_is_none_is_refused(tmp_path: Path) -> None:
    async with opened_world(tmp_path) as world:
        with pytest.raises(SettingsError, match="no toolset is named 'nope'"):
            await world.tools.offer("mcp", ["nope"], tenant=world.a)


async def test_a_tenant_s_calls_wait_for_each_other_and_for_no_other_tenant(tmp_path: Path) -> None:
    async with opened_world(tmp_path) as world:
        await world.tenants.update(world.a, limits={"concurrency": 1}, actor="test")
        entered = asyncio.Event()

        async def second() -> None:
            async with world.tools.slot(world.a):
                entered.set()

        async with world.tools.slot(world.a):
            waiting = asyncio.create_task(second())
            async with world.tools.slot(world.b):
                assert not entered.is_set()
        await waiting
        assert entered.is_set()

"""The MCP server, talked to by the official client: in memory in both eras, and over HTTP on the loopback."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import anyio
import httpx
import pytest
from mcp import Client, MCPError, types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from sandbox_skills.artifacts import LocalArtifactStore
from sandbox_skills.catalog import Catalog, SkillRoot
from sandbox_skills.errors import SettingsError, ToolCallError, Violation
from sandbox_skills.mcp.resources import Resources
from sandbox_skills.mcp.server import SkillServer
from sandbox_skills.mcp.transports import http_app, serve_http
from sandbox_skills.policy import Policy, ToolRule
from sandbox_skills.toolsets.base import Subject, Tool, ToolResult
from sandbox_skills.toolsets.offered import OfferedSkills
from sandbox_skills.toolsets.skill_tool import SkillToolset
from sandbox_skills.toolsets.toolbox import Toolbox

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from mcp.client.context import ClientRequestContext
    from mcp.client.session import MessageHandlerFnT

    from sandbox_skills.artifacts import ArtifactStore
    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.errors import SandboxSkillsError
    from sandbox_skills.toolsets.base import CallContext, Conversation, ToolCall

pytestmark = pytest.mark.anyio

Mode = Literal["legacy", "auto"]
BOTH = pytest.mark.parametrize("mode", ["legacy", "auto"])


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


RESULT: JsonObject = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@dataclass
class Probe:
    """A toolset that does what its arguments say."""

    store: ArtifactStore
    name: str = "probe"
    waits: anyio.Event = field(default_factory=anyio.Event)
    cancelled: anyio.Event = field(default_factory=anyio.Event)
    conversations: set[str] = field(default_factory=set[str])
    makers: set[str] = field(default_factory=set[str])

    def tools(self, conversation: Conversation | None = None) -> tuple[Tool, ...]:
        probe = Tool("probe", "Does things.", {"type": "object", "properties": {}}, result=RESULT)
        if conversation is None or conversation.id not in self.makers:
            return (probe,)
        return (probe, replace(probe, name="made"))

    def prompt(self, conversation: Conversation, *, query: str = "") -> str:
        return "Use probe."

    def subject(self, call: ToolCall, conversation: Conversation | None = None) -> Subject:
        return Subject(call.name)

    async def call(self, call: ToolCall, context: CallContext) -> ToolResult:
        self.conversations.add(context.conversation.id)
        match call.named("do"):
            case "print":
                for word in (b"h\xc3", b"\xa9llo"):
                    assert context.on_output is not None
                    context.on_output("stdout", word)
                    await asyncio.sleep(0.15)
            case "wait":
                self.waits.set()
                try:
                    await asyncio.sleep(60)
                finally:
                    self.cancelled.set()
            case "save":
                artifact = await self.store.save("out/a b.txt", b"kept", tenant="t")
                return ToolResult({"n": 1}, artifacts=(artifact,))
            case "make":
                self.makers.add(context.conversation.id)
            case "refuse":
                raise ToolCallError("probe", [Violation("do", "is wrong")], hint="Do right.")
            case _:
                pass
        return ToolResult({"n": 7})

    def refused(self, call: ToolCall, error: SandboxSkillsError) -> ToolResult:
        return ToolResult({"error": error.message})


@dataclass(frozen=True)
class World:
    root: Path
    probe: Probe
    server: SkillServer


@pytest.fixture
def world(tmp_path: Path) -> World:
    return _world(tmp_path, Policy())


def _world(tmp_path: Path, policy: Policy) -> World:
    root = tmp_path / "skills"
    add_skill(root, "greet")
    skills = OfferedSkills(Catalog([SkillRoot(str(root))]))
    probe = Probe(LocalArtifactStore(tmp_path / "artifacts"))
    toolbox = Toolbox([probe, SkillToolset(skills)], policy=policy)
    return World(root, probe, SkillServer(toolbox, Resources(skills, probe.store, "t"), "t"))


def add_skill(root: Path, name: str) -> None:
    (root / name / "scripts").mkdir(parents=True)
    text = f"---\nname: {name}\ndescription: Says {name}.\n---\nBody of {name}.\n"
    (root / name / "SKILL.md").write_text(text, encoding="utf-8")
    (root / name / "scripts/x y.py").write_text("print()\n", encoding="utf-8")
    (root / name / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")


class TestTools:
    @BOTH
    async def test_a_client_lists_and_calls_them(self, world: World, mode: Mode) -> None:
        async with Client(world.server.server(), mode=mode) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert list(tools) == ["probe", "skill"]
            assert tools["probe"].output_schema is not None
            annotations = tools["skill"].annotations
            assert annotations is not None
            assert annotations.read_only_hint
            result = await client.call_tool("probe", {})
            assert result.structured_content == {"n": 7}
            assert not result.is_error
            loaded = await client.call_tool("skill", {"skill": "greet"})
            (block,) = loaded.content
            assert isinstance(block, types.TextContent)
            assert "Body of greet." in block.text

    @BOTH
    async def test_a_refusal_is_a_result_that_the_model_sees(self, world: World, mode: Mode) -> None:
        async with Client(world.server.server(), mode=mode) as client:
            for name, arguments in (("probe", {"do": "refuse"}), ("nothing", {})):
                result = await client.call_tool(name, arguments)
                assert result.is_error

    @BOTH
    async def test_output_is_told_while_it_comes(self, world: World, mode: Mode) -> None:
        told: list[tuple[float, str | None]] = []

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            told.append((progress, message))

        async with Client(world.server.server(), mode=mode) as client:
            await client.call_tool("probe", {"do": "print"}, progress_callback=heard)
        assert "".join(message or "" for _, message in told) == "héllo"
        assert [number for number, _ in told] == sorted({number for number, _ in told})

    @BOTH
    async def test_a_cancelled_request_ends_the_call(self, world: World, mode: Mode) -> None:
        async with Client(world.server.server(), mode=mode) as client:
            with anyio.fail_after(10):
                async with anyio.create_task_group() as group:
                    group.start_soon(client.call_tool, "probe", {"do": "wait"})
                    await world.probe.waits.wait()
                    group.cancel_scope.cancel()
                await world.probe.cancelled.wait()
            assert (await client.call_tool("probe", {})).structured_content == {"n": 7}

    async def test_an_artifact_is_a_link_that_can_be_read(self, world: World) -> None:
        async with Client(world.server.server()) as client:
            result = await client.call_tool("probe", {"do": "save"})
            link = result.content[1]
            assert isinstance(link, types.ResourceLink)
            assert (link.uri, link.size) == ("artifact://out/a%20b.txt@0", 4)
            (content,) = (await client.read_resource(link.uri)).contents
            assert isinstance(content, types.TextResourceContents)
            assert content.text == "kept"


class TestApproval:
    @BOTH
    @pytest.mark.parametrize("action", ["accept", "decline"])
    async def test_the_person_at_the_client_is_asked(
        self, tmp_path: Path, mode: Mode, action: Literal["accept", "decline"]
    ) -> None:
        world = _world(tmp_path, Policy(tools={"probe": ToolRule(needs_approval="always")}))
        asked: list[str] = []

        async def person(
            context: ClientRequestContext, params: types.ElicitRequestParams
        ) -> types.ElicitResult:
            asked.append(params.message)
            return types.ElicitResult(action=action, content={} if action == "accept" else None)

        async with Client(world.server.server(), mode=mode, elicitation_callback=person) as client:
            result = await client.call_tool("probe", {"x": 1})
        assert asked == ['Allow the tool probe to be called with {"x": 1}?']
        assert result.is_error is (action == "decline")

    @BOTH
    async def test_a_client_that_cannot_ask_is_refused(self, tmp_path: Path, mode: Mode) -> None:
        world = _world(tmp_path, Policy(tools={"probe": ToolRule(needs_approval="always")}))
        async with Client(world.server.server(), mode=mode) as client:
            result = await client.call_tool("probe", {})
        assert result.is_error
        assert not world.probe.conversations


class TestResources:
    async def test_files_of_skills_are_listed_and_read(self, world: World) -> None:
        async with Client(world.server.server()) as client:
            listed = {row.uri: row for row in (await client.list_resources()).resources}
            assert list(listed) == [
                "skill://greet/SKILL.md",
                "skill://greet/scripts/x%20y.py",
                "skill://greet/logo.png",
            ]
            assert listed["skill://greet/SKILL.md"].description == "Says greet."
            (text,) = (await client.read_resource("skill://greet/scripts/x%20y.py")).contents
            assert isinstance(text, types.TextResourceContents)
            assert text.text == "print()\n"
            (image,) = (await client.read_resource("skill://greet/logo.png")).contents
            assert isinstance(image, types.BlobResourceContents)
            assert image.mime_type == "image/png"

    @pytest.mark.parametrize(
        "uri",
        [
            "skill://greet/..%2f..%2fetc/passwd",
            "skill://greet//etc/passwd",
            "skill://nobody/SKILL.md",
            "file:///etc/passwd",
            "artifact://nothing@0",
            "artifact://../../x",
            "skill://greet",
        ],
    )
    async def test_an_address_that_leads_nowhere_is_told(self, world: World, uri: str) -> None:
        async with Client(world.server.server()) as client:
            with pytest.raises(MCPError) as raised:
                await client.read_resource(uri)
        assert raised.value.error.code == types.INVALID_PARAMS

    async def test_many_come_in_pages(self, world: World) -> None:
        for number in range(150):
            add_skill(world.root, f"s{number:03}")
        async with Client(world.server.server()) as client:
            seen: list[str] = []
            cursor: str | None = None
            while True:
                page = await client.list_resources(cursor=cursor)
                seen += [row.uri for row in page.resources]
                cursor = page.next_cursor
                if cursor is None:
                    break
        assert len(seen) == len(set(seen)) == 151 * 3


class TestChanges:
    async def test_a_client_of_today_listens(self, world: World) -> None:
        async with world.server.watching(), Client(world.server.server()) as client:
            async with client.listen(tools_list_changed=True) as changes:
                add_skill(world.root, "wave")
                with anyio.fail_after(10):
                    async for _ in changes:
                        break
            tools = (await client.list_tools(cache_mode="refresh")).tools
        assert "wave" in (tools[1].description or "")

    async def test_an_older_client_is_told(self, world: World) -> None:
        told = anyio.Event()

        async def heard(message: object) -> None:
            if isinstance(message, types.ToolListChangedNotification):
                told.set()

        server = world.server.server()
        async with world.server.watching(), Client(server, mode="legacy", message_handler=heard) as client:
            await client.list_tools()
            add_skill(world.root, "wave")
            with anyio.fail_after(10):
                await told.wait()


class TestHttp:
    @asynccontextmanager
    async def serving(self, world: World, token: str = "") -> AsyncGenerator[str]:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: serve_http(world.server, host="127.0.0.1", port=port, token=token))
            with anyio.fail_after(10):
                while not await _answers(port):  # noqa: ASYNC110  # another program's port has no event
                    await anyio.sleep(0.05)
            yield f"http://127.0.0.1:{port}/mcp"
            group.cancel_scope.cancel()

    @BOTH
    async def test_clients_call_tools(self, world: World, mode: Mode) -> None:
        async with self.serving(world) as url, Client(url, mode=mode) as client:
            assert (await client.call_tool("probe", {})).structured_content == {"n": 7}

    async def test_sessions_have_workspaces_of_their_own(self, world: World) -> None:
        async with self.serving(world) as url:
            for _ in range(2):
                async with Client(url, mode="legacy") as client:
                    await client.call_tool("probe", {})
        assert len(world.probe.conversations) == 2

    @BOTH
    async def test_a_client_can_name_its_conversation_and_come_back_to_it(
        self, world: World, mode: Mode
    ) -> None:
        async with self.serving(world) as url:
            for name in ("mine", "yours", "mine", "shared", "x" * 5_000):
                async with (
                    create_mcp_http_client(headers={"X-Conversation": name}) as http,
                    Client(streamable_http_client(url, http_client=http), mode=mode) as client,
                ):
                    await client.call_tool("probe", {})
        assert len(world.probe.conversations) == 4
        assert "mcp-shared" not in world.probe.conversations

    async def test_a_session_is_nobody_elses_whatever_a_header_says(self, world: World) -> None:
        async with self.serving(world) as url, Client(url, mode="legacy") as client:
            await client.call_tool("probe", {})
            (session,) = world.probe.conversations
            headers = {"Mcp-Session-Id": session.removeprefix("mcp-")}
            async with (
                create_mcp_http_client(headers=headers) as http,
                Client(streamable_http_client(url, http_client=http)) as other,
            ):
                await other.call_tool("probe", {})
        assert world.probe.conversations == {session, "mcp-shared"}

    async def test_a_tool_that_a_model_makes_is_told_and_offered_to_its_session_alone(
        self, world: World
    ) -> None:
        told = {name: anyio.Event() for name in ("maker", "other")}

        def heard_by(name: str) -> MessageHandlerFnT:
            async def heard(message: object) -> None:
                if isinstance(message, types.ToolListChangedNotification):
                    told[name].set()

            return heard

        async with (
            self.serving(world) as url,
            Client(url, mode="legacy", message_handler=heard_by("maker")) as maker,
            Client(url, mode="legacy", message_handler=heard_by("other")) as other,
        ):
            for client in (maker, other):
                await client.list_tools()
            await maker.call_tool("probe", {"do": "make"})
            with anyio.fail_after(10):
                await told["maker"].wait()
            names = [[tool.name for tool in (await one.list_tools()).tools] for one in (maker, other)]
            assert names == [["probe", "made", "skill"], ["probe", "skill"]]
            assert not told["other"].is_set()

    async def test_every_session_of_one_conversation_is_told_of_what_is_made_in_it(
        self, world: World
    ) -> None:
        told = [anyio.Event(), anyio.Event()]

        def heard_by(event: anyio.Event) -> MessageHandlerFnT:
            async def heard(message: object) -> None:
                if isinstance(message, types.ToolListChangedNotification):
                    event.set()

            return heard

        async with self.serving(world) as url, AsyncExitStack() as stack:
            clients: list[Client] = []
            for event in told:
                http = await stack.enter_async_context(
                    create_mcp_http_client(headers={"X-Conversation": "one"})
                )
                transport = streamable_http_client(url, http_client=http)
                client = Client(transport, mode="legacy", message_handler=heard_by(event))
                clients.append(await stack.enter_async_context(client))
                await client.list_tools()
            await clients[0].call_tool("probe", {"do": "make"})
            with anyio.fail_after(10):
                for event in told:
                    await event.wait()
            assert "made" in [tool.name for tool in (await clients[1].list_tools()).tools]

    async def test_a_page_elsewhere_cannot_use_a_browser_to_get_in(self, world: World) -> None:
        async with self.serving(world) as url, httpx.AsyncClient() as client:
            for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
                answer = await client.post(url, json=_initialize(), headers={**_ACCEPT, **headers})
                assert answer.status_code in {403, 421}

    async def test_without_the_token_nobody_gets_in(self, world: World) -> None:
        async with self.serving(world, token="s3cret-token") as url, httpx.AsyncClient() as client:
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "s3cret-token"}):
                answer = await client.post(url, json=_initialize(), headers={**_ACCEPT, **headers})
                assert answer.status_code == 401
            known = {**_ACCEPT, "Authorization": "Bearer s3cret-token"}
            assert (await client.post(url, json=_initialize(), headers=known)).status_code == 200

    async def test_a_head_without_end_is_refused(self, world: World) -> None:
        async with self.serving(world) as url, httpx.AsyncClient() as client:
            try:
                long = {**_ACCEPT, "A": "a" * 1_000_000}
                answer = await client.post(url, json=_initialize(), headers=long)
            except httpx.TransportError:
                return  # what is not read resets the connection, maybe before the answer is read
        assert answer.status_code in {400, 431}

    def test_other_addresses_need_a_token(self, world: World) -> None:
        with pytest.raises(SettingsError, match="everybody who reaches"):
            http_app(world.server, host="0.0.0.0")
        http_app(world.server, host="0.0.0.0", token="x" * 20)


async def _answers(port: int) -> bool:
    try:
        stream = await anyio.connect_tcp("127.0.0.1", port)
    except OSError:
        return False
    await stream.aclose()
    return True


_ACCEPT = {"Accept": "application/json, text/event-stream"}


def _initialize() -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }

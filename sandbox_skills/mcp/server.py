"""The MCP server of one tenant: requests of any number of clients become calls of one toolbox."""

from __future__ import annotations

import hashlib
import json
import logging
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from anyio import to_thread
from mcp import MCPError, types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from sandbox_skills.errors import RequestError, SandboxSkillsError
from sandbox_skills.mcp.approval import approved
from sandbox_skills.mcp.messages import mcp_result, mcp_tool
from sandbox_skills.mcp.progress import told_live
from sandbox_skills.toolsets.base import Conversation, ToolCall

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from contextlib import AbstractAsyncContextManager

    from mcp.server.context import ServerRequestContext
    from mcp.server.models import InitializationOptions
    from mcp.server.session import ServerSession

    from sandbox_skills.mcp.resources import Resources
    from sandbox_skills.toolsets.base import Tool
    from sandbox_skills.toolsets.toolbox import Toolbox

logger = logging.getLogger(__name__)

NAME = "sandbox-skills"

WATCH_SECONDS = 1.0
"""Between two looks at the skills: a look costs a status of each, and a person who saves a file waits no longer."""

SESSION_HEADER = "mcp-session-id"
"""Names the session of a client over HTTP; one conversation, and so one workspace, for each."""

CONVERSATION_HEADER = "x-conversation"
"""Names the conversation of a client that says so: one of the newest protocol, or one that comes back to its files."""

MAX_CLIENTS = 1_000
"""Clients that are told of changes, and whose conversations are remembered; the one that came first is forgotten."""


@dataclass(slots=True)
class SkillServer:
    """Answers MCP requests. A client at stdin, and each session over HTTP, is a conversation with its own workspace.

    Clients of the newest protocol have no sessions: over HTTP they share one conversation, but for those that name
    theirs. Tools that a model makes are seen in its conversation alone. `slot` gives what each call is to wait for.
    """

    toolbox: Toolbox
    resources: Resources
    tenant: str
    slot: Callable[[], AbstractAsyncContextManager[object]] = nullcontext
    _made: list[Server[Any]] = field(default_factory=list["Server[Any]"])
    _conversations: dict[str, Conversation] = field(default_factory=dict[str, Conversation])
    _listeners: dict[tuple[str, str], ServerSession] = field(
        default_factory=dict[tuple[str, str], "ServerSession"]
    )
    _told: dict[str, tuple[Tool, ...]] = field(default_factory=dict[str, "tuple[Tool, ...]"])
    _bus: InMemorySubscriptionBus = field(default_factory=InMemorySubscriptionBus)

    def server(self) -> Server[Any]:
        """Returns the server that the transports of `mcp` run. Blocking."""
        made = Server(
            NAME,
            version=version("sandbox-skills"),
            instructions=self._instructions(),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_read_resource=self._read_resource,
            on_subscriptions_listen=ListenHandler(self._bus),
        )
        self._made.append(made)
        return made

    def _instructions(self) -> str | None:
        return self.toolbox.prompt(Conversation(NAME, tenant=self.tenant)) or None

    @staticmethod
    def options(server: Server[Any]) -> InitializationOptions:
        """Returns what the server says of itself: that lists of tools and resources may change."""
        return server.create_initialization_options(
            NotificationOptions(tools_changed=True, resources_changed=True)
        )

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        """Tells clients when the tools or skills are others than before, while the block lasts."""
        before = await to_thread.run_sync(self._fingerprint)
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch, before)
            yield
            group.cancel_scope.cancel()

    async def _watch(self, before: str) -> None:
        while True:
            await anyio.sleep(WATCH_SECONDS)
            try:
                now = await to_thread.run_sync(self._fingerprint)
            except SandboxSkillsError as error:
                logger.warning("the skills cannot be looked at: %s", error.message)
                continue
            if now != before:
                before = now
                for server in self._made:  # a client that comes later is told of the skills as they are then
                    server.instructions = await to_thread.run_sync(self._instructions)
                await self._tell_changed()

    def _fingerprint(self) -> str:
        tools = [[tool.name, tool.description, tool.parameters] for tool in self.toolbox.tools()]
        skills = [[spec.name, spec.description] for spec in self.resources.skills.list()]
        return hashlib.sha256(json.dumps([tools, skills]).encode()).hexdigest()

    async def _tell_changed(self, only: str = "") -> None:
        """Tells clients, those of one conversation where it is named.

        Of the newest protocol all are told that listen: nobody knows whose they are.
        """
        await self._bus.publish(ToolsListChanged())
        for key, session in list(self._listeners.items()):
            if only not in {"", key[0]}:
                continue
            try:
                await session.send_tool_list_changed()
                await session.send_resource_list_changed()
            except (MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._listeners.pop(key, None)

    async def _list_tools(
        self, context: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        del params
        key = _client_key(context)
        _put(self._listeners, (key, _session_id(context)), context.session)
        tools = await to_thread.run_sync(self.toolbox.tools, self._conversation(key))
        _put(self._told, key, tools)
        return types.ListToolsResult(tools=[mcp_tool(tool) for tool in tools])

    async def _call_tool(
        self, context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        key = _client_key(context)
        conversation = self._conversation(key)
        call = ToolCall(params.name, params.arguments or {}, str(context.request_id or ""))
        word: bool | types.InputRequiredResult = False
        if await to_thread.run_sync(self.toolbox.approval, call, conversation):
            word = await approved(context.session, call, params)
        if isinstance(word, types.InputRequiredResult):
            return word
        async with self._turn(), told_live(context.session) as sink:
            result = await self.toolbox.call(call, conversation, on_output=sink, approved=word)
        tools = await self._tools_after(key, conversation)
        structured = any(tool.name == params.name and tool.result is not None for tool in tools)
        return mcp_result(result, structured=structured)

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        """Waits for the turn of a call; what keeps it from one is told as an error of the protocol."""
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self.slot())
            except SandboxSkillsError as error:
                raise _protocol_error(error) from error
            yield

    async def _tools_after(self, key: str, conversation: Conversation) -> tuple[Tool, ...]:
        """Returns the tools after a call, which may have made or removed one: then the client is told."""
        tools = await to_thread.run_sync(self.toolbox.tools, conversation)
        if self._told.get(key, tools) != tools:
            _put(self._told, key, tools)
            await self._tell_changed(key)
        return tools

    async def _list_resources(
        self, context: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        _put(self._listeners, (_client_key(context), _session_id(context)), context.session)
        try:
            return await self.resources.page(params.cursor if params is not None else None)
        except SandboxSkillsError as error:
            raise _protocol_error(error) from error

    async def _read_resource(
        self, context: ServerRequestContext[Any, Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        del context
        try:
            return await self.resources.read(str(params.uri))
        except SandboxSkillsError as error:
            raise _protocol_error(error) from error

    def _conversation(self, key: str) -> Conversation:
        known = self._conversations.get(key) or Conversation(f"mcp-{key}", tenant=self.tenant)
        _put(self._conversations, key, known)
        return known


def _client_key(context: ServerRequestContext[Any, Any]) -> str:
    headers = getattr(context.request, "headers", None)
    if headers is None:
        return "stdio"
    if named := headers.get(CONVERSATION_HEADER):
        return f"named-{hashlib.sha256(named.encode()).hexdigest()[:32]}"
    return _session_id(context) or "shared"


def _session_id(context: ServerRequestContext[Any, Any]) -> str:
    """Returns the id of a client's session, "" where there are none."""
    headers = getattr(context.request, "headers", None)
    if headers is None or context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return ""
    return headers.get(SESSION_HEADER) or ""


K = TypeVar("K")
T = TypeVar("T")


def _put(known: dict[K, T], key: K, value: T) -> None:
    known.pop(key, None)
    known[key] = value
    if len(known) > MAX_CLIENTS:
        del known[next(iter(known))]


def _protocol_error(error: SandboxSkillsError) -> MCPError:
    code = types.INVALID_PARAMS if isinstance(error, RequestError) else types.INTERNAL_ERROR
    text = f"{error.message}. {error.hint}" if error.hint else error.message
    return MCPError(code=code, message=text, data={"code": error.code})

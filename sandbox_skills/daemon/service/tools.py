"""Tools over the API: what a tenant's models are offered, and the answers to their calls as each provider has them."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from anyio import to_thread

from sandbox_skills.daemon.service.tenant_skills import demanding
from sandbox_skills.daemon.service.tenant_tools import TenantTools
from sandbox_skills.daemon.truth.ids import is_id
from sandbox_skills.toolsets.base import Conversation
from sandbox_skills.toolsets.provider import SkillsProvider
from sandbox_skills.wiring import trust

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Container, Sequence

    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.daemon.service.kept_skills import KeptSkills
    from sandbox_skills.daemon.truth.tenants import Tenant, Tenants
    from sandbox_skills.daemon.truth.tool_conversations import ToolConversations
    from sandbox_skills.toolsets.wire_formats import WireFormat
    from sandbox_skills.wiring import Live

MAX_CONVERSATIONS = 10_000
"""Conversations whose state is remembered, of all tenants: a hundred bytes and what skills were loaded in each."""


MAX_OUTDATED = 256
"""Tools that a change of their tenant has put out of use, and that calls may still have: an admin makes no more changes
in the quarter of an hour that a call may take."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a model is told: the definitions of tools as its API takes them, and a section for the system prompt."""

    tools: list[JsonObject]
    prompt: str


@dataclass(frozen=True, slots=True)
class Answers:
    """What answers calls, as their API takes it, and the session that goes on with their files."""

    session_id: str
    results: list[JsonObject]


class KnownSessions(Protocol):
    """Knows the sessions of tenants, as `SessionService`."""

    async def check(self, session_id: str, *, tenant: str) -> object:
        """Raises SessionNotFoundError for a session that the tenant does not have."""
        ...

    async def opened(self, session_id: str, *, tenant: str) -> object:
        """Wakes a session that is idle; raises SessionNotFoundError."""
        ...


@dataclass(frozen=True, slots=True)
class _Known:
    """The tools of one tenant, as they were made, and how many calls of it are answered at a time."""

    tools: TenantTools
    slots: asyncio.Semaphore


class ToolService:
    """The tools of all tenants. To be closed when no call is under way. `demanded` tells what skills must meet."""

    def __init__(
        self,
        live: Live,
        kept: KeptSkills,
        tenants: Tenants,
        sessions: KnownSessions,
        names: ToolConversations,
        *,
        slots: int,
    ) -> None:
        self._live = live
        self._kept = kept
        self._tenants = tenants
        self._sessions = sessions
        self._names = names
        self._slots = asyncio.Semaphore(slots)
        self.demanded = demanding(trust(live.settings).demanded)
        self._known: dict[str, _Known] = {}
        self._outdated: list[TenantTools] = []
        self._conversations: OrderedDict[tuple[str, str], Conversation] = OrderedDict()

    async def offer(
        self, wire_format: WireFormat, toolsets: Sequence[str] = (), *, session_id: str = "", tenant: str
    ) -> Offer:
        """Returns what a tenant's models are offered, in a session with what was made there besides.

        Raises SettingsError for a toolset that is none, SessionNotFoundError.
        """
        provider = await self._provider(session_id, toolsets, tenant=tenant)
        return await to_thread.run_sync(_offer, provider, wire_format)

    async def call(
        self,
        calls: Sequence[object],
        wire_format: WireFormat,
        toolsets: Sequence[str] = (),
        *,
        session_id: str = "",
        approved: Container[str] = (),
        tenant: str,
    ) -> Answers:
        """Answers a tenant's calls at the same time, and returns the items in call order; what is no call has none.

        Calls that name one session share its files and what was loaded; without one they get a new session.
        `approved` holds the ids of calls that a person has allowed. Raises as `offer`.
        """
        session_id = session_id or self._names.new_name()
        await self.wake(session_id, tenant=tenant)
        provider = await self._provider(session_id, toolsets, tenant=tenant)
        return Answers(session_id, await provider.handle_tool_calls(calls, wire_format, approved=approved))

    async def wake(self, session_id: str, *, tenant: str) -> None:
        """Wakes a session that has an id of ours, with its files: by its name alone an empty one would be opened.

        Raises SessionNotFoundError.
        """
        if is_id(session_id):
            await self._sessions.opened(session_id, tenant=tenant)

    async def take_over(self, name: str, conversation: Conversation) -> None:
        """Lets the next run tell that files of earlier calls are gone, where an earlier server had the workspace."""
        if await self._names.taken(name, conversation.id, tenant_id=conversation.tenant):
            (await self.tools_of(conversation.tenant)).runs.emptied(conversation)

    async def tools_of(self, tenant_id: str) -> TenantTools:
        """Returns a tenant's tools, made anew where an admin has changed the tenant."""
        return await self.tools_for(await self._tenants.get(tenant_id))

    async def tools_for(self, tenant: Tenant) -> TenantTools:
        """Returns what `tools_of` does, for who has just looked the tenant up."""
        return (await self._of(tenant)).tools

    @asynccontextmanager
    async def slot(self, tenant_id: str) -> AsyncGenerator[None]:
        """Waits until the tenant, and the server, may answer one more call."""
        known = await self._of(await self._tenants.get(tenant_id))
        async with known.slots, self._slots:
            yield

    async def aclose(self) -> None:
        """Removes what tools that were made at run time lie in."""
        for one in [*self._outdated, *(known.tools for known in self._known.values())]:
            await to_thread.run_sync(one.close)

    async def _provider(self, session_id: str, toolsets: Sequence[str], *, tenant: str) -> SkillsProvider:
        conversation = await self._conversation(session_id, tenant=tenant)
        tools = await self.tools_of(tenant)
        toolbox = await to_thread.run_sync(tools.toolbox, tuple(toolsets))
        return SkillsProvider(toolbox, tools.offered, conversation, slot=partial(self.slot, tenant))

    async def _of(self, tenant: Tenant) -> _Known:
        known = self._known.get(tenant.id)
        if known is not None and _same(known.tools.tenant, tenant):
            return known
        skills = await self._kept.skills(tenant=tenant.id)
        tools = await to_thread.run_sync(partial(TenantTools, self._live, skills, tenant, self.demanded))
        if known is not None:
            await self._outdate(known.tools)
        made = _Known(tools, asyncio.Semaphore(tools.limits.concurrency))
        self._known[tenant.id] = made
        return made

    async def _outdate(self, tools: TenantTools) -> None:
        """Keeps tools in whose place there are others as long as calls may be under way with them."""
        self._outdated.append(tools)
        if len(self._outdated) > MAX_OUTDATED:
            await to_thread.run_sync(self._outdated.pop(0).close)

    async def _conversation(self, session_id: str, *, tenant: str) -> Conversation:
        """Returns the conversation of a session; one that has an id of ours is a session of the tenant's or none."""
        if is_id(session_id):
            await self._sessions.check(session_id, tenant=tenant)
        key = (tenant, session_id)
        known = self._conversations.get(key)
        if known is None:
            known = Conversation(conversation_id(session_id), tenant)
            if session_id and not is_id(session_id):
                await self.take_over(session_id, known)
        if session_id:
            self._conversations[key] = known
            self._conversations.move_to_end(key)
        while len(self._conversations) > MAX_CONVERSATIONS:
            self._conversations.popitem(last=False)
        return known


def conversation_id(session_id: str) -> str:
    """Returns what the workspace of a session is called: its id, or for a name of the caller's one like no id. Pure."""
    if is_id(session_id):
        return session_id
    return f"tools-{hashlib.sha256(session_id.encode(errors='surrogatepass')).hexdigest()[:32]}"


def _same(before: Tenant, now: Tenant) -> bool:
    return (before.name, before.policy, before.limits) == (now.name, now.policy, now.limits)


def _offer(provider: SkillsProvider, wire_format: WireFormat) -> Offer:
    return Offer(provider.tools_for(wire_format), provider.system_prompt)

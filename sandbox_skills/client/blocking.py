"""The client for programs without an event loop: the same names, called on one that runs in a thread."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from anyio.from_thread import start_blocking_portal

from sandbox_skills.client.client import SkillsClient

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
    from typing import Self

    from anyio.from_thread import BlockingPortal

    from sandbox_skills.client.agents import Agents
    from sandbox_skills.client.artifacts import Artifacts
    from sandbox_skills.client.options import ServerOptions
    from sandbox_skills.client.runs import Runs
    from sandbox_skills.client.sessions import Sessions
    from sandbox_skills.client.skills import Skills
    from sandbox_skills.client.tools import Tools

P = ParamSpec("P")
R = TypeVar("R")


class _Calls:
    """Makes blocking functions of those of the asynchronous client, with their parameters and promises."""

    def __init__(self, portal: BlockingPortal) -> None:
        self._portal = portal

    def value(self, function: Callable[P, Awaitable[R]]) -> Callable[P, R]:
        """Returns what waits for one value."""

        @wraps(function)
        def call(*args: P.args, **more: P.kwargs) -> R:
            return self._portal.call(partial(function, *args, **more))

        return call

    def values(self, function: Callable[P, AsyncGenerator[R]]) -> Callable[P, Generator[R]]:
        """Returns what waits for one value after the other."""

        @wraps(function)
        def call(*args: P.args, **more: P.kwargs) -> Generator[R]:
            found = function(*args, **more)
            try:
                while True:
                    try:
                        yield self._portal.call(found.__anext__)
                    except StopAsyncIteration:
                        return
            finally:
                self._portal.call(found.aclose)

        return call


class BlockingRuns:
    """As `Runs`."""

    def __init__(self, runs: Runs, calls: _Calls) -> None:
        self.create = calls.value(runs.create)
        self.run = calls.value(runs.run)
        self.get = calls.value(runs.get)
        self.list = calls.values(runs.list)
        self.cancel = calls.value(runs.cancel)
        self.events = calls.values(runs.events)
        self.wait = calls.value(runs.wait)


class BlockingSkills:
    """As `Skills`."""

    def __init__(self, skills: Skills, calls: _Calls) -> None:
        self.upload = calls.value(skills.upload)
        self.validate = calls.value(skills.validate)
        self.list = calls.values(skills.list)
        self.get = calls.value(skills.get)
        self.versions = calls.values(skills.versions)
        self.version = calls.value(skills.version)
        self.content = calls.values(skills.content)
        self.delete = calls.value(skills.delete)


class BlockingSessions:
    """As `Sessions`."""

    def __init__(self, sessions: Sessions, calls: _Calls) -> None:
        self.create = calls.value(sessions.create)
        self.get = calls.value(sessions.get)
        self.list = calls.values(sessions.list)
        self.extend = calls.value(sessions.extend)
        self.snapshot = calls.value(sessions.snapshot)
        self.close = calls.value(sessions.close)
        self.files = calls.values(sessions.files)
        self.put_file = calls.value(sessions.put_file)
        self.file = calls.values(sessions.file)


class BlockingArtifacts:
    """As `Artifacts`."""

    def __init__(self, artifacts: Artifacts, calls: _Calls) -> None:
        self.list = calls.values(artifacts.list)
        self.versions = calls.values(artifacts.versions)
        self.get = calls.value(artifacts.get)
        self.content = calls.values(artifacts.content)
        self.delete = calls.value(artifacts.delete)


class BlockingTools:
    """As `Tools`."""

    def __init__(self, tools: Tools, calls: _Calls) -> None:
        self.list = calls.value(tools.list)
        self.call = calls.value(tools.call)


class BlockingAgents:
    """As `Agents`."""

    def __init__(self, agents: Agents, calls: _Calls) -> None:
        self.create = calls.value(agents.create)
        self.get = calls.value(agents.get)
        self.events = calls.values(agents.events)
        self.decide = calls.value(agents.decide)
        self.resume = calls.value(agents.resume)
        self.cancel = calls.value(agents.cancel)


class BlockingSkillsClient:
    """As `SkillsClient`, for `with`. Leaving the block ends the connections and the thread, and no run."""

    def __init__(self, options: ServerOptions | None = None) -> None:
        self._client = SkillsClient(options)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal(name="skills client"))
            stack.callback(portal.call, self._client.aclose)
            calls = _Calls(portal)
            self.runs = BlockingRuns(self._client.runs, calls)
            self.skills = BlockingSkills(self._client.skills, calls)
            self.sessions = BlockingSessions(self._client.sessions, calls)
            self.artifacts = BlockingArtifacts(self._client.artifacts, calls)
            self.tools = BlockingTools(self._client.tools, calls)
            self.agents = BlockingAgents(self._client.agents, calls)
            self.capabilities = calls.value(self._client.capabilities)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

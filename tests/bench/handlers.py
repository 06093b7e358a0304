"""What a call of a skill's own tool costs in a session, beside a bare interpreter: `python -m tests.bench.handlers`."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_skills.catalog import Catalog, SkillRoot
from sandbox_skills.toolsets.base import Conversation, ToolCall
from sandbox_skills.toolsets.native import NativeToolset
from sandbox_skills.toolsets.offered import OfferedSkills
from sandbox_skills.toolsets.skill_runs import SkillRuns
from sandbox_skills.toolsets.toolbox import Toolbox
from sandbox_skills.workspace.manager import Argv, RunRequest, RunRules, WorkspaceManager
from sandbox_skills.workspace.sessions import SessionManager
from tests.bench.report import Bound, Row
from tests.bench.scenarios import REST_SECONDS, ROUNDS, SPEC, TENANT, Bench, alone, timed_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from sandbox_skills.workspace.live_session import LiveSession
    from sandbox_skills.workspace.staging import StagedSkill

MOST = 1.3
"""A call of a tool may cost so many times what a bare interpreter costs in the same box."""

FORKED = {"python3 -c pass": 0.4, "call of a python tool": 0.5}
"""What a Python program through the fork server may cost of one in a fresh interpreter."""

HANDLERS = {
    "python": ("add.py", "def handler(args):\n    return {'sum': args['a'] + 1}\n"),
    "javascript": (
        "add.mjs",
        "export default async function handler({ a }) {\n  return { sum: a + 1 };\n}\n",
    ),
}
BARE = {"python": ("python3", "-c", "pass"), "javascript": ("node", "-e", "0")}


@dataclass(frozen=True, slots=True)
class Calls:
    """One conversation whose box is warm: calls of its tools, and bare interpreters in the same box."""

    box: Toolbox
    session: LiveSession
    staged: StagedSkill
    talk: Conversation

    async def tool(self, name: str) -> None:
        result = await self.box.call(ToolCall(name, {"a": 1}), self.talk)
        assert result.content == {"sum": 2}, result

    async def bare(self, *argv: str) -> None:
        result = await self.session.run(self.staged, RunRequest(Argv(argv)))
        assert result.outcome.ok


def write_skill(root: Path) -> Path:
    """Writes a skill with a tool for each language; returns its folder."""
    folder = root / "adder"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: adder\ndescription: Adds.\n---\n", encoding="utf-8")
    number = {"a": {"type": "number", "description": "What is increased"}}
    tools: list[object] = []
    for language, (file, source) in HANDLERS.items():
        (folder / "scripts" / file).write_text(source, encoding="utf-8")
        about = {"name": f"add_{language}", "description": "Adds one.", "script": f"scripts/{file}"}
        tools.append({**about, "parameters": number})
    (folder / "tools.json").write_text(json.dumps(tools), encoding="utf-8")
    return folder


async def rows(bench: Bench) -> list[Row]:
    """Measures calls of both languages and what they are compared with, in turns."""
    skill = write_skill(bench.folder / "tools")
    async with opened(bench, skill) as usual, opened(bench, skill, fork_python=True) as forked:
        pairs = [row for language in HANDLERS for row in await pair(usual, language)]
        return [*pairs, *await forks(usual, forked)]


@asynccontextmanager
async def opened(bench: Bench, skill: Path, *, fork_python: bool = False) -> AsyncIterator[Calls]:
    """Opens a conversation about a skill in a session of its own."""
    skills = OfferedSkills(Catalog([SkillRoot(str(skill.parent))]))
    rules = RunRules(fork_python=fork_python)
    async with SessionManager(WorkspaceManager(bench.pool, bench.store, spec=SPEC, rules=rules)) as sessions:
        session = await sessions.open("bench", tenant=TENANT)
        box = Toolbox([NativeToolset(SkillRuns(skills, sessions))])
        yield Calls(box, session, await session.stage(skill), Conversation("bench", TENANT))


async def pair(calls: Calls, language: str) -> tuple[Row, Row]:
    """Returns the rows of a bare interpreter and of a tool's call."""
    bare: list[float] = []
    called: list[float] = []
    for _ in range(ROUNDS):
        bare.append(await timed_async(lambda: calls.bare(*BARE[language])))
        called.append(await timed_async(lambda: calls.tool(f"add_{language}")))
    plain = Row(f"session: {' '.join(BARE[language])}", tuple(bare))
    row = Row(f"session: call of a {language} tool", tuple(called))
    bound = Bound("tool ÷ bare", row.p50 / plain.p50, MOST, at_most=True)
    return plain, Row(row.name, row.samples, bounds=(bound,))


async def forks(usual: Calls, forked: Calls) -> list[Row]:
    """Returns the rows of interpreters and tools through the fork server, with those they are compared with.

    In turns, each when its box has come to rest, as calls of a model come: a fork is made when nothing else is done.
    """
    python = BARE["python"]
    works: dict[str, Callable[[], Awaitable[None]]] = {
        "session: python3 -c pass, at rest": lambda: usual.bare(*python),
        "session: python3 -c pass through the fork server": lambda: forked.bare(*python),
        "session: call of a python tool, at rest": lambda: usual.tool("add_python"),
        "session: call of a python tool through the fork server": lambda: forked.tool("add_python"),
    }
    samples: dict[str, list[float]] = {name: [] for name in works}
    for warming in (True, *[False] * ROUNDS):
        for name, work in works.items():
            await asyncio.sleep(1.0 if warming else REST_SECONDS)
            took = await timed_async(work)
            if not warming:
                samples[name].append(took)
    rows = [Row(name, tuple(found)) for name, found in samples.items()]
    return [_compared(row, rows[at - 1]) if at % 2 else row for at, row in enumerate(rows)]


def _compared(forked: Row, fresh: Row) -> Row:
    limit = next(limit for what, limit in FORKED.items() if what in forked.name)
    bound = Bound("forked ÷ fresh", forked.p50 / fresh.p50, limit, at_most=True)
    return Row(forked.name, forked.samples, bounds=(bound,))


if __name__ == "__main__":
    sys.exit(alone(rows))

"""Runs a skill in view of a recorder, each command in a sandbox of its own."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread

from sandbox_skills.catalog.resources import open_skill_file
from sandbox_skills.ci.declared import Declared
from sandbox_skills.ci.inspection import InspectedRun, Inspection, inspection
from sandbox_skills.ci.named_variables import named_variables
from sandbox_skills.ci.smoke import scripts_of, started_scripts
from sandbox_skills.ci.syntax import MAX_SCRIPTS
from sandbox_skills.errors import CommandError, RequestError
from sandbox_skills.workspace.manager import Argv, RunRequest, Script, Shell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sandbox_skills.catalog import SkillSpec
    from sandbox_skills.recording import Recorded
    from sandbox_skills.spec import Limits
    from sandbox_skills.workspace.manager import Invocation, WorkspaceManager

EVERYTHING: frozenset[Recorded] = frozenset({"network", "files", "programs"})

MAX_STARTED = 20
"""Scripts that are started where no command was given, each in a sandbox of its own."""

MAX_TEXT = 512 * 1024
"""Bytes of a file that are looked at: what SKILL.md and scripts have, with room."""


@dataclass(frozen=True, slots=True)
class Commands:
    """What is to be run, and how many scripts are left out as there are too many."""

    these: tuple[Invocation, ...]
    left_out: int = 0


async def inspect_skill(
    manager: WorkspaceManager,
    spec: SkillSpec,
    commands: Commands,
    limits: Limits,
    *,
    tenant: str,
    say: Callable[[str], None],
) -> Inspection:
    """Runs each command once and returns the report. Raises RequestError before anything is started, EngineError."""
    folder = await to_thread.run_sync(Path(spec.dir).resolve)
    runs: list[InspectedRun] = []
    for command in commands.these:
        text = command_text(command)
        say(text)
        request = RunRequest(command, skill_name=spec.name, limits=limits, record=EVERYTHING)
        result = await manager.run(folder, request, tenant=tenant)
        runs.append(InspectedRun(text, result.outcome))
    declared, variables = await to_thread.run_sync(_told, spec)
    return inspection(spec.name, declared, runs, variables, left_out=commands.left_out)


def commands_of(spec: SkillSpec, argv: Sequence[str], command: str | None) -> Commands:
    """Returns what is to be run: what was given, else every script that is meant to be started, with `--help`.

    Raises CommandError where there is neither. Blocking: looks at the skill's files.
    """
    if command is not None:
        if argv:
            raise CommandError("give either --command or a command after --, not both")
        return Commands((Shell(command),))
    if argv:
        return Commands((Argv(tuple(argv)),))
    scripts = started_scripts(spec)
    if not scripts:
        raise CommandError(
            "the skill has no script to start", hint="name a command: sandbox-skills inspect SKILL -- COMMAND"
        )
    these = tuple(Script(str(path), ("--help",)) for path in scripts[:MAX_STARTED])
    return Commands(these, len(scripts) - len(these))


def command_text(command: Invocation) -> str:
    """Returns a command as a person would type it."""
    match command:
        case Shell(text):
            return text
        case Argv(argv):
            return shlex.join(argv)
        case Script(path, args):
            return shlex.join((path, *args))


def _told(spec: SkillSpec) -> tuple[Declared, Mapping[str, str]]:
    """Reads what a skill says of itself, and the variables that its scripts name."""
    texts = [_text(spec, Path(spec.path).name), _text(spec, "tools.json")]
    declared = Declared("\n".join(texts), spec.compatibility or "", spec.allowed_tool_tokens)
    places: dict[str, list[str]] = {}
    for path, kind in islice(scripts_of(spec).items(), MAX_SCRIPTS):
        for name in named_variables(kind, _text(spec, str(path))):
            places.setdefault(name, []).append(str(path))
    return declared, {name: ", ".join(paths[:3]) for name, paths in sorted(places.items())}


def _text(spec: SkillSpec, path: str) -> str:
    try:
        with open(open_skill_file(spec.dir, path), "rb") as file:  # noqa: PTH123  # a descriptor
            return file.read(MAX_TEXT).decode(errors="replace")
    except (RequestError, OSError):
        return ""

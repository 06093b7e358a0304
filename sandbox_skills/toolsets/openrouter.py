"""The toolset `openrouter`: `load_skill` tells what a skill says, `use_skill` runs a script of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from anyio import to_thread
from pydantic import Field

from sandbox_skills.catalog.render import render_skill_section
from sandbox_skills.catalog.text import one_line
from sandbox_skills.errors import CommandError, PathEscapeError, SettingsError, ToolCallError, Violation
from sandbox_skills.spec import KIB, SKILLS
from sandbox_skills.toolsets.arguments import Arguments, read_arguments, schema_of
from sandbox_skills.toolsets.base import Subject, Tool, ToolResult
from sandbox_skills.toolsets.bodies import body_of, repeated, repeated_note
from sandbox_skills.toolsets.openrouter_results import RESULT_SCHEMA, refusal, run_result
from sandbox_skills.toolsets.overview import MAX_CATALOG, within_budget
from sandbox_skills.toolsets.scripts import find_script
from sandbox_skills.workspace.commands import check_words
from sandbox_skills.workspace.layout import working_directory
from sandbox_skills.workspace.request import RunRequest, Script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_skills.catalog import SkillSpec
    from sandbox_skills.catalog.manifest_json import JsonObject
    from sandbox_skills.errors import SandboxSkillsError
    from sandbox_skills.toolsets.base import CallContext, Conversation, ToolCall
    from sandbox_skills.toolsets.skill_runs import SkillRuns

LOAD, USE = "load_skill", "use_skill"

MAX_ENUM = 256
"""Names that a schema lists: more would cost each request more than a wrong guess does."""

_MAX_DISPLAY = 200
"""Characters of the line that a person sees of a call."""

_PROMPT = """\
## Available Skills

You have access to skills that help you perform specific tasks. Each skill has instructions and scripts you can run.

To use a skill:
1. Call load_skill to read its instructions
2. Follow the instructions, calling use_skill to run scripts as directed"""


_OTHERS = "### More skills\nLoad one of these to read what it is for:"


class LoadArguments(Arguments):
    """What `load_skill` takes."""

    skill: str = Field(description="Name of the skill to load (folder name)")


class UseArguments(Arguments):
    """What `use_skill` takes. Null is no arguments: models that must name every parameter say so."""

    skill: str = Field(description="Name of the skill (folder name)")
    script: str = Field(description='Script filename to run (e.g. "discord.mjs")')
    args: list[str] | None = Field(
        default=None,
        description="Arguments to pass to the script as individual items "
        '(e.g. ["channels", "list"] or ["send", "Hello World", "--channel=123"])',
    )
    remember: bool = Field(
        default=False,
        description="Keep this call and its result in the conversation for later turns. "
        "Leave it out for results that are needed only now.",
    )


@dataclass(frozen=True, slots=True)
class OpenRouterOptions:
    """How scripts are run: `timeout` in seconds, `max_output` bytes of each stream, `cwd` a place in the sandbox.

    `max_catalog` characters of the prompt tell what skills are for; of the rest only names are told. Raises
    SettingsError for what cannot be.
    """

    timeout: float = 30.0  # the design's: a model waits for each call
    max_output: int = 20 * KIB  # the design's: a few thousand tokens
    cwd: str = ""
    max_catalog: int = MAX_CATALOG

    def __post_init__(self) -> None:
        if not (self.timeout > 0 and math.isfinite(self.timeout)):
            raise SettingsError(f"timeout is {self.timeout}, not a number of seconds above 0")
        if self.max_output < 1:
            raise SettingsError(f"max_output is {self.max_output}, not a number of bytes above 0")
        try:
            working_directory(self.cwd, skill=SKILLS / "skill")
        except PathEscapeError as error:
            raise SettingsError(
                f"cwd: {error.message}",
                hint="scripts see no folder of this host: name one of the skill, or $WORK_DIR or $OUTPUT_DIR",
            ) from error


class OpenRouterTools:
    """Two tools for all skills: instructions are read when they are needed, scripts run by name and arguments."""

    name = "openrouter"

    def __init__(self, runs: SkillRuns, options: OpenRouterOptions | None = None) -> None:
        self._runs = runs
        self._options = options or OpenRouterOptions()

    def tools(self, conversation: Conversation | None = None) -> tuple[Tool, ...]:
        """Returns both tools, with the names of the skills; none where there is no skill."""
        return _tools(self._runs.skills.names())

    def prompt(self, conversation: Conversation, *, query: str = "") -> str:
        """Returns the list of the skills, each with what it is for; beyond the budget those come first that fit."""
        skills = self._runs.skills.list()
        return "\n\n".join([_PROMPT, *_sections(skills, query, self._options.max_catalog)]) if skills else ""

    def subject(self, call: ToolCall, conversation: Conversation | None = None) -> Subject:
        """Returns the skill that the call names."""
        # The script counts as it is found, when it is run: `x.py` may be `scripts/x.py`.
        return Subject(call.name, skill=call.named("skill"))

    async def call(self, call: ToolCall, context: CallContext) -> ToolResult:
        """Answers a call; a script that fails is an answer. Raises as `read_arguments` and `SkillRuns` do."""
        if call.name == LOAD:
            return await self._load(read_arguments(LoadArguments, call), context)
        return await self._use(read_arguments(UseArguments, call), context)

    def refused(self, call: ToolCall, error: SandboxSkillsError) -> ToolResult:
        """Returns the design's result, whose error starts with its type."""
        content = refusal(error)
        return ToolResult(content, is_error=True, display=one_line(str(content["error"]), _MAX_DISPLAY))

    async def _load(self, arguments: LoadArguments, context: CallContext) -> ToolResult:
        spec = await self._runs.find(arguments.skill.strip())
        body = await to_thread.run_sync(body_of, spec)
        name = one_line(spec.name, _MAX_DISPLAY)
        seen, delta = repeated(context.conversation, spec.id, body)
        text = body or f"The skill {name} has no instructions beyond its description."
        return ToolResult(
            repeated_note(name) if seen else text,
            display=f"Loaded {name}",
            state_delta=delta,
            instructions=f"[Skill: {name}]\n{text}",
        )

    async def _use(self, arguments: UseArguments, context: CallContext) -> ToolResult:
        spec = await self._runs.find(arguments.skill.strip())
        args = _checked(arguments)
        root = await to_thread.run_sync(Path(spec.dir).resolve)
        script = await to_thread.run_sync(find_script, root, arguments.script)
        request = RunRequest(Script(script, args), cwd=self._options.cwd, timeout=self._options.timeout)
        result = await self._runs.run(spec, request, context, tool=USE, asked=arguments.skill)
        return ToolResult(
            run_result(result, self._options.max_output),
            is_error=not result.outcome.ok,
            display=one_line(" ".join([f"{spec.name}:", script, *args]), _MAX_DISPLAY),
            remember=arguments.remember,
        )


def _sections(skills: Sequence[SkillSpec], query: str, budget: int) -> list[str]:
    """Returns a section for each skill, or for as many as the budget has room for and one with the other names."""
    told, others = within_budget(skills, render_skill_section, query=query, budget=budget)
    return [*told, f"{_OTHERS}\n{others}"] if others else told


def _checked(arguments: UseArguments) -> tuple[str, ...]:
    """Returns the script's arguments; raises ToolCallError for what no program can be given."""
    args = tuple(arguments.args or ())
    try:
        check_words(("script", *args))
    except CommandError as error:
        raise ToolCallError(USE, [Violation("args", error.message)], hint=error.hint) from error
    return args


@lru_cache(maxsize=8)
def _tools(skills: tuple[str, ...]) -> tuple[Tool, ...]:
    """Returns the tools for skills of these names: none for none."""
    if not skills:
        return ()
    load, use = (_with_names(schema_of(model), skills) for model in (LoadArguments, UseArguments))
    return (
        Tool(
            LOAD,
            "Load the full instructions for a skill. Call this before using a skill for the first time.",
            load,
            effect="read",
        ),
        Tool(
            USE,
            "Run a script from a skill folder. The skill instructions tell you which scripts to call and with what "
            "arguments.",
            use,
            result=RESULT_SCHEMA,
        ),
    )


def _with_names(schema: JsonObject, skills: tuple[str, ...]) -> JsonObject:
    properties = schema["properties"]
    if (
        isinstance(properties, dict)
        and isinstance(skill := properties["skill"], dict)
        and len(skills) <= MAX_ENUM
    ):
        skill["enum"] = list(skills)
    return schema

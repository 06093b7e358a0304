"""`tools` and `prompt`: what a model is offered and told."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from anyio import to_thread

from sandbox_skills.cli.event_loop import run_async
from sandbox_skills.cli.offered import nothing_offered
from sandbox_skills.cli.skills import check_roots
from sandbox_skills.cli.terminal import err, out, print_json
from sandbox_skills.cli.text import aligned, harmless, harmless_line
from sandbox_skills.errors import CommandError
from sandbox_skills.spec import LOCAL_TENANT
from sandbox_skills.toolsets.base import Conversation
from sandbox_skills.toolsets.wire_formats import WIRE_FORMATS, ToolNames, definitions
from sandbox_skills.wiring.tools import opened_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sandbox_skills.cli.options import GlobalOptions
    from sandbox_skills.settings import Settings
    from sandbox_skills.toolsets.base import Tool
    from sandbox_skills.toolsets.toolbox import Toolbox
    from sandbox_skills.toolsets.wire_formats import WireFormat

T = TypeVar("T")


def tools(options: GlobalOptions, toolsets: Sequence[str], wire_format: str | None) -> int:
    """Prints the tools, one a line, or as an API takes them."""
    if wire_format is not None and wire_format not in WIRE_FORMATS:
        raise CommandError(
            f"no API's format is named {wire_format!r}", hint=f"there are {', '.join(WIRE_FORMATS)}"
        )
    settings = options.settings()
    check_roots(settings)
    offered, missing = run_async(_of_toolbox(settings, toolsets, lambda toolbox: toolbox.tools()))
    if wire_format is not None:
        names = ToolNames.of(tool.name for tool in offered)
        print_json(definitions(offered, cast("WireFormat", wire_format), names))
    elif options.as_json:
        print_json([_as_dict(tool) for tool in offered])
    elif offered:
        width = out.width if out.is_terminal else None
        for line in aligned([("NAME", "DOES", "SKILL", "DESCRIPTION"), *map(_row, offered)], width=width):
            out.print(line)
    else:
        err.print(
            harmless_line(missing or "there are no tools: those chosen come from skills, and none has one")
        )
    return 0


def prompt(options: GlobalOptions, toolsets: Sequence[str], query: str) -> int:
    """Prints the section of the system prompt that tells of the skills."""
    settings = options.settings()
    check_roots(settings)
    conversation = Conversation(secrets.token_hex(8), LOCAL_TENANT)
    text, missing = run_async(_of_toolbox(settings, toolsets, partial(_prompt, conversation, query)))
    if options.as_json:
        print_json({"prompt": text})
    elif text:
        out.print(harmless(text))
    else:
        err.print(harmless_line(missing or "there is nothing to tell: the tools' descriptions say all"))
    return 0


def _prompt(conversation: Conversation, query: str, toolbox: Toolbox) -> str:
    return toolbox.prompt(conversation, query=query)


async def _of_toolbox(
    settings: Settings, toolsets: Sequence[str], ask: Callable[[Toolbox], T]
) -> tuple[T, str]:
    """Returns the answer, and why no skill is offered where none is."""
    async with opened_tools(settings, toolsets=toolsets) as tools:
        answer = await to_thread.run_sync(ask, tools.toolbox)
        return answer, await to_thread.run_sync(nothing_offered, tools.skills)


def _as_dict(tool: Tool) -> dict[str, object]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "result": tool.result,
        "effect": tool.effect,
        "skill": tool.skill,
    }


def _row(tool: Tool) -> tuple[str, ...]:
    first = tool.description.partition("\n")[0]
    return tuple(map(harmless_line, (tool.name, tool.effect, tool.skill or "-", first)))

"""`call`: one tool, called as a model would."""

from __future__ import annotations

import json
import secrets
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer
from anyio import to_thread

from sandbox_skills.catalog.builtin_names import toolsets_with
from sandbox_skills.cli.event_loop import run_async
from sandbox_skills.cli.exits import FAILED, SANDBOX_FAILED, USAGE
from sandbox_skills.cli.kept_conversation import KeptConversation, kept_conversation
from sandbox_skills.cli.offered import nothing_offered
from sandbox_skills.cli.server.target import server_options
from sandbox_skills.cli.skills import check_roots
from sandbox_skills.cli.terminal import err, out, print_json, working
from sandbox_skills.cli.text import harmless, harmless_line
from sandbox_skills.errors import CommandError, ToolNotFoundError
from sandbox_skills.spec import LOCAL_TENANT, MIB
from sandbox_skills.toolsets.base import Conversation, ToolCall
from sandbox_skills.wiring.tools import opened_tools

if TYPE_CHECKING:
    from collections.abc import Collection

    from sandbox_skills.cli.options import GlobalOptions
    from sandbox_skills.cli.terminal import Progress
    from sandbox_skills.client import ServerOptions
    from sandbox_skills.settings import Settings
    from sandbox_skills.toolsets.base import ToolResult
    from sandbox_skills.toolsets.offered import OfferedSkills
    from sandbox_skills.toolsets.toolbox import Toolbox

MAX_ARGUMENTS = 4 * MIB
"""Characters that are read from stdin: more than any tool takes."""


Told = dict[str, object]
"""A result as `--json` prints it."""


@dataclass(frozen=True, slots=True)
class CallOptions:
    """What is called, and how: the options of the command."""

    tool: str
    arguments: str = "{}"
    session: str = ""
    toolsets: tuple[str, ...] = ()
    approve: bool = False
    server: str | None = None


def call(options: GlobalOptions, wanted: CallOptions) -> int:
    """Calls a tool and prints what a model would read; 1 where it says that it failed, else as other commands do."""
    settings = options.settings()
    there = server_options(options, settings, wanted.server)
    if there is not None:
        return _call_there(options, there, wanted)
    check_roots(settings)
    asked = ToolCall(wanted.tool, parsed_arguments(wanted.arguments), secrets.token_hex(8))
    if settings.engine == "fake" and not options.as_json:
        err.print("engine fake: nothing is run")
    with ExitStack() as stack, working("calling the tool") as progress:
        kept = (
            stack.enter_context(kept_conversation(settings.data_dir, wanted.session))
            if wanted.session
            else None
        )
        result, hint = run_async(_call(settings, wanted, asked, kept, progress))
    told = _as_dict(result)
    _print(options, told)
    if hint:
        err.print(harmless_line(f"hint: {hint}"))
    return exit_of(told)


def _call_there(options: GlobalOptions, there: ServerOptions, wanted: CallOptions) -> int:
    from sandbox_skills.cli.server.call import call_there  # noqa: PLC0415  # httpx, which few calls need

    arguments = parsed_arguments(wanted.arguments)
    with working("calling the tool") as progress:
        told = run_async(call_there(there, wanted, arguments, progress))
    _print(options, told)
    return exit_of(told)


def _print(options: GlobalOptions, told: Told) -> None:
    if options.as_json:
        print_json(told)
        return
    content = told["content"]
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=2)
    out.print(harmless(text))


async def _call(
    settings: Settings,
    wanted: CallOptions,
    asked: ToolCall,
    kept: KeptConversation | None,
    progress: Progress,
) -> tuple[ToolResult, str]:
    conversation = Conversation(wanted.session or secrets.token_hex(8), LOCAL_TENANT)
    async with opened_tools(settings, toolsets=wanted.toolsets) as tools:
        toolbox, live = tools.toolbox, tools.live
        if kept is not None:
            kept.restore(conversation, live.sessions)
        approved = wanted.approve or await to_thread.run_sync(
            _approved, toolbox, asked, conversation, progress
        )
        result = await toolbox.call(asked, conversation, approved=approved)
        if kept is not None and (fault := await kept.keep(conversation, live.sessions)):
            err.print(harmless_line(f"warning: {fault}"))
        lost = result.code == ToolNotFoundError.code
        chosen = wanted.toolsets or settings.tools.toolsets
        hint = await to_thread.run_sync(_next_step, wanted.tool, chosen, tools.skills) if lost else ""
    return result, hint


def _next_step(tool: str, chosen: Collection[str], skills: OfferedSkills) -> str:
    """Returns what to do about a tool that is not there, "" where its name is nobody's."""
    others = toolsets_with(tool)
    if others and not set(others) & set(chosen):
        return f"{tool} is a tool of another toolset: --toolset {others[0]}"
    return nothing_offered(skills)


def _approved(toolbox: Toolbox, asked: ToolCall, conversation: Conversation, progress: Progress) -> bool:
    """Asks whoever sits at the terminal, where the policy wants that; without one nobody has allowed it."""
    return bool(toolbox.approval(asked, conversation)) and confirmed(asked.name, asked.arguments, progress)


def confirmed(tool: str, arguments: object, progress: Progress) -> bool:
    """Asks whoever sits at the terminal whether a call may run; nobody has allowed it where there is none."""
    if not sys.stdin.isatty():
        return False
    progress.stop()
    return typer.confirm(harmless_line(f"allow {tool} {json.dumps(arguments)}?"), err=True)


def parsed_arguments(text: str) -> object:
    """Returns what `--args` gives, "-" what stands on stdin; raises CommandError for what is no JSON."""
    if text == "-":
        text = sys.stdin.read(MAX_ARGUMENTS)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandError(
            f"--args is not JSON: {error}",
            hint="""give an object in quotes, such as --args '{"name": "x"}'""",
        ) from error


def _as_dict(result: ToolResult) -> Told:
    return {
        "content": result.content,
        "status": result.status,
        "code": result.code,
        "is_error": result.is_error,
        "display": result.display,
        "artifacts": [artifact.ref for artifact in result.artifacts],
    }


def exit_of(told: Told) -> int:
    """Returns the exit code of a call, by what is told of it."""
    match told["status"]:
        case "rejected":
            return USAGE
        case "sandbox_error":
            return SANDBOX_FAILED
        case _:
            return FAILED if told["is_error"] else 0

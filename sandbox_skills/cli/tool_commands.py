"""The commands for models and their tools, with their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sandbox_skills.cli.options import JsonOption, ServerOption, options_of

ToolsetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--toolset", metavar="NAME", help="Tools it has: those of the settings by default; can be repeated."
    ),
]

tool_commands = typer.Typer()


@tool_commands.command()
def tools(
    context: typer.Context,
    toolset: ToolsetOption = None,
    wire_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="Print them as an API takes them: responses, chat, anthropic, gemini or mcp.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """List the tools that a model is offered."""
    from sandbox_skills.cli.tools import tools as work

    return work(options_of(context, as_json), tuple(toolset or ()), wire_format)


@tool_commands.command()
def prompt(
    context: typer.Context,
    toolset: ToolsetOption = None,
    query: Annotated[
        str, typer.Option("--query", metavar="TEXT", help="What the user says: ranks a long list of skills.")
    ] = "",
    as_json: JsonOption = False,
) -> int:
    """Print what a model is told of the skills."""
    from sandbox_skills.cli.tools import prompt as work

    return work(options_of(context, as_json), tuple(toolset or ()), query)


@tool_commands.command()
def call(
    context: typer.Context,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="A tool, as `tools` lists it.")],
    arguments: Annotated[
        str, typer.Option("--args", metavar="JSON", help="Its arguments, an object; - reads stdin.")
    ] = "{}",
    session: Annotated[
        str,
        typer.Option(
            "--session", metavar="ID", help="Go on with the files and state that calls of this name left."
        ),
    ] = "",
    toolset: ToolsetOption = None,
    approve: Annotated[
        bool, typer.Option("--approve", help="Allow the call where the policy asks a person.")
    ] = False,
    server: ServerOption = None,
    as_json: JsonOption = False,
) -> int:
    """Call one tool as a model would, and print its answer."""
    from sandbox_skills.cli.call import CallOptions
    from sandbox_skills.cli.call import call as work

    wanted = CallOptions(tool, arguments, session, tuple(toolset or ()), approve=approve, server=server)
    return work(options_of(context, as_json), wanted)


@tool_commands.command()
def chat(
    context: typer.Context,
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="[PROMPT]",
            help="What to do; without it what is piped in, or a conversation on the terminal.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="The model to ask, instead of model.name.")
    ] = None,
    instructions: Annotated[
        str, typer.Option("--instructions", metavar="TEXT", help="What the model is told beside its skills.")
    ] = "",
    toolset: ToolsetOption = None,
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="FILE", help="Keep the conversation there, and go on from it."),
    ] = None,
    out_dir: Annotated[
        Path | None, typer.Option("--out-dir", metavar="DIR", help="Where files go that calls have saved.")
    ] = None,
    approve: Annotated[
        bool, typer.Option("--approve", help="Allow every call that the policy wants a word on.")
    ] = False,
    server: ServerOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print events as JSON, one a line.")] = False,
) -> int:
    """Let a model work with your skills, once or in a conversation."""
    from sandbox_skills.cli.chat import ChatOptions
    from sandbox_skills.cli.chat import chat as work

    wanted = ChatOptions(
        prompt=prompt,
        model=model,
        instructions=instructions,
        toolsets=tuple(toolset or ()),
        state=state,
        out_dir=out_dir,
        approve=approve,
        server=server,
    )
    return work(options_of(context, as_json), wanted)


@tool_commands.command()
def mcp(
    context: typer.Context,
    toolset: ToolsetOption = None,
    http: Annotated[bool, typer.Option("--http", help="Listen for HTTP, instead of stdin.")] = False,
    host: Annotated[
        str | None, typer.Option("--host", metavar="ADDRESS", help="Instead of mcp.host.")
    ] = None,
    port: Annotated[int | None, typer.Option("--port", metavar="N", help="Instead of mcp.port.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the address as JSON, where it listens.")
    ] = False,
) -> int:
    """Offer your skills as tools to an MCP client."""
    from sandbox_skills.cli.mcp import McpOptions
    from sandbox_skills.cli.mcp import mcp as work

    wanted = McpOptions(toolsets=tuple(toolset or ()), http=http, host=host, port=port)
    return work(options_of(context, as_json), wanted)


@tool_commands.command()
def serve(
    context: typer.Context,
    host: Annotated[
        str | None, typer.Option("--host", metavar="ADDRESS", help="Instead of daemon.host.")
    ] = None,
    port: Annotated[int | None, typer.Option("--port", metavar="N", help="Instead of daemon.port.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the address, and the first key, as JSON.")
    ] = False,
) -> int:
    """Serve runs, skills and artifacts to many tenants over HTTP."""
    from sandbox_skills.cli.serve import ServeOptions
    from sandbox_skills.cli.serve import serve as work

    return work(options_of(context, as_json), ServeOptions(host=host, port=port))

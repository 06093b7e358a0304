"""`call` on a daemon: in the format that tells most of a result, told as a call of this machine is."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from sandbox_skills.cli.call import confirmed
from sandbox_skills.client import ServerAnswerError
from sandbox_skills.errors import ApprovalNeededError
from sandbox_skills.toolsets.wire_formats import META
from sandbox_skills.wiring import server_client

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.cli.call import CallOptions, Told
    from sandbox_skills.cli.terminal import Progress
    from sandbox_skills.client import ServerOptions, SkillsClient


async def call_there(
    there: ServerOptions, wanted: CallOptions, arguments: object, progress: Progress
) -> Told:
    """Calls a tool and returns what is told of the result.

    A person at the terminal is asked where the server's policy wants that.
    """
    async with server_client(there) as client:
        told = await _call(client, wanted, arguments, approved=wanted.approve)
        waits = told["code"] == ApprovalNeededError.code and not wanted.approve
        if waits and confirmed(wanted.tool, arguments, progress):
            told = await _call(client, wanted, arguments, approved=True)
        return told


async def _call(client: SkillsClient, wanted: CallOptions, arguments: object, *, approved: bool) -> Told:
    answer = await client.tools.call(
        {"name": wanted.tool, "arguments": arguments},
        toolset=wanted.toolsets or None,
        session_id=wanted.session or None,
        wire_format="mcp",
        approved=approved,
    )
    return told_of(_object(answer.get("result")))


def told_of(result: Mapping[str, object]) -> Told:
    """Returns what `call --json` prints of an MCP result; raises ServerAnswerError for one that is none. Pure."""
    meta = _object(_object(result.get("_meta")).get(META))
    content = result.get("structuredContent", _text(result.get("content")))
    if content is None or "status" not in meta:
        raise ServerAnswerError("the server's answer is no result of a call")
    return {
        "content": content,
        "status": meta["status"],
        "code": meta.get("code", ""),
        "is_error": result.get("isError") is True,
        "display": meta.get("display", ""),
        "artifacts": meta.get("artifacts", []),
    }


def _object(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _text(content: object) -> str | None:
    parts = cast("list[object]", content) if isinstance(content, list) else []
    texts = [text for part in parts if isinstance(text := _object(part).get("text"), str)]
    return "\n".join(texts) if texts else None

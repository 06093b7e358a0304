"""Tools: told to a model in its provider's words, and its calls answered in the same. Two requests make an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Response

from sandbox_skills.daemon.api.auth import Runner
from sandbox_skills.daemon.api.dependencies import TheDaemon
from sandbox_skills.daemon.api.rate_headers import rate_headers
from sandbox_skills.daemon.api.tool_values import Format, ToolCallsGiven, ToolResultsTold, Toolset, ToolsTold
from sandbox_skills.daemon.errors import BodyError

if TYPE_CHECKING:
    from sandbox_skills.toolsets.wire_formats import WireFormat

router = APIRouter(prefix="/v1", tags=["tools"])


class _All:
    """Every call, whatever its id."""

    def __contains__(self, _id: object) -> bool:
        return True


@router.get("/tools", summary="List tools")
async def tools(
    daemon: TheDaemon,
    who: Runner,
    toolset: Annotated[
        list[Toolset] | None, Query(description="Whose tools; those of the server's settings by default.")
    ] = None,
    format: Annotated[Format, Query(description="How a provider spells them.")] = "responses",  # noqa: A002  # the API's word
    session_id: Annotated[
        str | None, Query(min_length=1, max_length=256, description="With the tools that were made there.")
    ] = None,
) -> ToolsTold:
    """Returns what a model is to be told of the tenant's skills, as they are now."""
    offer = await daemon.tools.offer(
        _wire(format), toolset or (), session_id=session_id or "", tenant=who.tenant_id
    )
    return ToolsTold(format=format, tools=offer.tools, prompt=offer.prompt)


@router.post("/tool-calls", summary="Answer calls of tools")
async def tool_calls(
    given: ToolCallsGiven, daemon: TheDaemon, who: Runner, response: Response
) -> ToolResultsTold:
    """Answers calls that a model made, as its provider takes the answers back.

    Whatever goes wrong with a call is told to the model in its result; items that are no calls, such as text, are
    passed over where there are calls beside them. A request counts as a run.
    """
    response.headers.update(rate_headers(daemon.admit(who.tenant_id, who.limits)))
    answers = await daemon.tools.call(
        [given.call] if given.calls is None else given.calls,
        _wire(given.format),
        given.toolsets,
        session_id=given.session_id or "",
        approved=_All() if given.approved is True else given.approved or (),
        tenant=who.tenant_id,
    )
    if not answers.results and given.calls != []:
        raise BodyError(
            f"there is no call in the format {given.format}",
            hint="send it as the provider gave it; of OpenAI's, `chat` is Chat Completions and `responses` the other",
        )
    return ToolResultsTold(
        format=given.format,
        session_id=answers.session_id,
        result=answers.results[0] if given.call is not None else None,
        results=answers.results,
    )


def _wire(name: Format) -> WireFormat:
    return "responses" if name == "openai" else name

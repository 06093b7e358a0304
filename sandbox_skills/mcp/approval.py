"""A person's word for a call, asked through the client: by a request where it takes one, else by a second round."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mcp import types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

if TYPE_CHECKING:
    from mcp.server.session import ServerSession

    from sandbox_skills.toolsets.base import ToolCall

APPROVAL = "approval"
"""The key of the question among the inputs that a call may need."""

_MAX_SHOWN = 2_000
"""Characters of the arguments that a person is shown."""

_NOTHING: dict[str, object] = {"type": "object", "properties": {}}


async def approved(
    session: ServerSession, call: ToolCall, params: types.CallToolRequestParams
) -> bool | types.InputRequiredResult:
    """Tells whether the person at the client allows a call; a question is returned where that is how to ask.

    False where the client cannot ask anybody.
    """
    answers = params.input_responses or {}
    if (answer := answers.get(APPROVAL)) is not None:
        return isinstance(answer, types.ElicitResult) and answer.action == "accept"
    capabilities = session.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        return False
    question = _question(call)
    if session.protocol_version in MODERN_PROTOCOL_VERSIONS:
        form = types.ElicitRequestFormParams(message=question, requested_schema=_NOTHING)
        return types.InputRequiredResult(input_requests={APPROVAL: types.ElicitRequest(params=form)})
    if not session.can_send_request:
        return False
    return (await session.elicit_form(question, _NOTHING)).action == "accept"


def _question(call: ToolCall) -> str:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    shown = arguments if len(arguments) <= _MAX_SHOWN else f"{arguments[:_MAX_SHOWN]}…"
    return f"Allow the tool {call.name} to be called with {shown}?"

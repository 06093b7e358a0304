"""What is asked of models over the wire, and what is told of their conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import ConfigDict, Field

from sandbox_skills.daemon.api.tool_values import SessionId, Toolset
from sandbox_skills.daemon.api.values import Given, Told, rfc3339
from sandbox_skills.daemon.service.agents import AgentState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sandbox_skills.daemon.service.agents import AgentRun

Text = Annotated[str, Field(min_length=1, max_length=1_000_000)]
"""What a user says: about as much as the longest contexts hold four times over."""

_EXAMPLE: Any = {"input": "Make a report of sales.csv.", "toolset": "openrouter", "approvals": "ask"}


class AgentGiven(Given):
    """What a model is to do. What is left out is as the server's settings have it."""

    model_config = ConfigDict(extra="forbid", frozen=True, json_schema_extra={"examples": [_EXAMPLE]})

    input: Text
    model: str | None = Field(
        default=None, min_length=1, max_length=256, description="As its provider has it."
    )
    toolset: Toolset | list[Toolset] | None = None
    instructions: Annotated[str, Field(max_length=100_000)] = Field(
        default="", description="What it is told beside its skills."
    )
    session_id: SessionId | None = Field(
        default=None, description="Work in this session's workspace; by default in one of its own."
    )
    approvals: Literal["ask", "never"] = Field(
        default="ask", description="`never` allows every call that the policy would ask a person about."
    )

    def kept(self) -> dict[str, Any]:
        """Returns what is kept of it beside the input."""
        toolset = self.toolset
        names = [] if toolset is None else [toolset] if isinstance(toolset, str) else list(toolset)
        return {
            "model": self.model or "",
            "toolsets": names,
            "instructions": self.instructions,
            "session_id": self.session_id or "",
            "approvals": self.approvals,
        }


class DecisionGiven(Given, json_schema_extra={"examples": [{"call_id": "call_7", "decision": "approve"}]}):
    """A person's word on a call that waits."""

    call_id: str = Field(min_length=1, max_length=256)
    decision: Literal["approve", "refuse"]
    reason: Annotated[str, Field(max_length=10_000)] = Field(
        default="", description="What the model is told of a refusal."
    )


class ResumeGiven(Given, json_schema_extra={"examples": [{"input": "Now for April, too."}]}):
    """What the user says next; without it the conversation goes on where it broke off."""

    input: Text | None = None


class WaitingTold(
    Told,
    json_schema_extra={
        "examples": [
            {"id": "call_7", "name": "use_skill", "arguments": {"skill": "csv-report"}, "kind": "approval"}
        ]
    },
):
    """A call that waits for a person's word."""

    id: str
    name: str
    arguments: dict[str, Any]
    kind: str


class FaultTold(
    Told,
    json_schema_extra={
        "examples": [
            {"code": "model_unavailable", "message": "the model did not answer", "hint": "resume the run"}
        ]
    },
):
    """What ended a leg that the model did not."""

    code: str
    message: str
    hint: str = ""


class AgentTold(Told):
    """A conversation of a model with the tenant's skills."""

    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={
            "example": {
                "id": "01JDZ6V7Z3M9QHTR4W8YB2C5KD",
                "object": "agent_run",
                "state": "finished",
                "model": "anthropic/claude-sonnet-4.5",
                "session_id": None,
                "text": "The report is in out/report.pdf.",
                "stop": "completed",
                "steps": 3,
                "usage": {"input_tokens": 3012, "output_tokens": 220},
                "waiting": [],
                "artifacts": ["report.pdf@1"],
                "error": None,
                "created_at": "2026-01-31T09:30:00.000Z",
                "updated_at": "2026-01-31T09:30:20.000Z",
            }
        },
    )

    id: str
    object: Literal["agent_run"] = "agent_run"
    state: AgentState = Field(
        description="`waiting` is for words on calls; `interrupted` and `failed` go on with `resume`."
    )
    model: str = Field(description="Empty for the one of the server's settings.")
    session_id: str | None
    text: str = Field(description="The model's latest answer.")
    stop: str = Field(description="Why it ended: `completed`, a limit, `cancelled`; empty before.")
    steps: int
    usage: dict[str, Any] = Field(
        description="Of the latest leg: tokens, and US dollars where they are told."
    )
    waiting: list[WaitingTold]
    artifacts: list[str]
    error: FaultTold | None
    created_at: str
    updated_at: str


def agent_told(run: AgentRun) -> AgentTold:
    """Returns a conversation as it is told. Pure."""
    agent, result, state = run.agent, run.result, run.state
    return AgentTold(
        id=agent.id,
        state=state,
        model=agent.request["model"],
        session_id=agent.request["session_id"] or None,
        text=result.get("text", ""),
        stop="cancelled" if state == "cancelled" else result.get("stop", ""),
        steps=result.get("steps", 0),
        usage=result.get("usage", {}),
        waiting=[WaitingTold.model_validate(one) for one in result.get("waiting", ())]
        if state == "waiting"
        else [],
        artifacts=list(result.get("artifacts", ())),
        error=_fault(run.outcome),
        created_at=rfc3339(agent.created_at),
        updated_at=rfc3339(agent.updated_at),
    )


def _fault(outcome: Mapping[str, Any]) -> FaultTold | None:
    if outcome.get("type") not in {"sandbox_error", "rejected"}:
        return None
    told = {name: cast("str", outcome.get(name, "")) for name in ("code", "message", "hint")}
    return FaultTold(**told)

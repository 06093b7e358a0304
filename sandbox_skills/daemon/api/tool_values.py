"""What is asked of tools over the wire, and what is told of them; calls and results are as their provider has them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, JsonValue, model_validator

from sandbox_skills.daemon.api.values import Given, Told

MAX_CALLS = 32
"""Calls of one request: models make eight in one turn at most, unless they are stuck."""

Format = Literal["responses", "chat", "anthropic", "gemini", "mcp", "openai"]
"""How a provider spells tools; `openai` is its newer way, `responses`."""

SessionId = Annotated[str, Field(min_length=1, max_length=256)]
Toolset = Annotated[str, Field(min_length=1, max_length=64)]


class ToolsTold(Told):
    """What a model is told: tools as its API takes them, and a section for its system prompt."""

    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={
            "example": {
                "format": "anthropic",
                "tools": [{"name": "load_skill", "description": "…", "input_schema": {"type": "object"}}],
                "prompt": "You have these skills: …",
            }
        },
    )

    format: Format
    tools: list[dict[str, Any]]
    prompt: str


class ToolCallsGiven(Given):
    """Calls as a model made them: one as `call`, or several as `calls`, which are answered at the same time."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={
            "examples": [
                {
                    "format": "anthropic",
                    "session_id": "conversation-42",
                    "call": {
                        "type": "tool_use",
                        "id": "toolu_1",
                        "name": "use_skill",
                        "input": {"skill": "csv-report", "script": "scripts/report.py"},
                    },
                }
            ]
        },
    )

    format: Format = "responses"
    toolset: Toolset | list[Toolset] | None = Field(
        default=None, description="Whose tools they are; those of the server's settings by default."
    )
    session_id: SessionId | None = Field(
        default=None,
        description="Calls that name the same one share files, and what was loaded; a session's id, or any other "
        "name of yours. Without it a new one is made and told.",
    )
    call: dict[str, Any] | None = None
    calls: Annotated[list[dict[str, Any]], Field(max_length=MAX_CALLS)] | None = None
    approved: bool | list[str] = Field(
        default=False, description="Whether a person has allowed the calls, or the ids of those that one has."
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.call is None) == (self.calls is None):
            raise ValueError("give either call or calls")
        return self

    @property
    def toolsets(self) -> tuple[str, ...]:
        """The toolsets that are asked for."""
        if self.toolset is None:
            return ()
        return (self.toolset,) if isinstance(self.toolset, str) else tuple(self.toolset)


RESULT_EXAMPLE: JsonValue = {
    "type": "tool_result",
    "tool_use_id": "toolu_1",
    "content": [{"type": "text", "text": "3 rows"}],
}


class ToolResultsTold(
    Told,
    json_schema_extra={
        "examples": [
            {
                "format": "anthropic",
                "session_id": "conversation-42",
                "result": RESULT_EXAMPLE,
                "results": [RESULT_EXAMPLE],
            }
        ]
    },
):
    """What answers calls, as their provider takes it back: one for each call, in their order."""

    format: Format
    session_id: str = Field(description="What goes on with their files and what was loaded.")
    result: dict[str, Any] | None = Field(description="The answer to `call`; null for `calls`.")
    results: list[dict[str, Any]]

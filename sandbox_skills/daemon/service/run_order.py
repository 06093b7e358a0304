"""What a client asks for when it asks for a run: read once, kept as JSON, read again by whoever works on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from sandbox_skills.policy import NO_CEILINGS, RunLimits
from sandbox_skills.spec import TerminalSize
from sandbox_skills.workspace.input_refs import InputRef
from sandbox_skills.workspace.output_spec import OutputRequest, OutputSpec
from sandbox_skills.workspace.request import Argv, RunRequest, Script, Shell

if TYPE_CHECKING:
    from sandbox_skills.spec import Limits
    from sandbox_skills.workspace.request import Invocation

Text = Annotated[str, Field(max_length=131_071)]
"""As long as Linux lets one argument or variable be."""

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
SomeSeconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Size = Annotated[int, Field(gt=0)]

EXAMPLE: dict[str, JsonValue] = {
    "skill": "csv-report",
    "command": "python3 scripts/report.py",
    "output_files": ["out/**"],
}


class _Part(BaseModel):
    """Something that a client sends: a name that it does not have is a mistake, and told."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class InputGiven(
    _Part, json_schema_extra={"examples": [{"from": "artifact://sales.csv", "to": "work/sales.csv"}]}
):
    """Something to be put into the workspace before the run."""

    source: str = Field(
        alias="from", description="`artifact://name[@version]`, `workspace://path` or `skill://name/path`."
    )
    to: str = Field(default="", description="Where; `work/inputs/<its name>` by default.")
    mode: Literal["copy", "link"] = "copy"
    pin: bool = Field(default=False, description="Keep to the version of an artifact that came first.")


class LimitsGiven(_Part, json_schema_extra={"examples": [{"wall_seconds": 20}]}):
    """Limits below the usual ones; none is above what the operator allows."""

    wall_seconds: SomeSeconds | None = None
    cpu_seconds: SomeSeconds | None = None
    stdout_bytes: Size | None = None
    stderr_bytes: Size | None = None


class Terminal(_Part, json_schema_extra={"examples": [{"rows": 24, "cols": 80}]}):
    """The size of a terminal."""

    rows: Annotated[int, Field(ge=1, le=1000)] = 24
    cols: Annotated[int, Field(ge=1, le=1000)] = 80


class RunOrder(_Part):
    """One command of a skill. Exactly one of `command`, `script` and `argv` says what is run."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    skill: str = Field(min_length=1, max_length=256, description="A skill, by its name or id.")
    version: str = Field(default="latest", max_length=64, description="A version of an uploaded skill.")
    command: Text | None = Field(default=None, description="A command line for `bash -c` in the sandbox.")
    script: str | None = Field(default=None, description="A script of the skill, by its path in it.")
    args: list[Text] = Field(default_factory=list, description="The arguments of `script`.")
    argv: list[Text] | None = Field(default=None, description="A program and its arguments, as they are.")
    cwd: str = Field(default="", description="Where it runs; the skill's folder by default.")
    env: dict[str, Text] = Field(default_factory=dict)
    stdin: str | None = Field(
        default=None, description="All that it reads, or the first of it where interactive."
    )
    editor_text: str = Field(default="", description="What a program finds that starts $EDITOR.")
    timeout: Seconds = Field(default=0, description="Seconds, cut to the ceiling; 0 is the usual time.")
    inputs: list[InputGiven] = Field(default_factory=list[InputGiven])
    output_files: list[Text] = Field(default_factory=list, description="Globs of the workspace: `out/*.csv`.")
    outputs: OutputSpec | None = Field(
        default=None, description="The manifest, where `output_files` is empty."
    )
    save_as_artifacts: bool = False
    artifact_prefix: str = ""
    omit_inline_content: bool = False
    session_id: str | None = Field(
        default=None, max_length=64, description="Run in this session's workspace."
    )
    engine: str | None = Field(default=None, max_length=64, description="Refused unless the server has it.")
    limits: LimitsGiven | None = None
    interactive: bool = Field(default=False, description="Leave stdin open for the WebSocket `…/io`.")
    tty: bool | Terminal = Field(default=False, description="Give it a terminal; it is interactive then.")

    @model_validator(mode="after")
    def _one_command(self) -> Self:
        given = [one for one in (self.command, self.script, self.argv) if one is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of command, script and argv")
        if self.args and self.script is None:
            raise ValueError("args belong to script")
        return self

    def kept(self) -> dict[str, Any]:
        """Returns what is kept of it: what the client gave, and no more."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)

    @property
    def terminal(self) -> TerminalSize | None:
        """The terminal that it is given, None without one."""
        match self.tty:
            case Terminal(rows=rows, cols=cols):
                return TerminalSize(rows, cols)
            case True:
                return TerminalSize()
            case False:
                return None

    @property
    def ceilings(self) -> RunLimits:
        """The limits that it asks for, which only lower the usual ones."""
        return NO_CEILINGS if self.limits is None else RunLimits(**self.limits.model_dump())

    @property
    def talks(self) -> bool:
        """Whether its input stays open."""
        return self.interactive or self.tty is not False


def run_request(order: RunOrder, usual: Limits) -> RunRequest:
    """Returns the run that is asked for. Pure."""
    return RunRequest(
        _invocation(order),
        cwd=order.cwd,
        env=order.env,
        stdin=None if order.stdin is None else order.stdin.encode(errors="replace"),
        editor_text=order.editor_text,
        timeout=order.timeout,
        inputs=tuple(InputRef(one.source, one.to, one.mode, one.pin) for one in order.inputs),
        wanted=OutputRequest(
            output_files=order.output_files,
            outputs=order.outputs,
            save_as_artifacts=order.save_as_artifacts,
            artifact_prefix=order.artifact_prefix,
            omit_inline=order.omit_inline_content,
        ),
        limits=usual,
    )


def _invocation(order: RunOrder) -> Invocation:
    if order.command is not None:
        return Shell(order.command)
    if order.script is not None:
        return Script(order.script, tuple(order.args))
    return Argv(tuple(order.argv or ()))

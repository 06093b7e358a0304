"""What the workspace tools take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, cast

from pydantic import AliasChoices, ConfigDict, Field, model_validator

from sandbox_skills.toolsets.arguments import Arguments
from sandbox_skills.workspace.input_refs import InputRef
from sandbox_skills.workspace.output_spec import OutputSpec  # noqa: TC001  # pydantic reads annotations

if TYPE_CHECKING:
    from sandbox_skills.toolsets.workspace_tools.state import Mode

Milliseconds = Annotated[int, Field(description="Milliseconds to wait for output; 0 is the usual time")]
PollLines = Annotated[int, Field(description="Most lines to return; 0 is 40")]
Skill = Annotated[str, Field(min_length=1, description="Name of the skill")]
Command = Annotated[str, Field(min_length=1, description="Command line for bash -c")]
ProgramId = Annotated[
    str,
    Field(
        validation_alias=AliasChoices("session_id", "sessionId"),
        description="The session_id that a started program was given",
    ),
]
Variables = Annotated[dict[str, str], Field(description="Environment variables to add")]


class Given(Arguments):
    """Arguments as models send them: null is as if left out, a number stands for its text."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _without_null(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        given = cast("dict[object, object]", value)
        return {key: item for key, item in given.items() if item is not None}


class LoadArguments(Given):
    """`skill_load`."""

    skill: Skill
    docs: Annotated[
        tuple[str, ...], Field(description="Documents to load with it, as skill_list_docs names them")
    ] = ()
    include_all_docs: Annotated[bool, Field(description="Load every document with it")] = False


class SelectDocsArguments(Given):
    """`skill_select_docs`. A mode that is none is `replace`."""

    skill: Skill
    docs: Annotated[tuple[str, ...], Field(description="Documents, as skill_list_docs names them")] = ()
    include_all_docs: Annotated[bool, Field(description="Select every document")] = False
    mode: Annotated[
        str,
        Field(
            description="What becomes of the selection so far",
            json_schema_extra={"enum": ["add", "replace", "clear"]},
        ),
    ] = "replace"

    @property
    def chosen_mode(self) -> Mode:
        """The mode that is meant."""
        match self.mode.strip().lower():
            case "add" | "clear" as mode:
                return mode
            case _:
                return "replace"


class ListDocsArguments(Given):
    """`skill_list_docs`."""

    skill: Skill


class InputArguments(Given):
    """One row of `inputs`."""

    source: Annotated[
        str,
        Field(
            alias="from",
            description="artifact://name[@version], workspace://path, skill://name/path, or host:///path where allowed",
        ),
    ]
    to: Annotated[str, Field(description="Path in the workspace; default work/inputs/<its name>")] = ""
    mode: Annotated[Literal["copy", "link"], Field(description="link saves the copy where it can")] = "copy"
    pin: Annotated[bool, Field(description="Keep to the version of an artifact that came first")] = False

    def ref(self) -> InputRef:
        """Returns the reference that a run takes."""
        return InputRef(self.source, self.to, self.mode, self.pin)


class RunArguments(Given):
    """`skill_run`."""

    skill: Skill
    command: Command
    cwd: Annotated[
        str,
        Field(description="Directory, from the skill's root (the default); $WORK_DIR and the like are known"),
    ] = ""
    env: Variables = Field(default_factory=dict)
    stdin: Annotated[str, Field(description="All that the command reads as its input")] = ""
    editor_text: Annotated[
        str, Field(description="Text that $EDITOR writes into the file it is started with")
    ] = ""
    output_files: Annotated[
        tuple[str, ...],
        Field(description="Files to return: globs from the workspace's root, such as out/*.txt"),
    ] = ()
    timeout: Annotated[float, Field(description="Seconds; 0 is the usual time")] = 0
    save_as_artifacts: Annotated[bool, Field(description="Save what output_files finds as artifacts")] = False
    omit_inline_content: Annotated[bool, Field(description="Return files without their text")] = False
    artifact_prefix: Annotated[str, Field(description="Begins the names of those artifacts")] = ""
    inputs: Annotated[
        tuple[InputArguments, ...], Field(description="Files to put into the workspace first")
    ] = ()
    outputs: Annotated[
        OutputSpec | None,
        Field(
            description="Files to return or save, in place of output_files: globs, inline for their text, save for "
            "artifacts named by name_template, and limits"
        ),
    ] = None


class ExecArguments(RunArguments):
    """`skill_exec`."""

    tty: Annotated[bool, Field(description="Give the program a terminal")] = False
    yield_ms: Milliseconds = 0
    poll_lines: PollLines = 0


class WriteArguments(Given):
    """`skill_write_stdin`."""

    session_id: ProgramId
    chars: Annotated[str, Field(description="Text to type; empty only looks for output")] = ""
    submit: Annotated[bool, Field(description="Press Enter behind it")] = False
    yield_ms: Milliseconds = 0
    poll_lines: PollLines = 0


class PollArguments(Given):
    """`skill_poll_session`."""

    session_id: ProgramId
    yield_ms: Milliseconds = 0
    poll_lines: PollLines = 0


class KillArguments(Given):
    """`skill_kill_session` and `workspace_kill_session`."""

    session_id: ProgramId


class ShellArguments(Given):
    """`workspace_exec`."""

    command: Command
    cwd: Annotated[
        str,
        Field(
            description="Directory, from the workspace's root (the default): below work, out, runs or skills"
        ),
    ] = ""
    env: Variables = Field(default_factory=dict)
    stdin: Annotated[str, Field(description="What the command reads as its input")] = ""
    timeout_sec: Annotated[
        float,
        Field(
            validation_alias=AliasChoices("timeout_sec", "timeoutSec", "timeout"),
            description="Seconds; 0 is the usual time",
        ),
    ] = 0
    yield_time_ms: Annotated[
        int,
        Field(
            validation_alias=AliasChoices("yield_time_ms", "yieldTimeMs", "yieldMs", "yield_ms"),
            description="Milliseconds to wait, then let it run on and return its session_id; 0 waits for its end",
        ),
    ] = 0
    background: Annotated[bool, Field(description="Return at once and let it run on")] = False
    tty: Annotated[
        bool, Field(validation_alias=AliasChoices("tty", "pty"), description="Give the program a terminal")
    ] = False

    @property
    def interactive(self) -> bool:
        """Whether the call may return before the command has ended."""
        return self.background or self.tty or self.yield_time_ms > 0


class ShellWriteArguments(Given):
    """`workspace_write_stdin`."""

    session_id: ProgramId
    chars: Annotated[str, Field(description="Text to type; empty only looks for output")] = ""
    submit: Annotated[
        bool,
        Field(
            validation_alias=AliasChoices("append_newline", "appendNewline", "submit"),
            description="Press Enter behind it",
        ),
    ] = False
    yield_time_ms: Annotated[
        int,
        Field(
            validation_alias=AliasChoices("yield_time_ms", "yieldTimeMs", "yieldMs", "yield_ms"),
            description="Milliseconds to wait for output; 0 is the usual time",
        ),
    ] = 0


class SaveArguments(Given):
    """`workspace_save_artifact`."""

    path: Annotated[str, Field(min_length=1, description="One file below work/, out/ or runs/")]

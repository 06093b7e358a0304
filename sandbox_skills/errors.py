"""Every exception of the package.

    SandboxSkillsError                 code (stable, for machines), hint (the next step, for people)
    ├─ RequestError                    the caller's input; CLI exit 2
    │  ├─ SettingsError                a setting, a config file or an option
    │  ├─ SkillNotFoundError           no skill of that name, with near matches
    │  ├─ SkillNotLoadedError          a skill that is to be loaded before it is run
    │  ├─ SkillLoadError               SKILL.md that cannot be loaded, with every violation
    │  ├─ SkillUnsafeError             a skill folder with something that cannot be staged
    │  ├─ SkillChangedError            a pinned skill that is not what was pinned, with the files
    │  ├─ SourceError                  a source of skills that cannot be fetched or unpacked
    │  ├─ ScriptNotFoundError          a script that the skill does not have
    │  ├─ SuiteError                   a file of test cases that cannot be read, with every violation
    │  ├─ ToolCallError                arguments that a tool does not take, with every violation
    │  │  └─ ToolDefinitionError       a tool that cannot be defined as asked
    │  ├─ ToolNotFoundError            no tool of that name was defined
    │  ├─ ToolProtectedError           a skill that was not made at run time, or was changed since
    │  ├─ ProgramNotFoundError         no interactive program of that id
    │  ├─ CommandError                 an empty or malformed command
    │  ├─ InputError                   an input that does not exist or is too large
    │  ├─ OutputError                  an output that the host cannot keep
    │  ├─ ArtifactNameError            a name or reference that no artifact can have
    │  ├─ ArtifactNotFoundError        no artifact of that name and version
    │  ├─ QuotaError                   more than a tenant may keep
    │  ├─ SessionExpiredError          a session whose time is over, and whether its files are still there
    │  ├─ SessionBusyError             a session in which a run is under way
    │  ├─ SessionClosedError           a session that was closed, or cannot be opened as asked
    │  ├─ SnapshotError                a snapshot that cannot be restored
    │  ├─ GrantConflictError           a run that would share a box with another skill's secrets
    │  ├─ PolicyError                  a call that the operator's policy does not allow
    │  ├─ ApprovalNeededError          a call that waits for a person's word
    │  ├─ ConversationError            a saved conversation that cannot go on as asked
    │  ├─ PathEscapeError              a path that leaves its root
    │  └─ PatternError                 a glob that cannot be read
    ├─ ModelError                      the model, its provider or the way to it; CLI exit 4
    │  ├─ ModelUnavailableError        no answer just now; asked again within a budget
    │  │  └─ StreamTruncatedError      an answer that broke off
    │  ├─ ModelRefusedError            a request that the provider will not answer
    │  │  └─ ContextOverflowError      a conversation that is too long for the model
    │  ├─ BudgetError                  credits, a key's limit or a day's quota are used up
    │  └─ ModelAnswerError             an answer that cannot be read, or is empty where that is not allowed
    └─ EngineError                     the sandbox, not the program in it; CLI exit 125
       ├─ EngineUnavailableError       no engine answers, or it refuses us
       ├─ ImageError                   the runner image is missing, old or unfit
       ├─ GuaranteeError               the engine cannot enforce what the spec demands
       ├─ ArtifactStoreError           the artifact store is damaged, or cannot be read or written
       ├─ WorkspaceFullError           no room in the workspace for a file the host wanted to put there
       ├─ SandboxLostError             the box or its daemon went away
       │  └─ SessionLostError          a session whose box went away; its files are gone
       └─ RunnerProtocolError          the box said something outside the protocol

A program that failed is not here: that is a value, `spec.Outcome`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence


class SandboxSkillsError(Exception):
    """Base of all errors; `code` is stable, `hint` names the next step or is empty."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class RequestError(SandboxSkillsError):
    """The caller asked for something that cannot be done; nothing was started."""

    code = "request_invalid"


class SettingsError(RequestError):
    """A setting is unknown or has a value it cannot have; names the file and line where known."""

    code = "settings_invalid"


class SkillNotFoundError(RequestError):
    """No skill of that name; `near` holds similar names."""

    code = "skill_not_found"

    def __init__(self, message: str, *, hint: str = "", near: Sequence[str] = ()) -> None:
        super().__init__(message, hint=hint)
        self.near = tuple(near)


class SkillNotLoadedError(RequestError):
    """The skill is run before its instructions were loaded."""

    code = "skill_not_loaded"


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that a SKILL.md breaks; `line` and `column` count from 1, None where unknown."""

    field: str
    message: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class SkillLoadError(RequestError):
    """A SKILL.md that cannot be loaded; carries every violation, not only the first."""

    code = "skill_invalid"

    def __init__(self, path: str, violations: Sequence[Violation], *, hint: str = "") -> None:
        super().__init__("; ".join(str(v) for v in violations) or "invalid skill", hint=hint)
        self.path = path
        self.violations = tuple(violations)


class SkillUnsafeError(RequestError):
    """A skill folder holds a device, a FIFO, a link that leaves it, or too much."""

    code = "skill_unsafe"


class SkillChangedError(RequestError):
    """A pinned skill is not what was pinned; the paths that were added, changed and removed since."""

    code = "skill_changed"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        added: Sequence[str] = (),
        changed: Sequence[str] = (),
        removed: Sequence[str] = (),
    ) -> None:
        super().__init__(message, hint=hint)
        self.added = tuple(added)
        self.changed = tuple(changed)
        self.removed = tuple(removed)


class SourceError(RequestError):
    """A folder, archive, address or repository from which no skill can be taken."""

    code = "source_invalid"


class ScriptNotFoundError(RequestError):
    """The skill has no such script."""

    code = "script_not_found"


class SuiteError(RequestError):
    """A file of test cases that is none; carries every violation. Nothing of any suite was run."""

    code = "suite_invalid"

    def __init__(self, path: str, violations: Sequence[Violation], *, hint: str = "") -> None:
        super().__init__("\n".join(f"{_place(path, one)}: {one}" for one in violations), hint=hint)
        self.path = path
        self.violations = tuple(violations)


def _place(path: str, violation: Violation) -> str:
    """Returns where it is as compilers write it, so that editors and terminals lead there."""
    numbers = (violation.line, violation.column)
    return ":".join([path, *(str(number) for number in numbers if number is not None)])


class ToolCallError(RequestError):
    """A tool was called with arguments that it does not take; carries every violation, by parameter."""

    code = "tool_call_invalid"

    def __init__(self, tool: str, violations: Sequence[Violation], *, hint: str = "") -> None:
        super().__init__(f"{tool}: {'; '.join(map(str, violations))}", hint=hint)
        self.tool = tool
        self.violations = tuple(violations)


class ToolDefinitionError(ToolCallError):
    """A tool cannot be defined as asked; lines count from 1 in the code that was given."""

    code = "tool_definition_invalid"


class ToolNotFoundError(RequestError):
    """No tool of that name was defined at run time."""

    code = "tool_not_found"


class ToolProtectedError(RequestError):
    """A skill that was not made at run time, or was changed by hand since, is neither replaced nor removed."""

    code = "tool_protected"


class ProgramNotFoundError(RequestError):
    """The session has no interactive program of that id, or none any more."""

    code = "program_not_found"


class CommandError(RequestError):
    """The command is empty or cannot be an argument list."""

    code = "command_invalid"


class InputError(RequestError):
    """An input does not exist, is not a regular file, or is too large."""

    code = "input_invalid"


class OutputError(RequestError):
    """The host cannot keep an output where the caller wants it; what the program did is done."""

    code = "output_invalid"


class ArtifactNameError(RequestError):
    """The text is no name of an artifact, or no reference to one."""

    code = "artifact_name_invalid"


class ArtifactNotFoundError(RequestError):
    """The tenant has no artifact of that name, or not that version."""

    code = "artifact_not_found"


class QuotaError(RequestError):
    """It is more than the tenant may keep; nothing was kept of it."""

    code = "quota_exceeded"


class SessionExpiredError(RequestError):
    """The session was ended for its age or for being idle; `resumable` is whether its files are still there."""

    code = "session_expired"

    def __init__(self, message: str, *, hint: str = "", resumable: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.resumable = resumable


class SessionBusyError(RequestError):
    """A run is under way in the session, and it takes one at a time."""

    code = "session_busy"


class SessionClosedError(RequestError):
    """The session was closed, or there is none to open as asked."""

    code = "session_closed"


class SnapshotError(RequestError):
    """The file is no snapshot of this tenant, or holds what no snapshot may."""

    code = "snapshot_invalid"


class GrantConflictError(RequestError):
    """The run would share a box with another skill while one of them has secrets."""

    code = "grant_conflict"


class PolicyError(RequestError):
    """The operator's policy does not allow the call; nothing was started."""

    code = "policy_denied"


class ApprovalNeededError(RequestError):
    """The policy asks for a person's word before this call, and there was none; nothing was started."""

    code = "approval_needed"


class ConversationError(RequestError):
    """A saved conversation cannot be read, or not go on as asked; it is left as it was."""

    code = "conversation_invalid"


class PathEscapeError(RequestError):
    """A path is absolute where it may not be, or leaves its root."""

    code = "path_escape"


class PatternError(RequestError):
    """A glob pattern cannot be read."""

    code = "pattern_invalid"


class ModelError(SandboxSkillsError):
    """The model, its provider or the way to it failed.

    `status` is the HTTP status, None where there was no answer. `retryable` is whether the same request may succeed
    later, `retry_after` the seconds that the provider asks for. `provider` is what it said itself, cut short.
    """

    code = "model_error"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        provider: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after
        self.provider = provider


class ModelUnavailableError(ModelError):
    """No answer just now: a limit, an overload, a fault of the server, or no way to it."""

    code = "model_unavailable"


class StreamTruncatedError(ModelUnavailableError):
    """The answer broke off; what came of it was dropped, and no call of it was run."""

    code = "model_stream_truncated"


class ModelRefusedError(ModelError):
    """The provider will not answer this request, however often it is asked."""

    code = "model_refused"


class ContextOverflowError(ModelRefusedError):
    """The conversation is too long for the model, output included."""

    code = "model_context_overflow"


class BudgetError(ModelError):
    """Credits, the key's limit or the day's quota are used up."""

    code = "model_budget_exceeded"


class ModelAnswerError(ModelError):
    """The answer cannot be read, or is empty where that is not allowed."""

    code = "model_answer_invalid"


class EngineError(SandboxSkillsError):
    """The sandbox failed, as opposed to the program in it."""

    code = "engine_error"


class EngineUnavailableError(EngineError):
    """No engine answers, or it does not let us in; the hint is the fix."""

    code = "engine_unavailable"


class ImageError(EngineError):
    """The runner image is missing, was built by another version, or is unfit; says why."""

    code = "image_unfit"


class GuaranteeError(EngineError):
    """The engine cannot enforce guarantees that the spec demands; nothing was run."""

    code = "guarantee_missing"

    def __init__(self, message: str, *, hint: str = "", lost: Sequence[str] = ()) -> None:
        super().__init__(message, hint=hint)
        self.lost = tuple(lost)


class ArtifactStoreError(EngineError):
    """The artifact store is damaged, busy, or cannot be read or written; says where and why."""

    code = "artifact_store_unusable"


class WorkspaceFullError(EngineError):
    """The workspace has no bytes or inodes left for a file that the host puts there."""

    code = "workspace_full"


class SandboxLostError(EngineError):
    """The box, its daemon or the way to it is gone; what the program did by then is unknown."""

    code = "sandbox_lost"


class SessionLostError(SandboxLostError):
    """The session's box is gone and its files with it; a snapshot can go on in a new one."""

    code = "session_lost"


class RunnerProtocolError(EngineError):
    """The box broke the protocol and was killed."""

    code = "runner_protocol"

"""The caller asked for something that cannot be done; CLI exit 2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.errors.base import SandboxSkillsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_skills.errors.base import Violation


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

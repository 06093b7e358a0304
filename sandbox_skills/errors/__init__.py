"""Every exception of the package; those of the daemon's client alone are in `client/errors.py`, below these.

    SandboxSkillsError                 code (stable, for machines), hint (the next step, for people)
    ├─ RequestError                    the caller's input, request.py; CLI exit 2
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
    ├─ ModelError                      the model, its provider or the way to it, model.py; CLI exit 4
    │  ├─ ModelUnavailableError        no answer just now; asked again within a budget
    │  │  └─ StreamTruncatedError      an answer that broke off
    │  ├─ ModelRefusedError            a request that the provider will not answer
    │  │  └─ ContextOverflowError      a conversation that is too long for the model
    │  ├─ BudgetError                  credits, a key's limit or a day's quota are used up
    │  └─ ModelAnswerError             an answer that cannot be read, or is empty where that is not allowed
    └─ EngineError                     the sandbox, not the program in it, engine.py; CLI exit 125
       ├─ EngineUnavailableError       no engine answers, or it refuses us
       ├─ ImageError                   the runner image is missing, old or unfit
       ├─ GuaranteeError               the engine cannot enforce what the spec demands
       ├─ RecorderError                runs of this sandbox cannot be recorded
       ├─ ArtifactStoreError           the artifact store is damaged, or cannot be read or written
       ├─ WorkspaceFullError           no room in the workspace for a file the host wanted to put there
       ├─ SandboxLostError             the box or its daemon went away
       │  └─ SessionLostError          a session whose box went away; its files are gone
       └─ RunnerProtocolError          the box said something outside the protocol

A program that failed is not here: that is a value, `spec.Outcome`.
"""

from __future__ import annotations

from sandbox_skills.errors.base import (
    SandboxSkillsError,
    Violation,
)
from sandbox_skills.errors.engine import (
    ArtifactStoreError,
    EngineError,
    EngineUnavailableError,
    GuaranteeError,
    ImageError,
    RecorderError,
    RunnerProtocolError,
    SandboxLostError,
    SessionLostError,
    WorkspaceFullError,
)
from sandbox_skills.errors.model import (
    BudgetError,
    ContextOverflowError,
    ModelAnswerError,
    ModelError,
    ModelRefusedError,
    ModelUnavailableError,
    StreamTruncatedError,
)
from sandbox_skills.errors.request import (
    ApprovalNeededError,
    ArtifactNameError,
    ArtifactNotFoundError,
    CommandError,
    ConversationError,
    GrantConflictError,
    InputError,
    OutputError,
    PathEscapeError,
    PatternError,
    PolicyError,
    ProgramNotFoundError,
    QuotaError,
    RequestError,
    ScriptNotFoundError,
    SessionBusyError,
    SessionClosedError,
    SessionExpiredError,
    SettingsError,
    SkillChangedError,
    SkillLoadError,
    SkillNotFoundError,
    SkillNotLoadedError,
    SkillUnsafeError,
    SnapshotError,
    SourceError,
    SuiteError,
    ToolCallError,
    ToolDefinitionError,
    ToolNotFoundError,
    ToolProtectedError,
)

__all__ = [
    "ApprovalNeededError",
    "ArtifactNameError",
    "ArtifactNotFoundError",
    "ArtifactStoreError",
    "BudgetError",
    "CommandError",
    "ContextOverflowError",
    "ConversationError",
    "EngineError",
    "EngineUnavailableError",
    "GrantConflictError",
    "GuaranteeError",
    "ImageError",
    "InputError",
    "ModelAnswerError",
    "ModelError",
    "ModelRefusedError",
    "ModelUnavailableError",
    "OutputError",
    "PathEscapeError",
    "PatternError",
    "PolicyError",
    "ProgramNotFoundError",
    "QuotaError",
    "RecorderError",
    "RequestError",
    "RunnerProtocolError",
    "SandboxLostError",
    "SandboxSkillsError",
    "ScriptNotFoundError",
    "SessionBusyError",
    "SessionClosedError",
    "SessionExpiredError",
    "SessionLostError",
    "SettingsError",
    "SkillChangedError",
    "SkillLoadError",
    "SkillNotFoundError",
    "SkillNotLoadedError",
    "SkillUnsafeError",
    "SnapshotError",
    "SourceError",
    "StreamTruncatedError",
    "SuiteError",
    "ToolCallError",
    "ToolDefinitionError",
    "ToolNotFoundError",
    "ToolProtectedError",
    "Violation",
    "WorkspaceFullError",
]

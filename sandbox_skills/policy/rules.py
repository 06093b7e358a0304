"""The operator's word, as its file has it. Deny wins; a skill's own words grant nothing."""

from __future__ import annotations

from dataclasses import asdict, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from sandbox_skills.checked.value import Checked
from sandbox_skills.policy.programs import LAUNCHERS, base_name, named

if TYPE_CHECKING:
    from sandbox_skills.policy.kinds import AllowedPrograms, Digest, Programs, Seconds, Size, VariableName

Approval = Literal["always", "first_use", "never"]
"""Whether a person is asked: before every call, before the first of a conversation, or not."""

Globs = tuple[str, ...]
"""Patterns in which `*` stands for any text; a word without one stands for itself."""


class _Part(Checked):
    """Of a policy."""

    KINDS = "sandbox_skills.policy.kinds"


class Allowed(_Part):
    """What of one kind may be used. None allows all of it; what `deny` names is refused even so."""

    allow: Globs | None = None
    deny: Globs = ()

    @property
    def limits(self) -> bool:
        """Whether there is anything that it does not admit."""
        return self.allow is not None or bool(self.deny)

    def admits(self, text: str) -> bool:
        """Tells whether this may be used."""
        if any(fnmatchcase(text, pattern) for pattern in self.deny):
            return False
        return self.allow is None or any(fnmatchcase(text, pattern) for pattern in self.allow)


class Commands(_Part):
    """Which programs the command lines of a skill may start; no patterns.

    `allow` is exact: `wc` is not `./wc`, and a path is meant from where the command runs. None allows every program
    but launchers, which no list can allow. `deny` names programs wherever they lie and however they are spelled.
    """

    allow: AllowedPrograms = None
    deny: Programs = ()

    def admits(self, program: str) -> bool:
        """Tells whether a command line may start this program."""
        if base_name(program) in LAUNCHERS or base_name(program) in map(base_name, self.deny):
            return False
        return self.allow is None or any(named(program) == named(entry) for entry in self.allow)


class RunLimits(_Part):
    """Ceilings of a run that are lower than the settings' own, in seconds and bytes; None leaves those."""

    wall_seconds: Seconds | None = None
    cpu_seconds: Seconds | None = None
    stdout_bytes: Size | None = None
    stderr_bytes: Size | None = None


NO_CEILINGS = RunLimits()
"""Of whom nobody says anything."""


def lowest(*ceilings: RunLimits) -> RunLimits:
    """Returns for each limit the lowest of those that are given. Pure."""
    known: dict[str, float] = {}
    for one in ceilings:
        if one is not NO_CEILINGS:
            given = {name: value for name, value in asdict(one).items() if value is not None}
            known |= {name: min(value, known.get(name, value)) for name, value in given.items()}
    return RunLimits.of(known) if known else NO_CEILINGS


class SkillRule(_Part):
    """What one skill may do.

    `scripts` are paths in the skill. `commands` None allows every command line where `scripts` limits nothing, and
    none where it does: a shell would run any script. `env` are variables with their values, `secrets` names of what
    the operator keeps. `digest` is the only content that the rule holds for, "" for any.
    """

    allow: bool = True
    digest: Digest = ""
    scripts: Allowed = Allowed()
    commands: Commands | None = None
    env: dict[VariableName, str] = field(default_factory=dict[str, str])
    secrets: tuple[VariableName, ...] = ()
    limits: RunLimits = RunLimits()
    network: Literal["none"] = "none"
    needs_approval: Approval = "never"


class ToolRule(_Part):
    """Whether one tool may be called, and whether a person is asked first."""

    allow: bool = True
    needs_approval: Approval = "never"


class TenantPolicy(_Part):
    """What is different for one tenant; None leaves the default of all."""

    default: SkillRule | None = None
    skills: dict[str, SkillRule] = field(default_factory=dict[str, SkillRule])
    tools: dict[str, ToolRule] = field(default_factory=dict[str, ToolRule])


class Policy(_Part):
    """The operator's word. `skills` and `tools` are by name, `tenants` by their own.

    One rule of a skill counts, whole: the tenant's for it, the tenant's default, the skill's, the default. But what
    the rules for the skill's name deny stays denied, whoever's they are.
    """

    default: SkillRule = SkillRule()
    skills: dict[str, SkillRule] = field(default_factory=dict[str, SkillRule])
    tools: dict[str, ToolRule] = field(default_factory=dict[str, ToolRule])
    tenants: dict[str, TenantPolicy] = field(default_factory=dict[str, TenantPolicy])

    def rule_of(self, skill: str, *, tenant: str) -> SkillRule:
        """Returns the rule of a skill."""
        own = self.tenants.get(tenant)
        mine = [] if own is None else [own.skills.get(skill), own.default]
        found = (rule for rule in (*mine, self.skills.get(skill)) if rule is not None)
        return next(found, self.default)

    def named_rules(self, skill: str, *, tenant: str) -> tuple[SkillRule, ...]:
        """Returns the rules that name the skill, whose denials hold even where another rule counts."""
        own = self.tenants.get(tenant)
        found = (self.skills.get(skill), None if own is None else own.skills.get(skill))
        return tuple(rule for rule in found if rule is not None)

    def tool_rules(self, tool: str, *, tenant: str) -> tuple[ToolRule, ...]:
        """Returns the rules of a tool: each of them holds."""
        own = self.tenants.get(tenant)
        found = (self.tools.get(tool), None if own is None else own.tools.get(tool))
        return tuple(rule for rule in found if rule is not None)

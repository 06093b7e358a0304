"""The operator's word, as its file has it. Deny wins; a skill's own words grant nothing."""

from fnmatch import fnmatchcase
from functools import cache
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ByteSize, ConfigDict, Field, TypeAdapter

from sandbox_skills.policy.programs import LAUNCHERS, base_name, named

Approval = Literal["always", "first_use", "never"]
"""Whether a person is asked: before every call, before the first of a conversation, or not."""

Globs = tuple[str, ...]
"""Patterns in which `*` stands for any text; a word without one stands for itself."""

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@cache
def _byte_size() -> TypeAdapter[ByteSize]:
    return TypeAdapter(ByteSize)


def _bytes(value: object) -> int:
    return _byte_size().validate_python(value)


Size = Annotated[int, BeforeValidator(_bytes), Field(gt=0)]
"""Bytes, as a number or as text such as `64KiB`."""


VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=256)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


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


def _no_launchers(programs: tuple[str, ...] | None) -> tuple[str, ...] | None:
    launchers = sorted(name for name in programs or () if base_name(name) in LAUNCHERS)
    if launchers:
        raise ValueError(
            f"{', '.join(launchers)} would run whatever a command line says: it is never allowed"
        )
    return programs


Programs = tuple[Annotated[str, Field(min_length=1)], ...]


class Commands(_Part):
    """Which programs the command lines of a skill may start; no patterns.

    `allow` is exact: `wc` is not `./wc`, and a path is meant from where the command runs. None allows every program
    but launchers, which no list can allow. `deny` names programs wherever they lie and however they are spelled.
    """

    allow: Annotated[Programs | None, AfterValidator(_no_launchers)] = None
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


NO_CEILINGS = RunLimits.model_construct()
"""Of whom nobody says anything."""


def lowest(*ceilings: RunLimits) -> RunLimits:
    """Returns for each limit the lowest of those that are given. Pure."""
    known: dict[str, float] = {}
    for one in ceilings:
        if one is not NO_CEILINGS:
            given = {name: value for name, value in vars(one).items() if value is not None}
            known |= {name: min(value, known.get(name, value)) for name, value in given.items()}
    return RunLimits.model_validate(known) if known else NO_CEILINGS


class SkillRule(_Part):
    """What one skill may do.

    `scripts` are paths in the skill. `commands` None allows every command line where `scripts` limits nothing, and
    none where it does: a shell would run any script. `env` are variables with their values, `secrets` names of what
    the operator keeps. `digest` is the only content that the rule holds for, "" for any.
    """

    allow: bool = True
    digest: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""
    scripts: Allowed = Allowed.model_construct()
    commands: Commands | None = None
    env: dict[VariableName, str] = Field(default_factory=dict)
    secrets: tuple[VariableName, ...] = ()
    limits: RunLimits = RunLimits.model_construct()
    network: Literal["none"] = "none"
    needs_approval: Approval = "never"


class ToolRule(_Part):
    """Whether one tool may be called, and whether a person is asked first."""

    allow: bool = True
    needs_approval: Approval = "never"


class TenantPolicy(_Part):
    """What is different for one tenant; None leaves the default of all."""

    default: SkillRule | None = None
    skills: dict[str, SkillRule] = Field(default_factory=dict)
    tools: dict[str, ToolRule] = Field(default_factory=dict)


class Policy(_Part):
    """The operator's word. `skills` and `tools` are by name, `tenants` by their own.

    One rule of a skill counts, whole: the tenant's for it, the tenant's default, the skill's, the default. But what
    the rules for the skill's name deny stays denied, whoever's they are.
    """

    default: SkillRule = SkillRule.model_construct()
    skills: dict[str, SkillRule] = Field(default_factory=dict)
    tools: dict[str, ToolRule] = Field(default_factory=dict)
    tenants: dict[str, TenantPolicy] = Field(default_factory=dict)

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

"""The one place that decides: a call and the policy → whether, and with what. Pure."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from sandbox_skills.policy.command_line import UnclearCommandError, segments_of
from sandbox_skills.policy.rules import Allowed, Approval, Commands, Policy, RunLimits, SkillRule

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

_MAX_NAMED = 20
"""Programs that a refusal names: what a model can try instead."""

_MAX_SHOWN = 80
"""Characters of a stranger's word that a refusal repeats."""

_STEERING = frozenset(
    {
        *(
            "CDPATH",
            "ENV",
            "GCONV_PATH",
            "GLOBIGNORE",
            "HOME",
            "IFS",
            "PATH",
            "POSIXLY_CORRECT",
            "PROMPT_COMMAND",
        ),
        *("PS4", "SHELL", "SHELLOPTS", "VIRTUAL_ENV", "EDITOR", "VISUAL", "PAGER"),
    }
)
"""Variables that change what bash makes of a line, or which file a program's name means."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Of what is a variable to a shell; under other names functions are handed on."""

_STEERING_PREFIXES = (
    *("BASH", "LANG", "LC_", "LD_", "DYLD_"),
    *("AWK", "GIT_", "JAVA", "JDK_", "_JAVA", "LUA", "NODE_", "PERL", "PHP", "PYTHON", "RUBY", "TAR_"),
)
"""Of the shell and its functions, of what counts as a blank, of the loader, and of interpreters that load code."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a caller wants it run: the names of variables to set, another directory, a copy that can be written."""

    env: Collection[str] = ()
    cwd: str = ""
    writable: bool = False


AS_USUAL = Manner()


@dataclass(frozen=True, slots=True)
class Decision:
    """What the policy says of one call. `reason` is why it is refused; the rest is what an allowed one gets.

    `digest` is the only content of the skill that may run, "" for any. `judged` is whether its command line was held
    against a list: then nothing may steer which file a program's name means.
    """

    allowed: bool = True
    reason: str = ""
    approval: Approval = "never"
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    secrets: tuple[str, ...] = ()
    limits: RunLimits = field(default_factory=RunLimits)
    digest: str = ""
    judged: bool = False


_STRICTEST_FIRST: tuple[Approval, ...] = ("always", "first_use", "never")


def decide(
    policy: Policy,
    *,
    tenant: str,
    tool: str = "",
    skill: str = "",
    script: str = "",
    command: str = "",
    manner: Manner = AS_USUAL,
) -> Decision:
    """Returns what the policy says of a call. Parts that the call does not have are empty, and not judged.

    `script` is a path in the skill, `command` a command line for bash. One that runs without a skill is judged by the
    default, and granted nothing.
    """
    tool_rules = policy.tool_rules(tool, tenant=tenant)
    if not all(one.allow for one in tool_rules):
        return _refused(f"the policy does not allow the tool {tool[:_MAX_SHOWN]}")
    rule = _rule(policy, skill, tenant=tenant) if skill or command else SkillRule()
    named = f"the skill {skill[:_MAX_SHOWN]}" if skill else "no skill"
    if reason := _refusal(rule, named, script=script, command=command, manner=manner):
        return _refused(reason)
    return Decision(
        approval=_strictest([rule.needs_approval, *(one.needs_approval for one in tool_rules)]),
        env=rule.env if skill else {},
        secrets=rule.secrets if skill else (),
        limits=rule.limits,
        digest=rule.digest if skill else "",
        judged=bool(command) and rule.commands is not None,
    )


def secrets_of(policy: Policy) -> frozenset[str]:
    """Returns the names of every secret that the policy grants anybody."""
    tenants = policy.tenants.values()
    defaults = (tenant.default for tenant in tenants if tenant.default is not None)
    named = chain(policy.skills.values(), *(tenant.skills.values() for tenant in tenants))
    return frozenset(name for rule in (policy.default, *defaults, *named) for name in rule.secrets)


def _refused(reason: str) -> Decision:
    return Decision(allowed=False, reason=reason)


def _strictest(approvals: Iterable[Approval]) -> Approval:
    return min(approvals, key=_STRICTEST_FIRST.index)


def _rule(policy: Policy, skill: str, *, tenant: str) -> SkillRule:
    """Returns the rule that counts, with what other rules for the skill's name deny."""
    rule = policy.rule_of(skill, tenant=tenant)
    for other in policy.named_rules(skill, tenant=tenant):
        if other is not rule:
            rule = _denying_too(rule, other)
    return rule


def _denying_too(rule: SkillRule, other: SkillRule) -> SkillRule:
    scripts = Allowed(allow=rule.scripts.allow, deny=(*rule.scripts.deny, *other.scripts.deny))
    commands = rule.commands
    if other.commands is not None and other.commands.deny and not (commands is None and scripts.limits):
        own = commands or Commands()
        commands = Commands(allow=own.allow, deny=(*own.deny, *other.commands.deny))
    return rule.replaced(allow=rule.allow and other.allow, scripts=scripts, commands=commands)


def _refusal(rule: SkillRule, skill: str, *, script: str, command: str, manner: Manner) -> str:
    if not rule.allow:
        return f"the policy does not allow {skill}" if skill != "no skill" else _OUTSIDE
    if script and not _admits_script(rule.scripts, script):
        those = _those(rule.scripts.allow)
        return f"the policy does not allow the script {script[:_MAX_SHOWN]!r} of {skill}{those}"
    if command and (reason := _command_refusal(rule, skill, command, manner)):
        return reason
    limited = (script and rule.scripts.limits) or (command and rule.commands is not None)
    return _manner_refusal(manner) if limited else ""


_OUTSIDE = "the policy does not allow commands outside a skill"


def _admits_script(scripts: Allowed, path: str) -> bool:
    """Judges the path that is run, whatever detours it was given with."""
    return not scripts.limits or scripts.admits(posixpath.normpath(path))


def _command_refusal(rule: SkillRule, skill: str, command: str, manner: Manner) -> str:
    commands = rule.commands
    if commands is None:
        return f"the policy allows scripts of {skill}, and no commands" if rule.scripts.limits else ""
    try:
        segments = segments_of(command)
    except UnclearCommandError as error:
        return f"the policy allows only commands that can be judged: {error}"
    for program, *_ in segments:
        if not commands.admits(program):
            return f"the policy does not allow the program {program[:_MAX_SHOWN]!r}{_those(commands.allow)}"
        if commands.allow is not None and manner.cwd and "/" in program and not program.startswith("/"):
            return f"the path {program[:_MAX_SHOWN]!r} is allowed from the usual directory: leave cwd out"
    return ""


def _manner_refusal(manner: Manner) -> str:
    if manner.writable:
        return "the policy names what may run, so it may not be a copy that can be changed"
    steering = sorted(filter(_steers, manner.env))
    return f"the policy does not let a call set {', '.join(steering)[:_MAX_SHOWN]}" if steering else ""


def _those(allowed: tuple[str, ...] | None) -> str:
    return f"; allowed are {', '.join(allowed[:_MAX_NAMED])}" if allowed else ""


def _steers(name: str) -> bool:
    return name in _STEERING or name.startswith(_STEERING_PREFIXES) or not _PLAIN_NAME.fullmatch(name)

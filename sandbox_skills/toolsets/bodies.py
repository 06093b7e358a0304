"""The instructions of a skill as a model reads them: placeholders become the box's paths and the arguments. Pure."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from sandbox_skills.workspace.layout import SKILLS_DIR, skill_link

if TYPE_CHECKING:
    from sandbox_skills.catalog import SkillSpec
    from sandbox_skills.toolsets.base import Conversation

SHOWN = "temp:skill:shown_by_agent:"
"""Prefix of the state keys of what instructions a conversation has seen; the value is a digest of their text."""

_NAME = r"[\w][\w.-]*"
_PLACEHOLDER = re.compile(
    r"(?P<arguments>\$\{ARGUMENTS\}|\$ARGUMENTS\b)"
    r"|(?P<base>\$?\{baseDir\}|\$\{CLAUDE_(?:SKILL_DIR|PLUGIN_ROOT)\}|\$CLAUDE_(?:SKILL_DIR|PLUGIN_ROOT)\b)"
    rf"|(?P<home>(?:~|\$HOME|\$\{{HOME\}})/\.(?:claude|agents)/skills(?:/(?P<skill>{_NAME}))?)"
)
"""What bodies in the wild hold: `$ARGUMENTS` 3.3 % of them, `~/.claude/skills` 1.5 %, `{baseDir}` up to 5.8 %."""


def skill_directory(spec: SkillSpec) -> str:
    """Returns where a skill lies in the box of a conversation that runs it."""
    return str(skill_link(spec.name))


def rendered_body(body: str, directory: str, *, name: str, arguments: str = "") -> str:
    """Returns instructions with each placeholder replaced once; what is put in is not looked at again.

    A path below the skills of a home directory becomes that skill's in the box: `directory` for the skill itself.
    """

    def replacement(match: re.Match[str]) -> str:
        if match["arguments"]:
            return arguments
        if match["base"]:
            return directory
        if match["skill"] is None:
            return str(SKILLS_DIR)
        return directory if match["skill"] == name else str(skill_link(match["skill"]))

    return _PLACEHOLDER.sub(replacement, body)


def body_of(spec: SkillSpec, *, arguments: str = "") -> str:
    """Returns a skill's instructions as a model reads them; raises SkillLoadError where the file has gone. Blocking."""
    return rendered_body(spec.body.strip(), skill_directory(spec), name=spec.id, arguments=arguments)


def repeated(conversation: Conversation, name: str, text: str) -> tuple[bool, dict[str, str]]:
    """Tells whether the conversation has just seen this text, and what that changes of its state.

    A note answers a repeated load. The load after that gets the text again: whoever asks three times has lost it.
    """
    key = f"{SHOWN}{conversation.agent}/{name}"
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
    if conversation.state.get(key) == digest:
        return True, {key: ""}
    return False, {key: digest}


def repeated_note(name: str) -> str:
    """Returns what answers a load of instructions that are still in view."""
    return f"The instructions of {name} are unchanged and stand above. Load it again only if you cannot see them."

"""Programs to talk to, over many calls: started, written to, polled for new lines, killed."""

from sandbox_skills.workspace.interactive.escapes import plain
from sandbox_skills.workspace.interactive.lines import LineBuffer, Lines
from sandbox_skills.workspace.interactive.program import InteractiveProgram, Poll
from sandbox_skills.workspace.interactive.prompts import Interaction, detect
from sandbox_skills.workspace.interactive.registry import InteractivePrograms

__all__ = [
    "Interaction",
    "InteractiveProgram",
    "InteractivePrograms",
    "LineBuffer",
    "Lines",
    "Poll",
    "detect",
    "plain",
]

"""What `chat` asks the user on the terminal: his next words, and whether a call may run."""

from __future__ import annotations

import json
import sys
from functools import cached_property
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.output import create_output

from sandbox_skills.cli.text import harmless_line

if TYPE_CHECKING:
    from sandbox_skills.controller.result import WaitingCall

MAX_SHOWN = 2000
"""Characters of a call that is to be approved: what a person reads before he says yes."""


def stdin_is_terminal() -> bool:
    """Tells whether somebody can type; stdin may be closed, too."""
    return sys.stdin is not None and sys.stdin.isatty()


class TerminalQuestions:
    """Asks on the terminal. Nothing is asked where input or stderr is none."""

    @property
    def can_ask(self) -> bool:
        return stdin_is_terminal() and sys.stderr.isatty()

    async def next_words(self) -> str | None:
        """Returns what the user says next; None when he ends the conversation with ^D or ^C."""
        while True:
            try:
                text = (await self._session.prompt_async("> ")).strip()
            except (EOFError, KeyboardInterrupt):
                return None
            if text in {"/exit", "/quit"}:
                return None
            if text:
                return text

    async def allows(self, call: WaitingCall) -> bool:
        """Returns whether a call may run; anything but yes is no."""
        shown = json.dumps(call.arguments, ensure_ascii=False)
        if len(shown) > MAX_SHOWN:
            shown = f"{shown[:MAX_SHOWN]}… ({len(shown)} characters)"
        question = harmless_line(f"{call.name} {shown}")
        try:
            answer = await self._session.prompt_async(f"allow {question}? [y/N] ")
        except (EOFError, KeyboardInterrupt):
            return False
        return answer.strip().lower() in {"y", "yes"}

    @cached_property
    def _session(self) -> PromptSession[str]:
        # Answers go to stdout, which may be a file.
        return PromptSession(output=create_output(stdout=sys.stderr))

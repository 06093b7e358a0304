"""What `chat` shows of a run: the answer on stdout, everything else on stderr; or every event as a line of JSON."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Protocol

from rich.text import Text

from sandbox_skills.cli.streams import OutputClosedError
from sandbox_skills.cli.terminal import err
from sandbox_skills.cli.text import counted, harmless, harmless_json, harmless_line
from sandbox_skills.controller.events import (
    TextDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnRestarted,
)

if TYPE_CHECKING:
    from sandbox_skills.controller.turn import Usage

MAX_NAME = 64
"""Characters of a tool's name: as many as one may have."""

MAX_ARGUMENTS = 160
"""Characters of a call's arguments: two lines of a terminal."""

MAX_LINE = 400
"""Characters of one line of a call's output; the model has all of it."""


class Told(Protocol):
    """An event of a run: one of the controller's, or as a daemon tells it."""

    def as_dict(self) -> dict[str, object]:
        """Returns the event for JSON."""
        ...


class Ended(Protocol):
    """What a view needs of a run that is over, wherever it ran."""

    @property
    def stop(self) -> str:
        """Why it ended, as `RunResult` has it."""
        ...

    @property
    def steps(self) -> int:
        """Answers of the model."""
        ...

    @property
    def usage(self) -> Usage:
        """What it cost."""
        ...


class View(Protocol):
    """Shows a run."""

    def show(self, event: Told) -> None:
        """Shows one event."""
        ...

    def end(self, result: Ended) -> None:
        """Shows what the run came to."""
        ...


class JsonView:
    """Events as JSON lines on stdout."""

    def show(self, event: Told) -> None:
        """Prints the event."""
        _write(harmless_json(json.dumps(event.as_dict(), ensure_ascii=False)) + "\n")

    def end(self, result: Ended) -> None:
        """Prints nothing: the last event has it all."""


class TextView:
    """The answer as it comes, and calls as they go on, each with its output behind a bar."""

    def __init__(self) -> None:
        self._in_line = False
        self._unfinished: dict[str, str] = {}

    def show(self, event: Told) -> None:
        """Shows what of the event people want to see."""
        match event:
            case TextDelta(text):
                _write(harmless(text))
                self._in_line = not text.endswith("\n")
            case TurnRestarted(reason):
                self._note(f"the answer broke off ({reason}); once more:")
            case ToolStarted(call_id, name, arguments):
                shown = json.dumps(arguments, ensure_ascii=False)
                self._note(f"┌ {_cut(name, MAX_NAME)} {_cut(shown, MAX_ARGUMENTS)}")
                self._unfinished[call_id] = ""
            case ToolOutput(call_id, _, text):
                self._output(call_id, text)
            case ToolFinished():
                self._finished(event)
            case _:
                return

    def end(self, result: Ended) -> None:
        """Says why the run ended, where the model did not end it, and what it cost."""
        self._break()
        if result.stop not in {"completed", "cancelled"}:
            err.print(harmless_line(f"stopped: {result.stop}"))
        if result.stop == "cancelled":
            err.print("cancelled")
        usage = result.usage
        figures = (
            f"{counted(result.steps, 'turn')}, {usage.input_tokens} tokens in, {usage.output_tokens} out"
        )
        err.print(Text(figures + (f", ${usage.cost:.4f}" if usage.cost else ""), style="dim"))

    def _output(self, call_id: str, text: str) -> None:
        """Shows whole lines as they come; what is left of one waits for its end, up to a limit."""
        *lines, rest = (self._unfinished.get(call_id, "") + text).split("\n")
        for line in lines:
            self._note(f"│ {_cut(line.expandtabs(), MAX_LINE)}")
        self._unfinished[call_id] = rest[:MAX_LINE]

    def _finished(self, event: ToolFinished) -> None:
        if rest := self._unfinished.pop(event.id, ""):
            self._note(f"│ {rest.expandtabs()}")
        state = "failed" if event.is_error else "done"
        told = f": {_cut(event.display, MAX_LINE)}" if event.display else ""
        self._note(f"└ {_cut(event.name, MAX_NAME)} {state} in {event.seconds:.1f} s{told}")

    def _note(self, line: str) -> None:
        self._break()
        err.print(Text(harmless_line(line), style="dim"))

    def _break(self) -> None:
        if self._in_line:
            _write("\n")
            self._in_line = False


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError as error:
        raise OutputClosedError from error

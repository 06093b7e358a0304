"""How a command that is ready is run, with the secrets it may print taken out before anybody sees them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Protocol

from sandbox_skills.spec import Exited
from sandbox_skills.telemetry import StreamRedactor

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from sandbox_skills.engines.base import OutputSink, Sandbox
    from sandbox_skills.recording import Recording
    from sandbox_skills.spec import Command, Limits, Outcome
    from sandbox_skills.telemetry import Redaction


class Execution(Protocol):
    """Runs a command that is ready to its end, by itself as `Sandbox.run` does, or talked to.

    Neither its outcome nor what is heard of it meanwhile has what `redaction` takes out.
    """

    def __call__(self, command: Command, *, limits: Limits, redaction: Redaction) -> Awaitable[Outcome]: ...


def unattended(sandbox: Sandbox, on_output: OutputSink | None = None) -> Execution:
    """Returns the execution of a command to which nobody talks."""

    async def run(command: Command, *, limits: Limits, redaction: Redaction) -> Outcome:
        if not redaction:
            return await sandbox.run(command, limits=limits, on_output=on_output)
        sink = None if on_output is None else RedactedSink(on_output, redaction)
        outcome = await sandbox.run(command, limits=limits, on_output=sink)
        if sink is not None:
            sink.end(outcome)
        return redacted_outcome(outcome, redaction)

    return run


def redacted_outcome(outcome: Outcome, redaction: Redaction) -> Outcome:
    """Returns the outcome without secrets. Its totals stay those of what the program wrote."""
    if not redaction:
        return outcome
    cut = _is_cut(outcome)
    return replace(
        outcome,
        stdout=redaction.data(outcome.stdout, cut=cut or outcome.stdout_truncated),
        stderr=redaction.data(outcome.stderr, cut=cut or outcome.stderr_truncated),
        recording=_redacted_recording(outcome.recording, redaction),
    )


def _redacted_recording(recording: Recording | None, redaction: Redaction) -> Recording | None:
    if recording is None:
        return None
    events = (
        replace(one, what=redaction.text(one.what), detail=redaction.text(one.detail))
        for one in recording.events
    )
    return replace(recording, events=tuple(events))


class RedactedSink:
    """An OutputSink that passes on what another may hear."""

    def __init__(self, sink: OutputSink, redaction: Redaction) -> None:
        self._sink = sink
        self._streams: dict[Literal["stdout", "stderr"], StreamRedactor] = {
            "stdout": StreamRedactor(redaction),
            "stderr": StreamRedactor(redaction),
        }

    def __call__(self, stream: Literal["stdout", "stderr"], data: bytes, /) -> None:
        self._pass(stream, self._streams[stream].feed(data))

    def end(self, outcome: Outcome) -> None:
        """Passes on what was held back, unless the program was ended in the middle of a word."""
        if not _is_cut(outcome):
            for stream, redactor in self._streams.items():
                self._pass(stream, redactor.end())

    def _pass(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        if data:
            self._sink(stream, data)


def _is_cut(outcome: Outcome) -> bool:
    """Whether the end of the output may be the beginning of something."""
    return not isinstance(outcome.ending, Exited)

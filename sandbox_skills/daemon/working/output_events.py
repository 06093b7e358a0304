"""What a program writes, on its way into the run's log: text, several pieces as one event, gaps told."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Literal

from sandbox_skills.daemon.truth.run import OUTPUT, NewEvent
from sandbox_skills.daemon.working.gathering import EVENT_CHARS, MAX_EVENTS, Gathering
from sandbox_skills.workspace.live_output import LiveOutput, OutputGap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sandbox_skills.daemon.working.gathering import Append

    StreamName = Literal["stdout", "stderr"]


class OutputEvents:
    """The text that `voice`, an OutputSink, hears goes into a log while it comes, until `end`.

    A program that writes faster than the log takes loses the oldest of what waits, which an event says.
    """

    def __init__(self, append: Append) -> None:
        self._live = LiveOutput()
        self._gathering = Gathering(append, arrived=self._live.arrived, taken=self._taken)
        self._texts: dict[StreamName, codecs.IncrementalDecoder] = {}

    def voice(self, stream: StreamName, data: bytes, /) -> None:
        """Takes what a program writes."""
        self._live(stream, data)
        self._gathering.begin()

    async def end(self) -> list[NewEvent]:
        """Returns what is not in the log yet, the ends of cut characters included; raises what `append` did."""
        self._live.close()
        await self._gathering.end()
        return self._rest()

    def _rest(self) -> list[NewEvent]:
        events: list[NewEvent] = []
        while more := self._taken():
            events += more
        for stream, decoder in self._texts.items():
            if text := decoder.decode(b"", final=True):
                events.append(_output(stream, text))
        return events

    def _text(self, stream: StreamName) -> codecs.IncrementalDecoder:
        if stream not in self._texts:
            self._texts[stream] = codecs.getincrementaldecoder("utf-8")("replace")
        return self._texts[stream]

    def _taken(self) -> list[NewEvent]:
        """Returns the next events, each of one stream, of what waits."""
        events: list[NewEvent] = []
        texts: list[str] = []
        stream: StreamName | None = None
        while len(events) < MAX_EVENTS and (piece := self._live.take()) is not None:
            new = None if isinstance(piece, OutputGap) else piece.stream
            if new != stream:
                events += _split(stream, texts)
                stream, texts = new, []
            if isinstance(piece, OutputGap):
                events.append(NewEvent("gap", {"bytes": piece.size}))
            else:
                texts.append(self._text(piece.stream).decode(piece.data))
        return [*events, *_split(stream, texts)]


def _split(stream: StreamName | None, texts: Sequence[str]) -> list[NewEvent]:
    text = "".join(texts)
    if stream is None:
        return []
    return [_output(stream, text[start : start + EVENT_CHARS]) for start in range(0, len(text), EVENT_CHARS)]


def _output(stream: StreamName, text: str) -> NewEvent:
    return NewEvent(OUTPUT, {"stream": stream, "text": text})

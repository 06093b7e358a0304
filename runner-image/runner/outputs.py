"""What programs write, on its way to the host."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

from .channel import OUTGOING_HIGH
from .lean import partial

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .channel import Channel
    from .runs import Run
    from .streams import Stream
    from .watching import Watches


FINAL_READS = 32
"""Reads of one pipe after its writers were killed: twice what the largest pipe holds in MAX_DATA pieces."""

READS_PER_TURN = 4
"""Reads of one pipe in a turn: a flood is emptied in large steps, and the channel is still looked at."""


class Outputs:
    """The streams of the runs, which are read as fast as the host takes them."""

    def __init__(self, channel: Channel, watches: Watches, buffer: bytearray) -> None:
        self._channel = channel
        self._watches = watches
        self._buffer = buffer
        self._listening = True
        self._silenced: dict[int, Run] = {}

    def adjust(self, runs: Iterable[Run]) -> None:
        """Decides what to listen to: the rules of back-pressure, in one place."""
        channel = self._channel
        if channel.queued:
            self._watches.watch(channel.sink, select.EPOLLOUT, lambda _mask: None)
        else:
            self._watches.unwatch(channel.sink)
        listening = channel.queued <= OUTGOING_HIGH
        if listening != self._listening:
            self._listening = listening
            for run in runs:
                self.listen(run)

    def listen(self, run: Run) -> None:
        """Waits for what a run writes, where the host takes it."""
        for stream in run.streams:
            if not self._listening or stream.ended:
                self._watches.unwatch(stream.descriptor)
            else:
                self._watches.watch(stream.descriptor, select.EPOLLIN, partial(self._on_output, run, stream))

    def silenced(self) -> list[Run]:
        """Returns the runs of whose output something has ended since this was last asked."""
        runs = list(self._silenced.values())
        self._silenced.clear()
        return runs

    def empty(self, run: Run) -> None:
        """Reads what is left of a run, whose processes are gone."""
        for stream in run.streams:
            for _ in range(FINAL_READS):
                if stream.ended or not self._forward(run, stream):
                    break

    def _on_output(self, run: Run, stream: Stream, _mask: int) -> None:
        self._read(run, stream)
        if stream.ended:
            self._silenced[run.ref] = run
            for other in run.streams:  # which mostly ends with it, and so without an event of its own
                self._read(run, other)

    def _read(self, run: Run, stream: Stream) -> None:
        for _ in range(READS_PER_TURN):
            if stream.ended or self._channel.queued > OUTGOING_HIGH or not self._forward(run, stream):
                break

    def _forward(self, run: Run, stream: Stream) -> bool:
        """Reads a stream once and sends what may be sent; returns whether there may be more."""
        count = stream.read(self._buffer)
        if not count:
            return False
        sent = run.accept(stream, count)
        if sent:
            self._channel.send(stream.kind, run.ref, bytes(memoryview(self._buffer)[:sent]))
        return True

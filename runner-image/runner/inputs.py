"""What the host sends to a run that lives."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

from .lean import partial
from .orders import SIGNALS, terminal_size
from .payloads import Fields, pack
from .protocol import Kind
from .refusals import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .channel import Channel
    from .runs import Run
    from .watching import Watches


class Inputs:
    """Requests for runs by their refs. One that is over hears nothing."""

    def __init__(self, runs: Mapping[int, Run], channel: Channel, watches: Watches) -> None:
        self._runs = runs
        self._channel = channel
        self._watches = watches

    def stdin(self, ref: int, payload: bytes) -> None:
        """Hands on what it is to read."""
        run = self._runs.get(ref)
        if run:
            run.stdin.feed(payload)
            self._flush(run, 0)

    def close_stdin(self, ref: int, _payload: bytes) -> None:
        """Lets it see the end of that."""
        run = self._runs.get(ref)
        if run:
            run.stdin.end()
            self._flush(run, 0)

    def _flush(self, run: Run, _mask: int) -> None:
        stdin = run.stdin
        stdin.flush()
        if stdin.waiting and stdin.descriptor is not None:
            self._watches.watch(stdin.descriptor, select.EPOLLOUT, partial(self._flush, run))
        else:
            self._watches.unwatch(stdin.descriptor)
        granted = stdin.grant()
        if granted:
            self._channel.send(Kind.STDIN_CREDIT, run.ref, pack({"bytes": granted}))
        if stdin.done and stdin.descriptor is not None:
            stdin.close()
            if stdin.broken:
                self._channel.send(Kind.STDIN_CLOSED, run.ref)

    def resize(self, ref: int, payload: bytes) -> None:
        """Changes the size of its terminal."""
        run = self._runs.get(ref)
        if run:
            run.resize(terminal_size(Fields(payload)))

    def signal(self, ref: int, payload: bytes) -> None:
        """Interrupts it, or asks it to end."""
        run = self._runs.get(ref)
        if run:
            name = Fields(payload).text("signal")
            if name not in SIGNALS:
                raise Refused("bad_request", "no signal of that name")
            run.signal(SIGNALS[name])

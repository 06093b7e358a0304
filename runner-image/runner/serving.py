"""The loop that ties it all together."""

from __future__ import annotations

import gc
import math
import os
import select
import sys
import time
from typing import TYPE_CHECKING

from .channel import OUTGOING_HIGH
from .counters import UNREAD_BYTES, UNREAD_SECONDS, Counters, full, unread_answers
from .facts import facts
from .files import Files
from .inputs import Inputs
from .ipc import clear_ipc
from .lean import partial, signal
from .neighbours import Forks
from .orders import Order
from .outputs import Outputs
from .payloads import Fields, pack
from .pipes import PipeStock
from .probes import Investigation
from .processes import ProcessTable
from .protocol import MAX_DATA, PROTOCOL, VERSION, Kind
from .reaper import Reaper
from .refusals import BrokenChannelError, Refused, refusal
from .runs import Run, not_started
from .spawning import CannotStartError, warm_up
from .watching import Watches
from .workspace import Workspace

if TYPE_CHECKING:
    import resource
    from collections.abc import Callable
    from types import FrameType

    from .channel import Channel
    from .options import Options


LONGEST_WAIT = 60.0
"""Seconds in epoll when nothing is due: any number does, epoll's own limit is 24 days."""

CLAIMS = frozenset({Kind.RUN, Kind.PUT, Kind.GET, Kind.COLLECT, Kind.FACTS})
"""What begins something that goes on under its ref."""


class Runner:
    """Ties it all together: what the host asks, what is under way, and the loop that moves it."""

    def __init__(self, options: Options, channel: Channel) -> None:
        self._options = options
        self._channel = channel
        self._workspace = Workspace(options.workspace)
        self._counters = Counters()
        self._stock = PipeStock()
        self._forks = Forks()
        self._runs: dict[int, Run] = {}
        self._files = Files(self._workspace, channel)
        self._probes: dict[int, Investigation] = {}
        self._buffer = bytearray(MAX_DATA)
        self._watches = Watches()
        self._outputs = Outputs(channel, self._watches, self._buffer)
        self._ending = False
        self._tidied = True
        self._childless = False
        self._due = math.inf
        self._unread_due = math.inf
        self._reaper = Reaper(self._catch_signals(), self._on_death)
        self._watches.watch(channel.source, select.EPOLLIN, self._on_channel)
        inputs = Inputs(self._runs, channel, self._watches)
        self._handlers: dict[int, Callable[[int, bytes], None]] = {
            Kind.PING: self._ping,
            Kind.PREPARE: self._prepare,
            Kind.RUN: self._run,
            Kind.STDIN: inputs.stdin,
            Kind.CLOSE_STDIN: inputs.close_stdin,
            Kind.KILL: self._kill,
            Kind.PUT: self._files.put,
            Kind.CHUNK: self._files.chunk,
            Kind.CHUNKS_END: self._files.chunks_end,
            Kind.GET: self._files.get,
            Kind.COLLECT: self._files.collect,
            Kind.CREDIT: self._files.credit,
            Kind.FACTS: self._facts,
            Kind.RESIZE: inputs.resize,
            Kind.SIGNAL: inputs.signal,
        }

    def _catch_signals(self) -> int:
        wakeup, end = os.pipe()
        os.set_blocking(wakeup, False)
        os.set_blocking(end, False)
        signal.set_wakeup_fd(end, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, self._note)
        if os.getpid() == 1:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # which the kernel does not deliver to pid 1
        else:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, self._end)
        self._watches.watch(wakeup, select.EPOLLIN, self._on_signal)
        return wakeup

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        """Does nothing: having a handler is what makes the signal write to the wake-up pipe."""

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        self._ending = True

    def serve(self) -> None:
        """Says HELLO, then answers until the channel ends. Whatever ends it, nothing of the runs is left."""
        try:
            self._hello()
            self._channel.flush()
            warm_up()
            self._counters.look()
            gc.freeze()  # what is there by now stays, and need not be looked at again and again
            while not self._ending:
                self._channel.flush()
                self._tidy()
                self._stock.fill()
                self._outputs.adjust(self._runs.values())
                self._childless = False
                self._watches.turn(self._patience())
                self._hear_silence()
                if time.monotonic() >= self._due:
                    self._expire()
                self._finish_runs()
                self._files.pump(self._refuse)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the host is gone, which is how every box ends
        finally:
            self._clean_up()

    def _hello(self) -> None:
        version = ".".join(map(str, sys.version_info[:3]))
        hello = {"protocol": PROTOCOL, "runner": VERSION, "pid": os.getpid(), "python": version}
        found = facts(self._options.workspace, self._options.skills)
        self._channel.send(Kind.HELLO, 0, pack({**hello, "facts": found}))

    def _clean_up(self) -> None:
        self._files.abort()
        self._reaper.clear(())

    def _patience(self) -> float:
        """Returns how long to wait for an event, in seconds."""
        due = [run.wake_at() for run in self._runs.values()]
        due += [probe.deadline for probe in self._probes.values()]
        self._due = min(due, default=math.inf)
        if self._runs:
            self._due = min(self._due, self._unread_due)
        if self._files.ready and self._channel.queued <= OUTGOING_HIGH:
            return 0
        return min(max(self._due - time.monotonic(), 0), LONGEST_WAIT)

    # What wakes it

    def _on_channel(self, mask: int) -> None:
        if not mask & select.EPOLLIN:
            self._ending = True
            return
        self._ending = not self._channel.receive(self._buffer)
        for kind, ref, payload in self._channel.frames():
            self._handle(kind, ref, payload)

    def _handle(self, kind: int, ref: int, payload: bytes) -> None:
        try:
            if kind in CLAIMS:
                self._claim(ref)
            self._handlers[kind](ref, payload)
        except BrokenChannelError:
            raise
        except Exception as error:  # noqa: BLE001  no request may end the runner
            self._refuse(ref, error)

    def _refuse(self, ref: int, error: Exception) -> None:
        answer = refusal(error)
        self._channel.send(Kind.ERROR, ref, pack({"code": answer.code, "message": answer.message}))

    def _on_signal(self, _mask: int) -> None:
        self._reaper.drain()
        self._childless = not self._reaper.bury()

    def _on_death(self, pid: int, status: int, usage: resource.struct_rusage, session: int | None) -> None:
        if self._forks.buried(pid):
            return
        for probe in self._probes.values():
            probe.buried = probe.buried or probe.pid == pid
        runs = list(self._runs.values())
        owner = runs[0] if len(runs) == 1 else next((run for run in runs if run.pid in {pid, session}), None)
        if owner:
            owner.usage.add(usage)
            if owner.pid == pid:
                owner.status = status

    def _on_notice(self, run: Run, mask: int) -> None:
        if mask & select.EPOLLIN:
            run.recorder.turn()
        else:  # nobody is left who could ask
            self._watches.unwatch(run.recorder.descriptor)

    def _hear_silence(self) -> None:
        """Looks whether runs are over of whose output something has ended: who has none is mostly about to end."""
        runs = self._outputs.silenced()
        if not self._childless and any(run.silent for run in runs):
            self._childless = not self._reaper.bury()
        for run in runs:
            if not run.over:
                self._outputs.listen(run)

    def _expire(self) -> None:
        now = time.monotonic()
        for run in self._runs.values():
            if now >= run.started + run.order.wall:
                run.stop("wall_time")
            elif run.order.cpu is not None and now >= run.cpu_due:
                run.charge(run.usage.cpu + self._living_cpu(run), now)
        if now >= self._unread_due and self._runs:
            self._look_for_hoards(now)
        for probe in list(self._probes.values()):
            if now >= probe.deadline:
                self._close_probe(probe)
                self._reaper.clear(self._roots(), self._forks.pids())
                self._refuse(probe.ref, Refused("failed", "the probe took too long"))

    def _look_for_hoards(self, now: float) -> None:
        """Stops all runs where they hoard what no group counts; only pid 1 has a network that is theirs alone."""
        self._unread_due = now + UNREAD_SECONDS
        if unread_answers() > UNREAD_BYTES:
            for run in self._runs.values():
                run.stop("memory")

    def _living_cpu(self, run: Run) -> float:
        """Returns the CPU seconds of a run's living processes; those nobody can trace count for the only run."""
        owners = {run.pid, None} if len(self._runs) == 1 else {run.pid}
        known = [*self._roots(), *self._forks.pids()]
        family = ProcessTable().descendants(os.getpid(), known)
        return sum(process.cpu for process, root in family if root in owners)

    # The end of a run

    def _roots(self) -> list[int]:
        return [run.pid for run in self._runs.values()] + [probe.pid for probe in self._probes.values()]

    def _finish_runs(self) -> None:
        while over := [run for run in self._runs.values() if run.over]:
            for run in over:
                self._finish(run, clean=self._childless or self._cleared(run))

    def _cleared(self, run: Run) -> bool:
        return self._reaper.clear([pid for pid in self._roots() if pid != run.pid], self._forks.pids())

    def _finish(self, run: Run, *, clean: bool) -> None:
        """Tells of the end of a run whose processes are gone; what else is to be done then, nobody waits for."""
        self._outputs.empty(run)
        room = full((self._options.workspace, "/tmp"))  # noqa: S108  looked at, not used
        told = run.ended(clean=clean, full=room)
        self._channel.send(Kind.ENDED, run.ref, pack({**told, **self._found(run.order)}))
        self._channel.flush()
        for descriptor in (run.stdin.descriptor, *(stream.descriptor for stream in run.streams)):
            self._watches.forget(descriptor)
        if run.recorder:
            self._watches.forget(run.recorder.descriptor)
        run.close()
        del self._runs[run.ref]
        self._reaper.tell_session = len(self._runs) > 1
        self._tidied = False

    def _tidy(self) -> None:
        """Removes what runs left in the kernel, and looks at what the next run wants to know: nobody waits for it.

        Such objects do not tell whose they are, so they stay while any run lives. Only pid 1 has namespaces of its own,
        where nothing happens between two runs but what the host asks for.
        """
        if not self._tidied and not self._runs:
            self._tidied = True
            if os.getpid() == 1:
                clear_ipc()
                self._forks.prepare()
                self._counters.look()
                self._workspace.look()

    # What the host asks

    def _claim(self, ref: int) -> None:
        if ref in self._runs or ref in self._files or ref in self._probes:
            raise Refused("bad_request", f"ref {ref} is in use")

    def _ping(self, ref: int, _payload: bytes) -> None:
        self._channel.send(Kind.PONG, ref)

    def _prepare(self, ref: int, payload: bytes) -> None:
        self._make_places(Fields(payload))
        self._channel.send(Kind.DONE, ref, b"{}")

    def _make_places(self, fields: Fields) -> None:
        self._workspace.make(fields.texts("dirs"), fields.pairs("links"))

    def _unprepared(self, fields: Fields) -> str | None:
        """Makes what a run is to find in the workspace; returns why it could not, which does not stop the run."""
        if not fields.has("places"):
            return None
        try:
            self._make_places(fields.within("places"))
        except (OSError, Refused) as error:
            return refusal(error).message
        return None

    def _found(self, order: Order) -> dict[str, object]:
        """Returns what ENDED tells of the directory that was to be looked into: that saves whoever collects a visit."""
        return {"empty": self._workspace.holds_nothing(order.look_into)} if order.look_into else {}

    def _run(self, ref: int, payload: bytes) -> None:
        fields = Fields(payload)
        order = Order(fields)
        order.unprepared = self._unprepared(fields)
        try:
            run = Run(ref, order, self._counters, self._stock, self._options.skills, self._forks_for(order))
        except CannotStartError as error:
            self._report_not_started(ref, order, error)
            return
        if os.getpid() == 1 and not self._runs:
            self._unread_due = run.started + UNREAD_SECONDS
        self._runs[ref] = run
        self._reaper.tell_session = len(self._runs) > 1
        # A short program is often over before its start returns, on one processor always: no need to listen to it.
        self._childless = not self._reaper.bury()
        if not run.over:
            self._outputs.listen(run)
        if run.recorder:
            self._watches.watch(run.recorder.descriptor, select.EPOLLIN, partial(self._on_notice, run))

    def _forks_for(self, order: Order) -> Forks | None:
        """Returns what may start the command as a fork: only the runner's own death ends all that it would leave."""
        alone = os.getpid() == 1 and not self._runs and not self._probes
        return self._forks if order.fork and alone else None

    def _report_not_started(self, ref: int, order: Order, error: CannotStartError) -> None:
        message = os.fsencode(f"{error.reason}\n")
        self._channel.send(Kind.STDERR, ref, message)
        nothing: dict[str, object] | None = {"events": [], "lost": {}} if order.record else None
        ended = {**not_started(error.code, message), "unprepared": order.unprepared, "record": nothing}
        self._channel.send(Kind.ENDED, ref, pack({**ended, **self._found(order)}))

    def _kill(self, ref: int, _payload: bytes) -> None:
        run = self._runs.get(ref)
        if run:
            run.stop("cancelled")
        if self._files.cancel(ref):
            raise Refused("failed", "cancelled")

    def _facts(self, ref: int, payload: bytes) -> None:
        fields = Fields(payload)
        marker = fields.text("marker") if fields.has("marker") else None
        self._childless = False
        probe = Investigation(ref, self._options.workspace, self._options.skills, marker)
        self._probes[ref] = probe
        self._watches.watch(probe.descriptor, select.EPOLLIN, partial(self._on_probe, probe))

    def _on_probe(self, probe: Investigation, _mask: int) -> None:
        answer = probe.read()
        if answer is None:
            return
        self._close_probe(probe)
        if answer:
            self._channel.send(Kind.FACTS_REPLY, probe.ref, answer)
        else:
            self._refuse(probe.ref, Refused("failed", "the probe was killed"))

    def _close_probe(self, probe: Investigation) -> None:
        self._watches.unwatch(probe.descriptor)
        probe.close()
        del self._probes[probe.ref]
        self._tidied = False  # what it tried may have been counted

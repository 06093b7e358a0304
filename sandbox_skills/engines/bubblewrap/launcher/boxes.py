"""One box, as the launcher has it."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from .cgroups import make_groups, oom_kills, remove_groups
from .child import become_box
from .kernel import children

if TYPE_CHECKING:
    from typing import Any, Never

WORDS_BYTES = 4096
"""What is kept of a box's last words: a traceback has about one."""

REMOVE_SECONDS = 0.005
"""Between tries to remove a cgroup: it is busy until its last task is buried."""

INSIST_SECONDS = 1.0
"""After which an end that has not come is asked for again, of bubblewrap as well."""

OOM_SECONDS = 5.0
"""A box that dies this soon after the kernel killed for memory in it is taken to have died of that."""

FAILED = 125
"""The exit code of a child that could not become bubblewrap."""


class Box:
    """One box from its order to its end."""

    def __init__(self, order: dict[str, Any]) -> None:
        ttl: float = order["ttl"]
        self.id = order["id"]
        self.groups = order["groups"]
        self.code: int | None = None
        self.handle: int | None = None
        self._order = order
        self._words = -1
        self.pid = 0
        self._asked = False
        self._oom = (0, 0)  # as it was OOM_SECONDS ago at least, and lately
        self._looked = time.monotonic()
        self._due = self._looked + ttl  # when to end it, again if need be

    def start(self, channel: int, filter_: int) -> None:
        """Makes the cgroups and forks; raises OSError."""
        make_groups(self.groups)
        self._words, words = os.pipe()
        os.set_blocking(self._words, False)
        os.set_blocking(words, False)  # a box that talks is not to wait for anyone
        try:
            self.pid = os.fork()
            if not self.pid:
                self._in_child(channel, words, filter_)
            self.handle = os.pidfd_open(self.pid)
        finally:
            os.close(words)

    def _in_child(self, channel: int, words: int, filter_: int) -> Never:
        try:
            become_box(self._order, channel, words, filter_)
        except BaseException as error:  # noqa: BLE001  # a child that goes on would be a second launcher
            os.write(words, f"{type(error).__name__}: {error}".encode(errors="replace"))
        finally:
            os._exit(FAILED)

    def look(self, now: float) -> float:
        """Does what is due; returns when to look again."""
        if now >= self._looked + OOM_SECONDS:
            self._oom = (self._oom[1], oom_kills(self.groups))
            self._looked = now
        if self.code is not None:
            return now + REMOVE_SECONDS
        if now >= self._due:
            if self._asked:
                self._kill(self.pid)
            self.end()
        return min(self._due, self._looked + OOM_SECONDS)

    def end(self) -> None:
        """Kills the first process, and with it the box; bubblewrap itself where there is none yet."""
        if self.code is None:
            self._asked = True
            self._due = time.monotonic() + INSIST_SECONDS
            for pid in children(self.pid) or [self.pid]:
                self._kill(pid)

    @staticmethod
    def _kill(pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def bury(self) -> None:
        """Takes the exit code; call it when the handle says that there is one."""
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self.code = code if code >= 0 else 128 - code
        if self.handle is not None:
            os.close(self.handle)
            self.handle = None

    def gone(self) -> dict[str, object] | None:
        """Returns what there is to tell once nothing is left; None as long as a cgroup is busy."""
        killed = max(self._oom[1], oom_kills(self.groups))
        self._oom = (self._oom[0], killed)
        if not remove_groups(self.groups):
            return None
        return {"id": self.id, "code": self.code, "oom": killed > self._oom[0], "words": self._last_words()}

    def _last_words(self) -> str:
        said = b""
        with suppress(OSError):
            said = os.read(self._words, WORDS_BYTES)
        os.close(self._words)
        return said.decode("utf-8", "replace")


def not_made(box: Box, words: str) -> dict[str, object]:
    """Returns what is told of a box that could not be started."""
    return {"id": box.id, "code": None, "oom": False, "words": words}

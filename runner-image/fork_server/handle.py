"""The server as the runner has it."""

from __future__ import annotations

import _socket
import array
import errno
import os
import select
from typing import TYPE_CHECKING

from .terms import EARLY, ENVIRONMENT, FORK, LATE, MAX_ORDER, PROTECTED, PYTHON, READY, SIGCONT, SIGKILL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


START_SECONDS = 2.0
"""How long a start may take that takes 15 ms; a box without a processor's time gets along without a server."""

FORK_SECONDS = 0.5
"""How long a fork may take that takes 2 ms; then there is another server."""


class ForkServer:
    """The server as the runner has it, which buries it; `spare` is the process of a fork that waits, or 0."""

    def __init__(self, source: str, encode: Callable[[Mapping[str, object]], bytes]) -> None:
        """Starts it and waits until nobody can reach it; raises OSError where that does not come about."""
        self.spare = 0
        self.python = PYTHON
        self._encode = encode
        self._ready = False
        self._forking = False
        self._socket, other = _socket.socketpair(
            _socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC
        )
        actions = [(os.POSIX_SPAWN_DUP2, other.fileno(), 0), (os.POSIX_SPAWN_DUP2, 2, 1)]
        try:
            self.pid = os.posix_spawn(
                PYTHON, (PYTHON, source), ENVIRONMENT, file_actions=actions, setsid=True
            )
        except BaseException:
            self._socket.close()
            raise
        finally:
            other.close()
        if self._heard(START_SECONDS) != PROTECTED:
            self.end()
            raise TimeoutError(errno.ETIMEDOUT, "the fork server did not start")

    def prepare(self) -> None:
        """Has a spare made, unless there is one."""
        if not self.spare and not self._forking:
            os.kill(self.pid, SIGCONT)  # a program may have stopped it; none lives that could do so now
            self._forking = self._said(FORK)

    def settle(self) -> None:
        """Waits for a spare that is being made, which takes less time than a fresh interpreter."""
        self._ready = self._ready or self._heard(0) == READY
        if self._ready and self._forking:
            heard = self._heard(FORK_SECONDS)
            self._forking = False
            if heard.isdigit():
                self.spare = int(heard)
            else:  # a program may have ended it, or have stopped the server
                self.end()

    def start(self, argv: Sequence[str], env: Mapping[str, str], cwd: str, streams: Sequence[int]) -> int:
        """Starts a program with its three streams; returns its pid, 0 where it must be started as ever."""
        self.settle()
        order = self._encode({"pid": self.spare, "argv": argv, "env": env, "cwd": cwd})
        if not self.spare or len(order) > MAX_ORDER or not is_plain(argv) or early(env) != ENVIRONMENT:
            return 0
        spare, self.spare = self.spare, 0
        os.kill(spare, SIGCONT)  # as above
        ended = os.waitid(os.P_PID, spare, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return 0 if ended or not self._said(order, streams) else spare

    def end(self) -> None:
        """Ends it and its spare, wherever they are."""
        self._socket.close()
        for pid in filter(None, (self.pid, self.spare)):
            try:
                os.kill(pid, SIGKILL)
            except ProcessLookupError:
                continue

    def _said(self, words: bytes, streams: Sequence[int] = ()) -> bool:
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", streams))
        try:
            self._socket.sendmsg([words], [rights] if streams else [], _socket.MSG_DONTWAIT)
        except OSError:
            return False
        return True

    def _heard(self, seconds: float) -> bytes:
        if self._socket.fileno() < 0:
            return b""
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLIN)
        try:
            return self._socket.recv(64) if poll.poll(seconds * 1000) else b""
        except OSError:
            return b""


def early(env: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that only a start can apply."""
    return {name: value for name, value in env.items() if name.startswith(EARLY) and name not in LATE}


def is_plain(argv: Sequence[str]) -> bool:
    """Whether the arguments are `-c`, `-m` or a script and what follows, without options before."""
    first, *rest = argv[1:] or ("-",)
    return bool(rest) if first in {"-c", "-m"} else not first.startswith("-")

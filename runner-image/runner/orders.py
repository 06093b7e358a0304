"""A RUN as the host sent it, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lean import signal
from .refusals import Refused

if TYPE_CHECKING:
    from .payloads import Fields


TERMINAL_SIDE = 1000
"""Most rows or columns of a terminal: no screen has more, and programs allocate what they multiply to."""


def terminal_size(fields: Fields) -> tuple[int, int]:
    """Returns rows and columns; raises Refused for a size that no terminal has."""
    size = fields.count("rows"), fields.count("cols")
    if not all(1 <= side <= TERMINAL_SIDE for side in size):
        raise Refused("bad_request", "no terminal has that size")
    return size


RECORDED = frozenset({"network", "files", "programs"})
"""What can be recorded of a run."""


class Order:
    """A RUN as the host sent it, checked."""

    unprepared: str | None = None

    def __init__(self, fields: Fields) -> None:
        self.fork = fields.has("fork") and fields.flag("fork")
        self.argv = fields.texts("argv")
        self.env = fields.mapping("env")
        self.cwd = fields.text("cwd")
        self.stream = fields.flag("stream")
        self.stdin = fields.text("stdin")
        self.tty = terminal_size(fields.within("tty")) if fields.has("tty") else None
        self.record = fields.texts("record") if fields.has("record") else []
        self.look_into = fields.text("look_into") if fields.has("look_into") else ""
        limits = fields.within("limits")
        self.wall = limits.seconds("wall")
        self.cpu = limits.seconds("cpu") if limits.has("cpu") else None
        self.output = limits.count("output")
        self.stdout = self.output if self.stream else limits.count("stdout")
        self.stderr = self.output if self.stream else limits.count("stderr")
        if not self.argv or not self.argv[0]:
            raise Refused("bad_request", "argv is empty")
        if self.stdin not in {"none", "pipe"}:
            raise Refused("bad_request", "stdin is neither none nor pipe")
        if self.tty and self.stdin == "none":
            raise Refused("bad_request", "a terminal has an input")
        if not RECORDED.issuperset(self.record) or (self.tty and self.record):
            raise Refused("bad_request", "record has what cannot be recorded")
        if "" in self.env or "=" in "".join(self.env):
            raise Refused("bad_request", "env has a name that cannot be one")


SIGNALS = {"INT": signal.SIGINT, "TERM": signal.SIGTERM}
"""What the host may send beside KILL: to interrupt, and to ask for an end."""

"""The other programs of the image, loaded by the first run that asks for one."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from .payloads import pack
from .refusals import Refused
from .scores import OWN_SCORE
from .spawning import executable, executables, spawn, start_failure

if TYPE_CHECKING:
    from typing import Any

    from .orders import Order


def beside(name: str) -> str:
    """Returns the path of another file of the image, which is bytecode where this one is."""
    return os.path.abspath(__file__).replace("runner.py", f"{name}.py")


def loaded(name: str) -> Any:  # noqa: ANN401  a module that the type checkers know as a file of its own
    """Returns a module beside this one; most boxes do without."""
    if found := sys.modules.get(name):
        return found
    from importlib.util import module_from_spec, spec_from_file_location  # noqa: PLC0415  as above

    spec = spec_from_file_location(name, beside(name))
    if not spec or not spec.loader:
        raise Refused("failed", f"there is no {name} in this image")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module
    return module


def spawn_recorded(order: Order, skills: str, streams: tuple[int, int, int]) -> tuple[int, Any]:
    """Starts the command as `spawn` does, in view of a recorder; returns its pid and that."""
    module = loaded("recorder")
    try:
        start = module.Start(order.argv, order.env, order.cwd, executables(order), order.record)
        pid, listener = start.run(streams)
    except module.CannotRecordError as error:
        raise Refused("no_recorder", f"runs cannot be recorded here: {error}") from error
    except OSError as error:
        raise start_failure(order, error) from error
    return pid, module.Recorder(listener, skills)


class Forks:
    """The fork server of this box: none until a run asks for it, and none again when it has ended."""

    def __init__(self) -> None:
        self._server: Any = None
        self._wanted = False

    def pids(self) -> list[int]:
        """Returns its processes, which are no run's, and waits for one that is being made."""
        if not self._server:
            return []
        self._server.settle()
        return [pid for pid in (self._server.pid, self._server.spare) if pid]

    def spawn(self, order: Order, streams: tuple[int, int, int]) -> int:
        """Starts the command as `spawn` does, as a fork where it can be one. Nothing else may run in the box."""
        self._wanted = True
        pid = 0
        if self._server and executable(order) == self._server.python:
            try:
                os.chdir(order.cwd)
            except OSError as error:
                raise start_failure(order, error) from error
            pid = self._server.start(order.argv, order.env, order.cwd, streams)
        return pid or spawn(order, *streams)

    def prepare(self) -> None:
        """Makes ready for the next run, if one has asked for it; nothing runs in the box.

        Its first time takes 15 ms (measured), in which the server becomes protected.
        """
        if not self._wanted:
            return
        try:
            if not self._server:
                with OWN_SCORE:
                    self._server = loaded("fork_server").ForkServer(beside("fork_server"), pack)
            self._server.prepare()
        except (OSError, Refused):
            self._wanted = False  # until the next run asks

    def buried(self, pid: int) -> bool:
        """Tells whether that was one of its processes, and goes on without it."""
        if not self._server or pid not in {self._server.pid, self._server.spare}:
            return False
        if pid == self._server.spare:
            self._server.spare = 0
        else:
            self._server.end()
            self._server = None
        return True

"""The server: an interpreter that has imported all, and forks."""

from __future__ import annotations

import _socket
import array
import gc
import os
import sys
from typing import TYPE_CHECKING

from .endings import flush
from .orders import Order, open_streams, shadows
from .programs import fresh_main
from .terms import FORK, MAX_ORDER, PR_SET_DUMPABLE, PROTECTED, READY, VARIABLES, libc

if TYPE_CHECKING:
    from typing import Any


PRELUDE = (
    "__future__", "argparse", "ast", "asyncio", "base64", "bisect", "calendar", "collections", "concurrent.futures",
    "configparser", "contextlib", "copy", "csv", "dataclasses", "datetime", "decimal", "difflib", "enum", "fnmatch",
    "functools", "getpass", "glob", "gzip", "hashlib", "heapq", "html", "importlib.util", "inspect", "io",
    "itertools", "json", "linecache", "locale", "logging", "math", "mimetypes", "operator", "pathlib", "pickle",
    "pkgutil", "platform", "queue", "random", "re", "runpy", "secrets", "select", "selectors", "shlex", "shutil",
    "signal", "socket", "stat", "statistics", "string", "struct", "subprocess", "tempfile", "textwrap", "threading",
    "time", "traceback", "types", "typing", "unicodedata", "urllib.parse", "uuid", "warnings", "weakref",
    "xml.etree.ElementTree", "zipfile", "zlib",
)  # fmt: skip
"""What scripts of skills import most, all of it Python's own."""


def serve(channel: int) -> Order:
    """Makes forks as the runner wants them, until it is gone. Returns in each, with what that is to become."""
    libc().prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    connection = _socket.socket(fileno=channel)
    connection.send(PROTECTED)
    names = imported()
    known = frozenset(sys.modules)
    connection.send(READY)
    while connection.recv(len(FORK)):
        taken, waiting = os.pipe()
        child = os.fork()
        if not child:
            os.close(taken)
            return next_order(connection, waiting, names, known)
        os.close(waiting)
        os.waitpid(child, 0)
        os.read(taken, 1)  # ends when the fork has its order, or has died: until then the socket is its own
        os.close(taken)
    os._exit(0)


def imported() -> frozenset[str]:
    """Imports the prelude; returns the names that a module of the skill could have instead."""
    del sys.path[0]
    sys.path_importer_cache.pop(os.path.dirname(os.path.abspath(__file__)), None)
    for name in PRELUDE:
        __import__(name)
    frozen = {"built-in", "frozen"}
    loaded = {
        name
        for name, module in list(sys.modules.items())
        if "." not in name and getattr(getattr(module, "__spec__", None), "origin", "frozen") not in frozen
    }
    gc.collect()
    gc.freeze()  # else every fork would copy what it looks through
    return frozenset(loaded | {"sitecustomize"})


def next_order(
    connection: _socket.socket, waiting: int, names: frozenset[str], known: frozenset[str]
) -> Order:
    """Forks once more, and ends between: what is left has the runner for its parent. Returns in that, with an order."""
    parent = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == parent:
        os.sched_yield()
    os.setsid()
    rehearse(names)
    connection.send(b"%d" % os.getpid())
    data, streams = received(connection)
    os.close(waiting)
    connection.detach()  # its number is that of standard input, which is another now
    return Order(data, streams, names, known)


def received(connection: _socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Returns the order that is for this process, and its streams; ends with the runner."""
    import json  # noqa: PLC0415  the runner has no need of it

    while True:
        data, rest, _, _ = connection.recvmsg(MAX_ORDER, _socket.CMSG_SPACE(3 * 4))
        if not data:
            os._exit(0)
        streams = array.array("i")
        for _, _, descriptors in rest:
            streams.frombytes(descriptors)
        order = json.loads(data)
        if order["pid"] == os.getpid():
            return order, list(streams)
        for stream in streams:  # of one that has died with its order still to be read
            os.close(stream)


def rehearse(names: frozenset[str]) -> None:
    """Does for nobody what every fork does: a page that is touched for the first time after a fork has to be copied."""
    import json  # noqa: PLC0415  as above

    json.loads('{"env": {"A": "B"}}')
    VARIABLES.update(VARIABLES.copy())
    shadows("/", names)
    open_streams()
    exec(compile("pass\n", "<string>", "exec", dont_inherit=True), fresh_main().__dict__)  # noqa: S102  as above
    flush()
    gc.collect()

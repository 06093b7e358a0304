"""The start: the launcher takes its socket and serves."""

from __future__ import annotations

import os
import signal
import socket
import sys

from .kernel import PR_SET_CHILD_SUBREAPER, call
from .rights import IGNORED
from .serving import Launcher


def main(arguments: list[str]) -> int:
    """Serves on the socket and with the filter whose descriptors are given; returns the exit code.

    The third is that of this text, which the interpreter has read by now.
    """
    control, filter_, text = map(int, arguments)
    os.close(text)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    # An orphan of a bubblewrap that was killed comes here, dying.
    call("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with socket.socket(fileno=control) as connection:
        os.set_inheritable(control, False)
        os.set_inheritable(filter_, False)
        Launcher(connection, filter_).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Runs a program of which nothing outlives its caller: `leash.py MAX_FILE_BYTES PROGRAM ARGUMENT…`.

Started as the leader of a session, with a pipe as standard input that the caller never writes to. When the pipe
closes, for the caller has died even of SIGKILL, the whole session is killed: the program and the helpers it started,
which a parent-death signal would not reach. No file may grow beyond the limit. Ends with the program's exit code.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import sys

NOT_FOUND = 127
"""As a shell says it."""


def main() -> int:
    """Runs the program of the command line; returns its exit code, 128 and the number for a signal."""
    limit = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    # This interpreter ignores SIGXFSZ, and so shall the program: it then says that a file is too large.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        process = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, restore_signals=False)
    except OSError:
        return NOT_FOUND
    ended = os.pidfd_open(process.pid)
    ready, _, _ = select.select([ended, sys.stdin.fileno()], [], [])
    if ended not in ready:
        os.killpg(0, signal.SIGKILL)
    code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())

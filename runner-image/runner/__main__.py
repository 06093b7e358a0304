"""The start: the runner takes its channel, protects itself and serves."""

from __future__ import annotations

import fcntl
import os
import sys
from typing import TYPE_CHECKING

from .channel import Channel
from .kernel import LIBC, PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, call, connect
from .lean import suppress
from .options import Options
from .pipes import NOTHING
from .refusals import BrokenChannelError
from .scores import OWN_SCORE
from .serving import Runner
from .workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Sequence


def own_channel(path: str) -> Channel:
    """Takes stdin and stdout out of reach of everything the runner starts; prints go to stderr from here on.

    They are the channel, unless somebody listens at the socket of that path.
    """
    source = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
    sink = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 3)
    os.dup2(NOTHING, 0)
    os.dup2(2, 1)
    with suppress(OSError):
        connected = connect(path)
        os.close(source)
        os.close(sink)
        source, sink = connected, fcntl.fcntl(connected, fcntl.F_DUPFD_CLOEXEC, 3)
    return Channel(source, sink)


def harden() -> None:
    """Makes the runner undumpable, and the one that orphans come to; raises OSError where that cannot be.

    Takes the lowest oom_score_adj that the host lets it have, as a program of the skill could: between equals the
    kernel takes the larger.
    """
    OWN_SCORE.open()
    call(LIBC.prctl, PR_SET_DUMPABLE, 0, 0, 0, 0)
    if os.getpid() != 1:
        call(LIBC.prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


DIRECTORIES = ("skills", "work", "work/inputs", "work/.venv", "runs", "out", "home")
"""What every workspace has from the start: those of sandbox_skills/workspace/layout.py, compared by a test."""


def make_directories(workspace: str) -> None:
    """Makes the workspace's own directories, with none of it being a link."""
    Workspace(workspace).make(DIRECTORIES, ())


PROTOCOL_EXIT = 3
"""What the runner exits with when the channel is broken, so that the host can tell it from its own hanging up."""


def main(arguments: Sequence[str]) -> int:
    """Runs until the channel ends; returns the exit code."""
    options = Options(arguments)
    channel = own_channel(options.channel)
    harden()
    if sys.getfilesystemencoding() != "utf-8":
        raise SystemExit("runner: paths must be UTF-8: start Python with -X utf8")
    make_directories(options.workspace)
    os.chdir(options.workspace)
    try:
        Runner(options, channel).serve()
    except BrokenChannelError as error:
        print(f"runner: {error}", file=sys.stderr)  # noqa: T201  the engine keeps stderr for the post-mortem
        return PROTOCOL_EXIT
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

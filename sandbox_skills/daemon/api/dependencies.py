"""What routes ask for: the daemon, and whoever asks."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

from sandbox_skills.daemon.working.daemon import Daemon


def daemon_of(connection: HTTPConnection) -> Daemon:
    """Returns the daemon that the application stands on."""
    daemon: Daemon = connection.app.state.daemon
    return daemon


TheDaemon = Annotated[Daemon, Depends(daemon_of)]

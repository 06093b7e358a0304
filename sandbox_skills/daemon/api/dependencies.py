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


async def _its_daemon(connection: HTTPConnection) -> Daemon:
    """Returns the daemon to a route: what is no coroutine the framework calls in a thread, for each request."""
    return daemon_of(connection)


TheDaemon = Annotated[Daemon, Depends(_its_daemon)]

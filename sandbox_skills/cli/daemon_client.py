"""A client of the daemon that the settings name, for commands that speak to it directly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.settings import docker_connection

if TYPE_CHECKING:
    import docker

    from sandbox_skills.settings import Settings


def docker_client(settings: Settings) -> docker.APIClient:
    """Returns a connected client; raises EngineUnavailableError with the fix."""
    from sandbox_skills.engines.docker_client import connect  # noqa: PLC0415  # docker-py is slow to import

    return connect(docker_connection(settings.docker), timeout_seconds=settings.docker.timeout_seconds)

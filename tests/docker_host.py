"""Which Docker Engine tests use: the one that `make` uses, by the same variables and contexts."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from sandbox_skills.settings.docker_connection import docker_connection
from sandbox_skills.settings.model import DockerSettings

if TYPE_CHECKING:
    from sandbox_skills.engines.docker_client import DockerConnection


@cache
def connection() -> DockerConnection:
    """Returns where the user's engine is."""
    return docker_connection(DockerSettings())

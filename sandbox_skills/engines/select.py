"""An engine by its name, imported when it is asked for: docker-py alone costs 150 ms at import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.errors import SettingsError

if TYPE_CHECKING:
    from sandbox_skills.engines.base import Engine
    from sandbox_skills.engines.docker import DockerEngineOptions

ENGINES = ("docker", "fake")


def select(name: str, docker: DockerEngineOptions | None = None, *, concurrent_runs: int = 1) -> Engine:
    """Returns the engine of that name, not yet connected; raises SettingsError for an unknown one.

    `concurrent_runs` is for the fake: an engine with options has it among them.
    """
    if name == "docker" and docker is not None:
        from sandbox_skills.engines.docker import DockerEngine

        return DockerEngine(docker)
    if name == "fake":
        from sandbox_skills.engines.fake import FakeEngine

        return FakeEngine(concurrent_runs=concurrent_runs)
    raise SettingsError(f"there is no engine {name!r}", hint=f"one of: {', '.join(ENGINES)}")

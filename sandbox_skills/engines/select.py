"""An engine by its name, imported when it is asked for: docker-py alone costs 150 ms at import. None is a fallback."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.errors import SettingsError

if TYPE_CHECKING:
    from sandbox_skills.engines.base import Engine
    from sandbox_skills.engines.bubblewrap import BubblewrapEngineOptions
    from sandbox_skills.engines.docker import DockerEngineOptions
    from sandbox_skills.engines.local import LocalEngineOptions

    EngineOptions = DockerEngineOptions | BubblewrapEngineOptions | LocalEngineOptions

ENGINES = ("docker", "bubblewrap", "local", "fake")


def select(name: str, options: EngineOptions | None = None, *, concurrent_runs: int = 1) -> Engine:
    """Returns the engine of that name, not yet connected; raises SettingsError for an unknown one.

    `options` are that engine's own. `concurrent_runs` is for the fake: the others have it among their options.
    """
    if name == "fake":
        from sandbox_skills.engines.fake import FakeEngine

        return FakeEngine(concurrent_runs=concurrent_runs)
    engine = None if options is None else _with_options(name, options)
    if engine is None:
        raise SettingsError(f"there is no engine {name!r}", hint=f"one of: {', '.join(ENGINES)}")
    return engine


def _with_options(name: str, options: EngineOptions) -> Engine | None:
    if name == "docker":
        from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions

        return DockerEngine(options) if isinstance(options, DockerEngineOptions) else None
    if name == "bubblewrap":
        from sandbox_skills.engines.bubblewrap import BubblewrapEngine, BubblewrapEngineOptions

        return BubblewrapEngine(options) if isinstance(options, BubblewrapEngineOptions) else None
    if name == "local":
        from sandbox_skills.engines.local import LocalEngine, LocalEngineOptions

        return LocalEngine(options) if isinstance(options, LocalEngineOptions) else None
    return None

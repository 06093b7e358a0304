"""The skills of one tenant as runs and models see them: the server's, and the latest of each that was uploaded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sandbox_skills.catalog import Pin, SkillRegistry, SkillRoot
from sandbox_skills.catalog.load import load_skill

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from sandbox_skills.catalog import SkillSpec
    from sandbox_skills.daemon.truth.skills import SkillVersion
    from sandbox_skills.toolsets.offered import SkillSource
    from sandbox_skills.toolsets.skill_runs import Demand


class ServerSkills:
    """The skills that the operator serves to every tenant: of all that are found those he vouches for. Blocking."""

    def __init__(self, source: SkillSource) -> None:
        self._source = source

    def list(self) -> tuple[SkillSpec, ...]:
        """Returns all of them, as they are now."""
        return tuple(spec for spec in self._source.list() if spec.trusted)

    def get(self, name: str) -> SkillSpec | None:
        """Returns the one of that name or id, or None."""
        spec = self._source.get(name)
        return spec if spec is not None and spec.trusted else None


class TenantSkills:
    """A tenant's skills by name and id. Blocking, and safe for threads, as each change replaces all uploaded ones.

    A name of the server's means the server's skill, whatever a tenant uploaded before: the operator's rules go by name.
    """

    def __init__(self, server: ServerSkills) -> None:
        self.server = server
        self._uploaded = SkillRegistry(())
        self._versions: Mapping[str, SkillVersion] = {}

    def replace(self, uploaded: Iterable[SkillSpec], versions: Mapping[str, SkillVersion]) -> None:
        """Sets what was uploaded, and the latest versions by the skills' names."""
        self._uploaded = SkillRegistry(uploaded)
        self._versions = versions

    def version(self, name: str) -> SkillVersion | None:
        """Returns the latest version of a skill that was uploaded."""
        return self._versions.get(name)

    @property
    def uploaded(self) -> SkillRegistry:
        """What was uploaded."""
        return self._uploaded

    def list(self) -> tuple[SkillSpec, ...]:
        """Returns all skills: the server's, then those that were uploaded, by name."""
        server = self.server.list()
        taken = {spec.name for spec in server}
        return (*server, *(spec for spec in self._uploaded.list() if spec.name not in taken))

    def get(self, name: str) -> SkillSpec | None:
        """Returns the skill of that name or id, or None."""
        server = {spec.name: spec for spec in self.server.list()}
        own = self._uploaded.get(name)
        if own is None or name in server:
            # Asked by the name: an unknown one is looked for on disk, which nobody needs for what was uploaded.
            return server.get(name) or self.server.get(name)
        return server.get(own.name, own)


def uploaded_spec(folder: Path, digest: str) -> SkillSpec | None:
    """Returns the skill in a folder of uploaded content; None where it does not load any more. Blocking."""
    spec = load_skill(folder).spec
    if spec is None:
        return None
    return replace(spec, digest=digest, root=SkillRoot(str(folder.parent), scope="uploaded"))


def demanding(demanded: Demand) -> Demand:
    """Returns what `demanded` does for the server's skills; of an uploaded one, that it is what was uploaded."""

    def demand(spec: SkillSpec, *, asked: str = "") -> Pin | None:
        if spec.uploaded:
            return Pin(spec.name, spec.digest or "", {})
        return demanded(spec, asked=asked)

    return demand

"""Kinds of values of a policy, for annotations: pydantic reads them when a rule is given."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from sandbox_skills.checked.kinds import Seconds, Size
from sandbox_skills.policy.programs import LAUNCHERS, base_name

__all__ = ["AllowedPrograms", "Digest", "Programs", "Seconds", "Size", "VariableName"]

VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=256)]

Digest = Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]

Programs = tuple[Annotated[str, Field(min_length=1)], ...]


def _no_launchers(programs: Programs | None) -> Programs | None:
    launchers = sorted(name for name in programs or () if base_name(name) in LAUNCHERS)
    if launchers:
        raise ValueError(
            f"{', '.join(launchers)} would run whatever a command line says: it is never allowed"
        )
    return programs


AllowedPrograms = Annotated[Programs | None, AfterValidator(_no_launchers)]

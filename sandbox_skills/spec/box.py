"""What a box is, and where it has what."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal, NewType

from sandbox_skills.spec.limits import BASE_GUARANTEES, Guarantee, SandboxLimits

SandboxId = NewType("SandboxId", str)

LOCAL_TENANT = "local"
"""Whoever sits at the command line, or calls the library for nobody else, owns what that makes."""

WORKSPACE = PurePosixPath("/workspace")
"""Where every box has its writable, size-limited workspace."""

SKILLS = PurePosixPath("/skills")
"""Where every box has the read-only store of staged skills."""


HANDLERS = PurePosixPath("/opt/sandbox-skills/handlers")
"""Where every box has what calls the handlers of tools, read-only and outside of every skill."""

UNSTAGED_FOLDERS = frozenset({".git", "__pycache__"})
"""Left out of every copy of a skill: history that no run reads, and bytecode of another Python.

`node_modules` stays, a skill may ship it.
"""


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """One box to be made. `needs` is a demand: an engine enforces all of it or starts nothing.

    `tenant` and `run` only label the box. `ttl_seconds` is when it may be reaped whatever its owner says.
    """

    tenant: str = ""
    run: str = ""
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    needs: frozenset[Guarantee] = BASE_GUARANTEES
    network: Literal["none"] = "none"
    ttl_seconds: float = 3600.0

"""What a key may do."""

from __future__ import annotations

from enum import StrEnum


class Scope(StrEnum):
    """`run` uses skills, sessions and artifacts; `skills:write` adds and removes skills; `admin` rules tenants."""

    RUN = "run"
    SKILLS_WRITE = "skills:write"
    ADMIN = "admin"


ALL_SCOPES = frozenset(Scope)

"""Which skills may share a box once one of them was given a secret. Pure.

Runs of one box have one uid: what is in the environment of one can be read by what another has left behind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from sandbox_skills.errors import GrantConflictError

UNKNOWN = "?"
"""Stands for skills of which nothing is known: no digest is this."""


@dataclass(slots=True)
class BoxGrants:
    """The skills that ran in a box, by digest, and the one of them that was given secrets."""

    ran: set[str] = field(default_factory=set[str])
    granted: str | None = None

    @classmethod
    def unknown(cls) -> Self:
        """Returns what counts for files that anybody may have left."""
        return cls({UNKNOWN})

    def copy(self) -> BoxGrants:
        """Returns the same for another box."""
        return BoxGrants(set(self.ran), self.granted)

    def admit(self, digest: str, *, grants: bool) -> None:
        """Notes a run of a skill; raises GrantConflictError where it would share the box of a secret."""
        if self.granted is not None and self.granted != digest:
            raise GrantConflictError(
                "this workspace was given secrets for another skill",
                hint="run this skill in a session of its own",
            )
        if grants and self.ran - {digest}:
            raise GrantConflictError(
                "another skill ran in this workspace, so no secrets are given to this one",
                hint="run this skill in a session of its own",
            )
        self.ran.add(digest)
        if grants:
            self.granted = digest

"""`Idempotency-Key`: a request that is sent again, because its answer was lost, does nothing twice."""

from __future__ import annotations

import hashlib
from typing import Annotated

from fastapi import Header, Request

from sandbox_skills.daemon.truth.run import IdempotencyKey
from sandbox_skills.daemon.working.daemon import Daemon

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="The same key with the same body is the same run, however often it is sent.",
    ),
]


async def idempotency(daemon: Daemon, request: Request, key: str | None) -> IdempotencyKey | None:
    """Returns what a request is known by, None without a key: the same body for another route is another request."""
    if key is None:
        return None
    digest = hashlib.sha256(request.url.path.encode() + b"\n" + await request.body()).hexdigest()
    return IdempotencyKey(key, digest, daemon.settings.daemon.idempotency_hours * 3600)

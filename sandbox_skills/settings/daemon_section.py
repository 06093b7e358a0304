"""The section `daemon`: where it listens, how much it takes on, how long it keeps what it knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.settings.section import Section
from sandbox_skills.spec import MIB

if TYPE_CHECKING:
    from sandbox_skills.settings.kinds import Annotated, Count, Days, Field, Seconds, Size


class DaemonSettings(Section):
    """How `sandbox-skills serve` behaves. Sizes are bytes."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8765
    slots: Annotated[int, Field(ge=1, le=256)] = 8
    agent_slots: Annotated[int, Field(ge=1, le=256)] = 16
    agent_models: tuple[str, ...] = ()
    pool_size: Annotated[int, Field(ge=0, le=64)] = 2
    durable: bool = False
    queue_runs: Count = 10_000
    lease_seconds: Seconds = 30.0
    drain_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 30.0
    wait_seconds: Seconds = 60.0
    body_bytes: Size = 8 * MIB
    upload_bytes: Size = 64 * MIB
    file_bytes: Size = 64 * MIB
    event_bytes: Size = 8 * MIB
    event_days: Days = 7.0
    run_days: Days = 30.0
    idempotency_hours: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 24.0

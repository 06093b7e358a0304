"""What is asked of the server itself: whether it lives, whether it is ready, what it can do, how it is doing."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Depends, Response
from pydantic import ConfigDict, Field

from sandbox_skills.daemon.access.scopes import Scope
from sandbox_skills.daemon.api.auth import caller, requires
from sandbox_skills.daemon.api.dependencies import TheDaemon
from sandbox_skills.daemon.api.values import Told

router = APIRouter()


class Health(Told):
    """That the process answers."""

    status: Literal["ok"] = "ok"


class Readiness(
    Told,
    json_schema_extra={
        "examples": [{"status": "ready", "checks": {"engine": "ok", "store": "ok", "database": "ok"}}]
    },
):
    """Whether the server can do its work; `checks` has a reason for each part that cannot."""

    status: Literal["ready", "draining", "not_ready"]
    checks: dict[str, str] = Field(description="`ok`, or what is wrong, by `engine`, `store` and `database`.")


class Capabilities(
    Told,
    json_schema_extra={
        "examples": [
            {
                "version": "1.0.0",
                "engines": ["docker"],
                "guarantees": ["memory", "no_network", "pids"],
                "toolsets": ["native", "openrouter"],
                "limits": {"run": {"wall_seconds": 300}},
                "features": ["runs", "events"],
            }
        ]
    },
):
    """What this server enforces and allows. What is not here it does not have: nothing is silently less."""

    model_config = ConfigDict(frozen=True)

    version: str
    engines: list[str]
    guarantees: list[str] = Field(description="What every sandbox here is held to.")
    toolsets: list[str]
    limits: dict[str, Any] = Field(description="Seconds and bytes, by section as the settings have them.")
    features: list[str]


@router.get("/healthz", tags=["server"], summary="Is it alive?")
async def health() -> Health:
    """Answers as long as the process does."""
    return Health()


@router.get(
    "/readyz",
    tags=["server"],
    summary="Is it ready?",
    responses={503: {"model": Readiness, "description": "It is about to end, or a part of it fails."}},
)
async def readiness(daemon: TheDaemon, response: Response) -> Readiness:
    """Asks the engine, the store and the database."""
    checks = await daemon.checks()
    broken = any(text != "ok" for text in checks.values())
    status: Literal["ready", "draining", "not_ready"] = "not_ready" if broken else "ready"
    if daemon.draining:
        status = "draining"
    if status != "ready":
        response.status_code = 503
    return Readiness(status=status, checks=checks)


@router.get("/v1/capabilities", tags=["server"], summary="What can it do?", dependencies=[Depends(caller)])
async def capabilities(daemon: TheDaemon) -> Capabilities:
    """Tells engines, guarantees, limits and features."""
    return Capabilities.model_validate(daemon.capabilities())


@router.get(
    "/metrics",
    tags=["server"],
    summary="Metrics for Prometheus",
    response_class=Response,
    dependencies=[Depends(requires(Scope.ADMIN))],
    responses={
        200: {
            "content": {
                "text/plain": {"schema": {"type": "string"}, "example": "sandbox_skills_runs_queued 0\n"}
            },
            "description": "Their text form.",
        }
    },
)
async def metrics(daemon: TheDaemon) -> Response:
    """Counts of all tenants, so that an admin's key is needed: Prometheus sends one as `authorization`."""
    return Response(await daemon.metrics.text(daemon.queue), media_type=daemon.metrics.media_type)

"""`gc`: what nothing uses any more is removed, and only what is ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sandbox_skills.cli.context import run_async
from sandbox_skills.cli.daemon_client import docker_client
from sandbox_skills.cli.terminal import out, print_json, working
from sandbox_skills.wiring import opened

if TYPE_CHECKING:
    from sandbox_skills.cli.context import GlobalOptions
    from sandbox_skills.settings import Settings

DAY_SECONDS = 86_400


def gc(
    context: typer.Context,
    images: Annotated[bool, typer.Option("--images", help="Also remove images of other versions.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Remove sandboxes whose owner is gone, staged skills that nobody uses, and (--images) old images."""
    options: GlobalOptions = context.obj
    options.as_json = as_json
    settings = options.settings()
    with working("cleaning up"):
        removed = run_async(_collect(settings))
        removed["images"] = _prune(settings) if images else []
    if as_json:
        print_json(removed)
        return
    for kind, names in removed.items():
        out.print(f"{kind}: {len(names)} removed")


async def _collect(settings: Settings) -> dict[str, list[str]]:
    async with opened(settings) as live:
        sandboxes = await live.engine.reap(())
        age = settings.store.max_age_days * DAY_SECONDS
        taken = await live.store.gc(max_age=age, max_bytes=settings.store.max_bytes)
    orphans = ["unfinished copy"] * taken.orphans
    return {"sandboxes": [str(name) for name in sandboxes], "skills": [*taken.copies, *orphans]}


def _prune(settings: Settings) -> list[str]:
    from sandbox_skills.engines.image import prune_images  # noqa: PLC0415  # docker-py is slow to import

    return prune_images(docker_client(settings))

"""`gc`: what nothing uses any more is removed, and only what is ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.catalog import sweep_defined_tools
from sandbox_skills.ci.inline import sweep_inline
from sandbox_skills.cli.event_loop import run_async
from sandbox_skills.cli.kept_conversation import sweep_conversations
from sandbox_skills.cli.terminal import out, print_json, working
from sandbox_skills.engines.bubblewrap.rootfs import Wanted, prune
from sandbox_skills.engines.image import prune_images
from sandbox_skills.engines.image_source import FOLDERS
from sandbox_skills.spec import LOCAL_TENANT
from sandbox_skills.wiring import artifact_store, docker_client, library, opened, root_build

if TYPE_CHECKING:
    from sandbox_skills.cli.options import GlobalOptions
    from sandbox_skills.settings import Settings

DAY_SECONDS = 86_400


def gc(options: GlobalOptions, *, images: bool) -> int:
    """Removes what belongs to dead processes, what nobody uses, what is kept too long, and with `images` old images."""
    settings = options.settings()
    with working("cleaning up"):
        removed = run_async(_collect(settings))
        removed["fetches"] = library(settings).sweep()
        removed["conversations"] = sweep_conversations(
            settings.data_dir, settings.store.max_age_days * DAY_SECONDS
        )
        removed["tools"] = sweep_defined_tools()
        removed["cases"] = sweep_inline(settings.data_dir)
        removed["images"] = _prune(settings) if images else []
    if options.as_json:
        print_json(removed)
    else:
        for kind, names in removed.items():
            out.print(f"{kind}: {len(names)} removed")
    return 0


def _prune(settings: Settings) -> list[str]:
    """Removes images and root file systems of other versions; a Docker Engine is asked only where it is used."""
    asked = root_build(settings)
    trees = prune(asked.folder, frozenset({asked.wanted.name, *(Wanted(name).name for name in FOLDERS)}))
    return [*trees, *(prune_images(docker_client(settings)) if settings.engine == "docker" else [])]


async def _collect(settings: Settings) -> dict[str, list[str]]:
    async with opened(settings, pooled=False) as live:
        sandboxes = await live.engine.reap(())
        age = settings.store.max_age_days * DAY_SECONDS
        taken = await live.store.gc(max_age=age, max_bytes=settings.store.max_bytes)
    kept = await artifact_store(settings).retain(settings.artifact_retention(), tenant=LOCAL_TENANT)
    return {
        "sandboxes": [str(name) for name in sandboxes],
        "skills": [*taken.copies, *["unfinished copy"] * taken.orphans],
        "artifacts": [*(item.ref for item in kept.artifacts), *["unfinished file"] * kept.leftovers],
    }

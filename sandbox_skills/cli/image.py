"""`image`: the runner image, built and looked at through the Docker API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.cli.exits import FAILED
from sandbox_skills.cli.terminal import err, out, print_json, working
from sandbox_skills.cli.text import harmless_line
from sandbox_skills.engines import image
from sandbox_skills.engines.bubblewrap import rootfs
from sandbox_skills.engines.bubblewrap.build import build as build_root
from sandbox_skills.wiring import docker_client, root_build

if TYPE_CHECKING:
    from collections.abc import Callable

    from sandbox_skills.cli.options import GlobalOptions
    from sandbox_skills.cli.terminal import Progress
    from sandbox_skills.engines.image import OwnImage
    from sandbox_skills.settings import Settings


def build(options: GlobalOptions, *, target: str | None, base: str | None, fresh: bool) -> int:
    """Builds the runner image, unless this version's is there."""
    settings = options.settings({"image.target": target, "image.base": base})
    if settings.engine == "bubblewrap":
        return _build_root(settings, options, fresh=fresh)
    with working("building the runner image") as progress:
        built = image.build(
            docker_client(settings),
            target=settings.image.target,
            base=settings.image.base,
            cache_dir=settings.data_dir / "cache",
            progress=_lines(progress),
            fresh=fresh,
        )
    if options.as_json:
        print_json({"id": built.id, "tag": built.tag, "seconds": built.seconds, "cached": built.cached})
    else:
        out.print(f"{built.tag} {'is there' if built.cached else f'built in {built.seconds:.0f} s'}")
    return 0


def status(options: GlobalOptions, *, target: str | None) -> int:
    """Says whether the image that sandboxes are made from is there and fit; returns 1 where it is not.

    That is the user's own where the settings name one and no `target` asks for ours.
    """
    settings = options.settings({"image.target": target})
    if settings.engine == "bubblewrap":
        return _root_status(settings, options)
    if settings.image.name is not None and target is None:
        return _own_status(image.own_status(docker_client(settings), settings.image.name), options)
    found = image.status(docker_client(settings), target=settings.image.target)
    if options.as_json:
        print_json({"state": found.state, "tag": found.tag, "id": found.id, "bytes": found.size})
    else:
        size = f", {found.size / 1e6:.0f} MB" if found.size else ""
        out.print(f"{found.tag}: {found.state}{size}")
    return 0 if found.state == "present" else FAILED


def _build_root(settings: Settings, options: GlobalOptions, *, fresh: bool) -> int:
    with working("making the root file system") as progress:
        built = build_root(root_build(settings), _lines(progress), fresh=fresh)
    if options.as_json:
        facts = {"path": str(built.path), "tag": built.name, "seconds": built.seconds, "cached": built.cached}
        print_json(facts)
    else:
        out.print(f"{built.name} {'is there' if built.cached else f'made in {built.seconds:.0f} s'}")
    return 0


def _root_status(settings: Settings, options: GlobalOptions) -> int:
    asked = root_build(settings)
    found = rootfs.find(asked.folder, asked.wanted)
    state = "missing" if found is None else "present"
    if options.as_json:
        print_json(
            {"state": state, "tag": asked.wanted.name, "path": "" if found is None else str(found.path)}
        )
    else:
        out.print(harmless_line(f"{asked.wanted.name}: {state}"))
        if found is None:
            err.print(f"  fix: {asked.wanted.hint}")
    return FAILED if found is None else 0


def _own_status(found: OwnImage, options: GlobalOptions) -> int:
    if options.as_json:
        facts = {"state": found.state, "tag": found.name, "id": found.id, "bytes": found.size}
        print_json({**facts, "reasons": list(found.reasons)})
    else:
        size = f", {found.size / 1e6:.0f} MB" if found.size else ""
        out.print(harmless_line(f"{found.name}, your own (image.name): {found.state}{size}"))
        for line in (*found.reasons, *([f"fix: {found.fix}"] if found.fix else [])):
            err.print(harmless_line(f"  {line}"))
    return 0 if found.state == "present" else FAILED


def _lines(progress: Progress) -> Callable[[str], None]:
    """On a terminal the last line beside the spinner, elsewhere every line: a log should have them all."""
    if err.is_terminal:
        return progress.say
    return lambda line: err.print(harmless_line(line))

"""`skills`: sent to a daemon, listed, fetched and removed there."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

from sandbox_skills.cli.destination import check_destination, destination
from sandbox_skills.cli.event_loop import run_async
from sandbox_skills.cli.server.target import server_options
from sandbox_skills.cli.terminal import err, out, print_json
from sandbox_skills.cli.text import aligned, counted, harmless_line
from sandbox_skills.errors import CommandError, RequestError
from sandbox_skills.wiring import server_client

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator
    from pathlib import Path

    from sandbox_skills.cli.options import GlobalOptions
    from sandbox_skills.client import ServerOptions, SkillInfo, SkillsClient, SkillVersion

T = TypeVar("T")


def upload_skill(options: GlobalOptions, folder: Path, *, server: str | None) -> int:
    """Sends a folder and prints which version it is there; what is odd about it goes to stderr."""
    sent = _asked(options, server, lambda client: client.skills.upload(folder))
    if options.as_json:
        print_json(asdict(sent))
    else:
        out.print(harmless_line(f"{sent.name} {sent.version}"))
    for line in _findings(sent):
        err.print(harmless_line(line))
    return 0


def list_skills(options: GlobalOptions, *, server: str | None) -> int:
    """Prints the skills that runs there may use."""
    found = _asked(options, server, _listed)
    if options.as_json:
        print_json([asdict(one) for one in found])
    elif found:
        # In a pipe lines stay whole: whoever reads them there wants the values.
        for line in aligned(_rows(found), width=out.width if out.is_terminal else None):
            out.print(line)
    else:
        err.print("no skills found; sandbox-skills skills upload FOLDER sends one")
    return 0


def get_skill(
    options: GlobalOptions,
    name: str,
    *,
    version: int | None,
    output: Path | None,
    force: bool,
    server: str | None,
) -> int:
    """Writes a zip of the skill to a new file, or as it is to stdout unless that is a terminal."""
    check_destination(options, output, what="a zip")

    async def fetched(client: SkillsClient) -> int:
        size = 0
        with destination(output, force=force) as file:
            async for piece in client.skills.content(name, "latest" if version is None else version):
                size += file.write(piece)
        return size

    size = _asked(options, server, fetched)
    if options.as_json:
        print_json({"name": name, "size": size, "saved": str(output)})
    elif output is not None:
        err.print(harmless_line(f"saved {output} ({counted(size, 'byte')})"))
    return 0


def remove_skill(
    options: GlobalOptions, name: str, *, version: int | None, every: bool, server: str | None
) -> int:
    """Removes one version, or every one where that was said."""
    if every == (version is not None):
        raise RequestError("say which: either --version N or --all")
    _asked(options, server, lambda client: client.skills.delete(name, version))
    if options.as_json:
        print_json({"removed": name, "version": version})
    else:
        out.print(harmless_line(f"removed {name}" + ("" if version is None else f" {version}")))
    return 0


def _asked(options: GlobalOptions, server: str | None, ask: Callable[[SkillsClient], Awaitable[T]]) -> T:
    """Returns what a daemon answers; raises CommandError where none is named."""
    there = server_options(options, options.settings(), server)
    if there is None:
        raise CommandError(
            "these are the skills of a daemon, and none is named",
            hint="name it with --server URL or SANDBOX_SKILLS_SERVER__URL; `list` tells the skills of this machine",
        )
    return run_async(_answer(there, ask))


async def _answer(there: ServerOptions, ask: Callable[[SkillsClient], Awaitable[T]]) -> T:
    async with server_client(there) as client:
        return await ask(client)


async def _listed(client: SkillsClient) -> list[SkillInfo]:
    return [one async for one in client.skills.list()]


def _rows(found: Iterable[SkillInfo]) -> Iterator[tuple[str, ...]]:
    yield "NAME", "FROM", "LATEST", "DESCRIPTION"
    for one in found:
        latest = "" if one.latest is None else str(one.latest)
        yield tuple(map(harmless_line, (one.name, one.source or "", latest, one.description)))


def _findings(sent: SkillVersion) -> Iterator[str]:
    for one in sent.diagnostics:
        yield f"{one.get('severity', 'note')}: {one.get('code', '')}: {one.get('message', '')}"

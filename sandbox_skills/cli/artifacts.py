"""`artifacts`: the outputs that were kept for the user of the command line."""

from __future__ import annotations

import os
from contextlib import aclosing, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sandbox_skills.artifacts import MAX_PAGE, parse_ref
from sandbox_skills.artifacts.names import SCHEME
from sandbox_skills.cli.destination import check_destination, destination
from sandbox_skills.cli.event_loop import run_async
from sandbox_skills.cli.server.target import server_options
from sandbox_skills.cli.terminal import err, out, print_json
from sandbox_skills.cli.text import aligned, counted, harmless_line
from sandbox_skills.errors import ArtifactNotFoundError, RequestError
from sandbox_skills.spec import LOCAL_TENANT
from sandbox_skills.wiring import artifact_store

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator
    from contextlib import AbstractAsyncContextManager

    from sandbox_skills.artifacts import Artifact, ArtifactReader, Page, Removed
    from sandbox_skills.cli.options import GlobalOptions

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Kept(Protocol):
    """What these commands need of an artifact store, here or on a daemon; as `ArtifactStore` says it."""

    def open(
        self, name: str, version: int | None = None, *, tenant: str
    ) -> AbstractAsyncContextManager[ArtifactReader]: ...

    async def list(
        self,
        prefix: str = "",
        *,
        all_versions: bool = False,
        after: str | None = None,
        limit: int = MAX_PAGE,
        tenant: str,
    ) -> Page: ...

    async def delete(self, name: str, version: int | None = None, *, tenant: str) -> Removed: ...


def kept_artifacts(options: GlobalOptions, server: str | None) -> AbstractAsyncContextManager[Kept]:
    """Returns the artifacts of this machine, or those of the daemon that is meant."""
    settings = options.settings()
    there = server_options(options, settings, server)
    if there is None:
        return nullcontext(artifact_store(settings))
    from sandbox_skills.cli.server.artifacts import server_artifacts  # noqa: PLC0415  # httpx, which few runs need

    return server_artifacts(there)


def list_artifacts(options: GlobalOptions, prefix: str, *, every: bool, server: str | None = None) -> int:
    """Prints the artifacts whose names start with `prefix`."""
    found = run_async(_listed(kept_artifacts(options, server), prefix, every=every))
    if options.as_json:
        print_json([artifact.as_dict() for artifact in found])
    elif found:
        # In a pipe lines stay whole: whoever reads them there wants the values.
        for line in aligned(_rows(found), width=out.width if out.is_terminal else None):
            out.print(line)
    else:
        err.print("no artifacts found")
    return 0


def get_artifact(
    options: GlobalOptions,
    name: str,
    *,
    version: int | None,
    output: Path | None,
    force: bool,
    server: str | None = None,
) -> int:
    """Writes one artifact to a new file, or as it is to stdout unless that is a terminal."""
    name, version = _named(name, version)
    check_destination(options, output, what="an artifact")
    kept = kept_artifacts(options, server)
    with _not_found_told(name):
        artifact = run_async(_fetched(kept, name, version, output, force=force))
    if options.as_json:
        print_json({**artifact.as_dict(), "saved": str(output)})
    elif output is not None:
        err.print(
            harmless_line(f"saved {output} ({counted(artifact.size, 'byte')}, version {artifact.version})")
        )
    return 0


def remove_artifact(
    options: GlobalOptions, name: str, *, version: int | None, every: bool, server: str | None = None
) -> int:
    """Removes one version, or every one where that was said."""
    name, version = _named(name, version)
    if every == (version is not None):
        raise RequestError(
            "say which: either --version N or --all",
            hint="sandbox-skills artifacts list --all NAME tells them",
        )
    kept = kept_artifacts(options, server)
    with _not_found_told(name):
        removed = run_async(_removed(kept, name, version))
    if options.as_json:
        print_json([artifact.as_dict() for artifact in removed.artifacts])
    else:
        out.print(f"{len(removed.artifacts)} removed ({counted(removed.bytes, 'byte')})")
    return 0


@contextmanager
def _not_found_told(name: str) -> Generator[None]:
    """Adds to an error of nothing found what to look at next."""
    try:
        yield
    except ArtifactNotFoundError as error:
        error.hint = "sandbox-skills artifacts list --all tells what is there"
        _, at, version = name.rpartition("@")
        if at and version.isdecimal():
            error.hint += f"; a version is named by --version {version}, or as {SCHEME}{name}"
        raise


def _named(name: str, version: int | None) -> tuple[str, int | None]:
    """Returns what is meant by a name or a reference, and an option beside it."""
    if not name.startswith(SCHEME):
        return name, version
    name, referred = parse_ref(name)
    if None not in {version, referred}:
        raise RequestError("the version is named twice")
    return name, version if referred is None else referred


async def _listed(kept: AbstractAsyncContextManager[Kept], prefix: str, *, every: bool) -> list[Artifact]:
    found: list[Artifact] = []
    after = None
    async with kept as store:
        while True:
            page = await store.list(
                prefix, all_versions=every, after=after, limit=MAX_PAGE, tenant=LOCAL_TENANT
            )
            found += page.artifacts
            after = page.next
            if after is None:
                return found


async def _fetched(
    kept: AbstractAsyncContextManager[Kept],
    name: str,
    version: int | None,
    output: Path | None,
    *,
    force: bool,
) -> Artifact:
    async with kept as store:
        return await fetched(store, name, version, output, force=force)


async def _removed(kept: AbstractAsyncContextManager[Kept], name: str, version: int | None) -> Removed:
    async with kept as store:
        return await store.delete(name, version, tenant=LOCAL_TENANT)


def _rows(artifacts: Iterable[Artifact]) -> Iterator[tuple[str, ...]]:
    yield "CREATED", "SIZE", "TYPE", "VERSION", "NAME"
    for one in artifacts:
        created = datetime.fromtimestamp(one.created, UTC).isoformat(" ", "seconds")
        yield created, str(one.size), harmless_line(one.mime_type), str(one.version), harmless_line(one.name)


async def fetched(
    store: Kept, name: str, version: int | None, output: Path | None, *, force: bool
) -> Artifact:
    """Writes an artifact to a file, or to stdout, and returns it; raises OutputError where it cannot be written."""
    async with store.open(name, version, tenant=LOCAL_TENANT) as reader:
        with destination(output, force=force) as file:
            async with aclosing(reader.chunks()) as chunks:
                async for chunk in chunks:
                    file.write(chunk)
        return reader.artifact

"""`tenants`, `keys` and `audit`: the daemon's database, changed and read directly, whether a daemon runs or not."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from sandbox_skills.cli.destination import destination
from sandbox_skills.cli.event_loop import run_async
from sandbox_skills.cli.exits import FAILED
from sandbox_skills.cli.serve import check_installed
from sandbox_skills.cli.terminal import err, out, print_json
from sandbox_skills.cli.text import aligned, counted, harmless_line
from sandbox_skills.errors import RequestError, SettingsError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
    from pathlib import Path

    from sandbox_skills.cli.options import GlobalOptions
    from sandbox_skills.daemon.access.scopes import Scope
    from sandbox_skills.daemon.service.admin import AdminService
    from sandbox_skills.daemon.truth.audit import AuditTrail
    from sandbox_skills.daemon.truth.database import Database

T = TypeVar("T")

ACTOR = "cli"
"""How the audit log names whoever sits at the command line."""

DAY_SECONDS = 86_400.0

HASH_DIGITS = 64


def create_tenant(options: GlobalOptions, name: str, *, limits: tuple[str, ...]) -> int:
    """Makes a tenant, and the database where there is none yet."""
    wanted = dict(map(_limit, limits))

    async def work(admin: AdminService) -> Any:  # noqa: ANN401  # JSON
        return (await admin.create_tenant(name, limits=wanted, actor=ACTOR)).as_dict()

    made = _with_admin(options, work, make=True)
    if options.as_json:
        print_json(made)
    else:
        out.print(f"made {made['name']} ({made['id']})")
        err.print(f"it has no key yet: sandbox-skills keys create {made['name']}")
    return 0


def list_tenants(options: GlobalOptions) -> int:
    """Prints the tenants."""

    async def work(admin: AdminService) -> Any:  # noqa: ANN401  # JSON
        return [one.as_dict() for one in await admin.tenants()]

    found = _with_admin(options, work)
    head = ("CREATED", "STATE", "ID", "NAME")
    _print_rows(
        options,
        found,
        [head, *((_day(one["created_at"]), _state(one), one["id"], one["name"]) for one in found)],
    )
    return 0


def disable_tenant(options: GlobalOptions, tenant: str, *, undo: bool) -> int:
    """Lets the keys of a tenant count no more, or again."""

    async def work(admin: AdminService) -> Any:  # noqa: ANN401  # JSON
        found = await admin.tenant(tenant)
        return (await admin.update_tenant(found.id, disabled=not undo, actor=ACTOR)).as_dict()

    changed = _with_admin(options, work)
    if options.as_json:
        print_json(changed)
    else:
        out.print(f"{changed['name']} is {_state(changed)}")
    return 0


def create_key(
    options: GlobalOptions, tenant: str, *, scopes: tuple[str, ...], name: str, days: float | None
) -> int:
    """Makes a key and prints it alone on stdout, so that a script can take it from there."""
    if days is not None and not days > 0:
        raise RequestError("--expires-days takes more than 0")
    expires_in = None if days is None else days * DAY_SECONDS

    async def work(admin: AdminService) -> Any:  # noqa: ANN401  # JSON
        found = await admin.tenant(tenant)
        made = await admin.create_key(
            found.id, scopes=_scopes(scopes), name=name, expires_in=expires_in, actor=ACTOR
        )
        return {**made.key.as_dict(), "key": made.token}

    made = _with_admin(options, work)
    if options.as_json:
        print_json(made)
    else:
        err.print("the key, shown this once:")
        out.print(made["key"])
    return 0


def list_keys(options: GlobalOptions, tenant: str | None) -> int:
    """Prints keys by how they start; never a key."""

    async def work(admin: AdminService) -> Any:  # noqa: ANN401  # JSON
        tenant_id = None if tenant is None else (await admin.tenant(tenant)).id
        names = {one.id: one.name for one in await admin.tenants()}
        return [{**key.as_dict(), "tenant": names[key.tenant_id]} for key in await admin.keys(tenant_id)]

    found = _with_admin(options, work)
    rows: list[tuple[str, ...]] = [("CREATED", "EXPIRES", "REVOKED", "TENANT", "SCOPES", "KEY", "NAME")]
    for one in found:
        days = (_day(one[at]) for at in ("created_at", "expires_at", "revoked_at"))
        rows.append(
            (*days, one["tenant"], ",".join(one["scopes"]), one["prefix"], harmless_line(one["name"]))
        )
    _print_rows(options, found, rows)
    return 0


def revoke_key(options: GlobalOptions, key: str) -> int:
    """Ends a key at once."""

    async def work(admin: AdminService) -> Any:  # noqa: ANN401  # JSON
        named = {one.prefix: one.id for one in await admin.keys()}
        return (await admin.revoke_key(named.get(key, key), actor=ACTOR)).as_dict()

    revoked = _with_admin(options, work)
    if options.as_json:
        print_json(revoked)
    else:
        out.print(f"revoked {revoked['prefix']}")
    return 0


def verify_audit(options: GlobalOptions, known: str | None) -> int:
    """Tells whether the log fits together; FAILED if not."""
    seen = None if known is None else _known(known)
    told: dict[str, Any] = run_async(_verified(options, seen))
    if options.as_json:
        print_json(told)
    elif told["whole"]:
        out.print(f"{counted(told['entries'], 'entry', 'entries')}, all fit together")
        if told["entries"]:
            err.print(f"to be told later of a cut end: --known {told['entries']}:{told['hash']}")
    else:
        err.print(f"the audit log was changed: {told['message']}")
    return 0 if told["whole"] else FAILED


async def _verified(options: GlobalOptions, known: tuple[int, str] | None) -> dict[str, Any]:
    from sandbox_skills.daemon.errors import AuditDamagedError  # noqa: PLC0415  # of an extra

    async with _trail(options) as trail:
        try:
            last = await trail.verify(known=known)
        except AuditDamagedError as error:
            return {"whole": False, "seq": error.seq, "message": error.message}
    return {"whole": True, "entries": last.seq if last else 0, "hash": last.hash if last else None}


def export_audit(options: GlobalOptions, output: Path | None) -> int:
    """Writes the log, a line of JSON for each entry, or one JSON list with --json."""
    run_async(_exported(options, output))
    return 0


async def _exported(options: GlobalOptions, output: Path | None) -> None:
    async with _trail(options) as trail:
        if options.as_json and output is None:
            print_json([entry.as_dict() async for entry in trail.entries()])
            return
        count = 0
        with destination(output, force=False) as file:
            async for entry in trail.entries():
                file.write(json.dumps(entry.as_dict()).encode() + b"\n")
                count += 1
    if options.as_json:
        print_json({"entries": count, "saved": str(output)})
    elif output is not None:
        err.print(harmless_line(f"saved {output} ({counted(count, 'entry', 'entries')})"))


def _with_admin(
    options: GlobalOptions, work: Callable[[AdminService], Awaitable[T]], *, make: bool = False
) -> T:
    """Returns what `work` does with the database of the data directory, which only `make` makes."""
    return run_async(_administered(options, work, make=make))


async def _administered(
    options: GlobalOptions, work: Callable[[AdminService], Awaitable[T]], *, make: bool
) -> T:
    async with _database(options, make=make) as database:
        from sandbox_skills.daemon.service.admin import AdminService  # noqa: PLC0415  # of an extra

        return await work(AdminService(database))


@asynccontextmanager
async def _trail(options: GlobalOptions) -> AsyncGenerator[AuditTrail]:
    async with _database(options, make=False) as database:
        from sandbox_skills.daemon.truth.audit import AuditTrail  # noqa: PLC0415  # of an extra

        yield AuditTrail(database)


@asynccontextmanager
async def _database(options: GlobalOptions, *, make: bool) -> AsyncGenerator[Database]:
    check_installed()
    from sandbox_skills.daemon.truth.database import DATABASE_FILE, opened_database  # noqa: PLC0415  # of an extra

    path = options.settings().data_dir / DATABASE_FILE
    if not make and not path.exists():
        raise SettingsError(
            f"there is no daemon's database in {path.parent}",
            hint="sandbox-skills serve makes it, and sandbox-skills tenants create; or name another data_dir",
        )
    async with opened_database(path) as database:
        yield database


def _scopes(names: Iterable[str]) -> frozenset[Scope]:
    from sandbox_skills.daemon.access.scopes import Scope  # noqa: PLC0415  # of an extra

    try:
        return frozenset(map(Scope, names))
    except ValueError as error:
        raise RequestError(f"{error}", hint=f"scopes are {', '.join(Scope)}") from error


def _limit(text: str) -> tuple[str, Any]:
    """Returns a name and its value, which is JSON where it can be, else a text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise RequestError(f"{text!r} is no NAME=VALUE", hint="such as --limit concurrency=2")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _known(text: str) -> tuple[int, str]:
    seq, _, digest = text.partition(":")
    if not (seq.isascii() and seq.isdigit()) or len(digest) != HASH_DIGITS:
        raise RequestError(f"{text!r} is no SEQ:HASH", hint="as sandbox-skills audit verify told it")
    return int(seq), digest


def _print_rows(options: GlobalOptions, found: Sequence[Any], rows: Sequence[tuple[str, ...]]) -> None:
    if options.as_json:
        print_json(found)
    elif found:
        for line in aligned(rows, width=out.width if out.is_terminal else None):
            out.print(line)
    else:
        err.print("none found")


def _state(tenant: dict[str, Any]) -> str:
    return "enabled" if tenant["disabled_at"] is None else "disabled"


def _day(seconds: float | None) -> str:
    return "-" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")

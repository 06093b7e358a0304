"""The commands of whoever rules a daemon, with their options. They work on its database, whether it runs or not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sandbox_skills.cli.options import JsonOption, options_of

TenantArgument = Annotated[str, typer.Argument(metavar="TENANT", help="A tenant, by its name or id.")]

tenants = typer.Typer(help="Make, list and disable the tenants of the daemon here.")
keys = typer.Typer(help="Make, list and revoke the API keys of tenants.")
audit = typer.Typer(help="Check or print what was done on the daemon here.")


@tenants.command("create")
def create_tenant(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Characters of a-z, 0-9 and -, at most 63.")],
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="NAME=VALUE",
            help="A limit of its own, such as concurrency=2; can be repeated.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Make a tenant, which has no key yet."""
    from sandbox_skills.cli.admin import create_tenant as work

    return work(options_of(context, as_json), name, limits=tuple(limit or ()))


@tenants.command("list")
def list_tenants(context: typer.Context, as_json: JsonOption = False) -> int:
    """List the tenants."""
    from sandbox_skills.cli.admin import list_tenants as work

    return work(options_of(context, as_json))


@tenants.command("disable")
def disable_tenant(
    context: typer.Context,
    tenant: TenantArgument,
    undo: Annotated[bool, typer.Option("--undo", help="Let its keys count again.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Let no key of a tenant count; what of its runs goes on goes on."""
    from sandbox_skills.cli.admin import disable_tenant as work

    return work(options_of(context, as_json), tenant, undo=undo)


@keys.command("create")
def create_key(
    context: typer.Context,
    tenant: TenantArgument,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            metavar="SCOPE",
            help="What it may: run (default), skills:write, admin; can be repeated.",
        ),
    ] = None,
    name: Annotated[str, typer.Option("--name", metavar="TEXT", help="What you call it.")] = "",
    days: Annotated[
        float | None,
        typer.Option("--expires-days", metavar="DAYS", help="How long it counts; for ever by default."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Make a key and print it, this once."""
    from sandbox_skills.cli.admin import create_key as work

    return work(options_of(context, as_json), tenant, scopes=tuple(scope or ("run",)), name=name, days=days)


@keys.command("list")
def list_keys(
    context: typer.Context,
    tenant: Annotated[
        str | None, typer.Argument(metavar="TENANT", help="Of that tenant alone, by its name or id.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """List the keys, by how they start."""
    from sandbox_skills.cli.admin import list_keys as work

    return work(options_of(context, as_json), tenant)


@keys.command("revoke")
def revoke_key(
    context: typer.Context,
    key: Annotated[str, typer.Argument(metavar="KEY", help="A key, by its id or by how it starts.")],
    as_json: JsonOption = False,
) -> int:
    """End a key at once."""
    from sandbox_skills.cli.admin import revoke_key as work

    return work(options_of(context, as_json), key)


@audit.command("verify")
def verify_audit(
    context: typer.Context,
    known: Annotated[
        str | None,
        typer.Option(
            "--known", metavar="SEQ:HASH", help="An entry that was seen before; it must still be there."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Say whether the audit log fits together; exit 1 if not."""
    from sandbox_skills.cli.admin import verify_audit as work

    return work(options_of(context, as_json), known)


@audit.command("export")
def export_audit(
    context: typer.Context,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="A new file; else to stdout.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Print the audit log, a line of JSON for each entry."""
    from sandbox_skills.cli.admin import export_audit as work

    return work(options_of(context, as_json), output)

"""`tenants`, `keys` and `audit`: what they print, change and refuse, on the database of the data directory."""

from __future__ import annotations

import json
import sqlite3
import stat
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.conftest import Cli


def test_a_tenant_is_made_listed_and_disabled(cli: Cli, tmp_path: Path) -> None:
    made = cli("tenants", "create", "acme", "--limit", "concurrency=2", "--json").json
    assert (made["name"], made["limits"]) == ("acme", {"concurrency": 2})
    assert stat.S_IMODE((tmp_path / "data" / "daemon.db").stat().st_mode) == 0o600
    listed = cli("tenants", "list")
    assert listed.out.splitlines()[0].split() == ["CREATED", "STATE", "ID", "NAME"]
    assert listed.out.splitlines()[1].split()[1:] == ["enabled", made["id"], "acme"]
    assert cli("tenants", "disable", "acme").out == "acme is disabled\n"
    assert cli("tenants", "list", "--json").json[0]["disabled_at"] is not None
    assert cli("tenants", "disable", made["id"], "--undo").out == "acme is enabled\n"


def test_a_key_is_printed_once_and_kept_nowhere(cli: Cli, tmp_path: Path) -> None:
    cli("tenants", "create", "acme")
    done = cli("keys", "create", "acme", "--scope", "run", "--scope", "admin", "--name", "mine")
    key = done.out.strip()
    assert done.out == f"{key}\n"
    assert key.startswith("ssk_")
    secret = key.rpartition("_")[2].encode()
    assert all(secret not in file.read_bytes() for file in (tmp_path / "data").glob("daemon.db*"))
    (kept,) = cli("keys", "list", "--json").json
    assert key.startswith(kept["prefix"])
    assert (kept["scopes"], kept["name"], kept["tenant"]) == (["admin", "run"], "mine", "acme")
    assert key not in cli("keys", "list", "acme").out
    assert cli("keys", "revoke", kept["prefix"]).out == f"revoked {kept['prefix']}\n"
    assert cli("keys", "list", "--json").json[0]["revoked_at"] is not None


def test_a_key_may_have_its_time(cli: Cli) -> None:
    cli("tenants", "create", "acme")
    made = cli("keys", "create", "acme", "--expires-days", "2", "--json").json
    assert made["expires_at"] == pytest.approx(made["created_at"] + 172_800, abs=60)
    assert made["scopes"] == ["run"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("tenants", "create", "Not a name"), "no name of a tenant"),
        (("tenants", "create", "acme"), "already"),
        (("tenants", "create", "other", "--limit", "concurrency"), "NAME=VALUE"),
        (("tenants", "create", "other", "--limit", "concurrency=0"), "concurrency"),
        (("tenants", "create", "other", "--limit", "colour=red"), "colour"),
        (("tenants", "disable", "nobody"), "no tenant"),
        (("keys", "create", "nobody"), "no tenant"),
        (("keys", "create", "acme", "--scope", "all"), "all"),
        (("keys", "create", "acme", "--expires-days", "0"), "more than 0"),
        (("keys", "create", "acme", "--expires-days", "nan"), "more than 0"),
        (("keys", "list", "nobody"), "no tenant"),
        (("keys", "revoke", "nothing"), "no key"),
        (("audit", "verify", "--known", "1"), "SEQ:HASH"),
    ],
)
def test_what_cannot_be_done_is_told_and_changes_nothing(
    cli: Cli, arguments: tuple[str, ...], told: str
) -> None:
    cli("tenants", "create", "acme")
    before = cli("audit", "export").out
    done = cli(*arguments)
    assert done.code == 2
    assert told in done.err
    assert cli("audit", "export").out == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("tenants", "list"),
        ("tenants", "disable", "acme"),
        ("keys", "create", "acme"),
        ("keys", "list"),
        ("keys", "revoke", "x"),
        ("audit", "verify"),
        ("audit", "export"),
    ],
)
def test_without_a_database_that_is_told_and_none_is_made(
    cli: Cli, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    done = cli(*arguments)
    assert done.code == 2
    assert "no daemon's database" in done.err
    assert not (tmp_path / "data" / "daemon.db").exists()


def test_the_audit_log_is_whole_until_somebody_changes_it(cli: Cli, tmp_path: Path) -> None:
    cli("tenants", "create", "acme")
    cli("keys", "create", "acme")
    whole = cli("audit", "verify", "--json")
    assert (whole.code, whole.json["entries"]) == (0, 2)
    known = f"2:{whole.json['hash']}"
    assert cli("audit", "verify").out == "2 entries, all fit together\n"
    assert cli("audit", "verify", "--known", known).code == 0
    with closing(sqlite3.connect(tmp_path / "data" / "daemon.db")) as database:
        database.execute("delete from audit where seq = 2")
        database.commit()
        assert cli("audit", "verify").code == 0
        assert cli("audit", "verify", "--known", known).code == 1
        database.execute("update audit set actor = 'nobody'")
        database.commit()
    done = cli("audit", "verify")
    assert (done.code, done.err) == (
        1,
        "the audit log was changed: entry 1 was changed after it was written\n",
    )
    assert cli("audit", "verify", "--json").json["seq"] == 1


def test_the_audit_log_is_exported_as_lines(cli: Cli, home: Path) -> None:
    cli("tenants", "create", "acme")
    cli("tenants", "disable", "acme")
    lines = [json.loads(line) for line in cli("audit", "export").out.splitlines()]
    assert [(one["seq"], one["action"], one["actor"]) for one in lines] == [
        (1, "tenant.create", "cli"),
        (2, "tenant.update", "cli"),
    ]
    assert cli("audit", "export", "--json").json == lines
    assert cli("audit", "export", "-o", "log.jsonl").err == "saved log.jsonl (2 entries)\n"
    assert [json.loads(line) for line in (home / "log.jsonl").read_text().splitlines()] == lines
    assert cli("audit", "export", "-o", "log.jsonl").code == 2

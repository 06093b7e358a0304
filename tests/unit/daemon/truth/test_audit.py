from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, update

from sandbox_skills.daemon.errors import AuditDamagedError, TenantExistsError
from sandbox_skills.daemon.truth.audit import NO_HASH, AuditEntry, AuditTrail, Deed, check_next, entry_hash
from sandbox_skills.daemon.truth.changes import Change
from sandbox_skills.daemon.truth.tables import AuditRow
from sandbox_skills.daemon.truth.tenants import Tenants

if TYPE_CHECKING:
    from sqlalchemy import Executable

    from sandbox_skills.daemon.truth.database import Database

pytestmark = pytest.mark.anyio

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture
async def trail(database: Database) -> AuditTrail:
    trail = AuditTrail(database)
    for number in range(5):
        await trail.record(
            Deed("key:1", "run.submit", f"run:{number}", "t1" if number % 2 else "t2", {"n": number})
        )
    return trail


async def change(database: Database, query: Executable) -> None:
    await database.write(Change.AUDIT_APPEND, lambda session: session.execute(query))


async def test_entries_are_numbered_and_follow_each_other(trail: AuditTrail) -> None:
    entries = [entry async for entry in trail.entries()]
    assert [entry.seq for entry in entries] == [1, 2, 3, 4, 5]
    assert [entry.previous for entry in entries] == [NO_HASH, *(entry.hash for entry in entries[:-1])]
    assert await trail.verify() == entries[-1]


async def test_an_empty_log_is_whole(database: Database) -> None:
    assert await AuditTrail(database).verify() is None


async def test_one_tenants_entries_are_read_by_pages(trail: AuditTrail) -> None:
    first = await trail.page(tenant_id="t2", limit=2)
    assert [entry.subject for entry in first] == ["run:0", "run:2"]
    assert [entry.subject for entry in await trail.page(tenant_id="t2", after=first[-1].seq)] == ["run:4"]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("at", 1.0),
        ("tenant_id", None),
        ("actor", "key:2"),
        ("action", "x"),
        ("subject", "run:9"),
        ("detail", {"n": 9}),
        ("previous", "0" * 64),
        ("hash", "0" * 64),
    ],
)
async def test_a_changed_value_shows(
    trail: AuditTrail, database: Database, column: str, value: object
) -> None:
    await change(database, update(AuditRow).where(AuditRow.seq == 3).values({column: value}))
    with pytest.raises(AuditDamagedError) as caught:
        await trail.verify()
    assert caught.value.seq == 3


async def test_an_entry_that_was_rewritten_with_its_hash_shows_in_the_next(
    trail: AuditTrail, database: Database
) -> None:
    entry = (await trail.page(after=2, limit=1))[0]
    forged = AuditEntry(**{**entry.as_dict(), "actor": "key:2"})
    values = {"actor": forged.actor, "hash": entry_hash(forged)}
    await change(database, update(AuditRow).where(AuditRow.seq == 3).values(values))
    with pytest.raises(AuditDamagedError) as caught:
        await trail.verify()
    assert caught.value.seq == 4


@pytest.mark.parametrize("seq", [1, 3])
async def test_an_entry_that_was_taken_out_shows(trail: AuditTrail, database: Database, seq: int) -> None:
    await change(database, delete(AuditRow).where(AuditRow.seq == seq))
    with pytest.raises(AuditDamagedError) as caught:
        await trail.verify()
    assert caught.value.seq == seq


async def test_a_cut_end_shows_to_those_who_know_it(trail: AuditTrail, database: Database) -> None:
    last = await trail.verify()
    assert last is not None
    await trail.record(Deed("key:1", "x", "y"))
    assert (await trail.verify(known=(last.seq, last.hash))) is not None
    await change(database, delete(AuditRow).where(AuditRow.seq >= 5))
    assert (await trail.verify()) is not None
    with pytest.raises(AuditDamagedError, match="5"):
        await trail.verify(known=(last.seq, last.hash))


async def test_another_chain_under_known_numbers_shows(trail: AuditTrail) -> None:
    with pytest.raises(AuditDamagedError):
        await trail.verify(known=(2, "f" * 64))


async def test_a_change_and_its_entry_are_there_together(database: Database) -> None:
    tenants = Tenants(database)
    await asyncio.gather(*(tenants.create(f"t{number}", actor="cli") for number in range(20)))
    entries = await AuditTrail(database).page()
    assert {entry.subject for entry in entries} == {f"tenant:{one.id}" for one in await tenants.list()}
    await AuditTrail(database).verify()


async def test_a_change_that_fails_has_no_entry(database: Database) -> None:
    tenants = Tenants(database)
    await tenants.create("acme", actor="cli")
    with pytest.raises(TenantExistsError):
        await tenants.create("acme", actor="cli")
    assert len(await AuditTrail(database).page()) == 1


@given(JSON, st.text(), st.floats(0, 4e9))
def test_the_hash_of_an_entry_covers_any_value(detail: object, actor: str, at: float) -> None:
    entry = AuditEntry(1, at, None, actor, "a", "s", {"d": detail}, NO_HASH, "")
    whole = AuditEntry(**{**entry.as_dict(), "hash": entry_hash(entry)})
    check_next(None, whole)
    with pytest.raises(AuditDamagedError):
        check_next(None, AuditEntry(**{**whole.as_dict(), "actor": actor + "x"}))

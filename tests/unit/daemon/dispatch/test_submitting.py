from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from sqlalchemy import create_engine, insert, select
from sqlalchemy.pool import StaticPool

from sandbox_skills.daemon.dispatch.base import Accepted, Node
from sandbox_skills.daemon.dispatch.claiming import claim
from sandbox_skills.daemon.dispatch.options import QueueOptions
from sandbox_skills.daemon.dispatch.submitting import submit
from sandbox_skills.daemon.truth.run import NewRun, RunState, SkillRef
from sandbox_skills.daemon.truth.runs import Holder, begin
from sandbox_skills.daemon.truth.tables import AUDIT, EVENT, NODE, RUN, SESSION, TENANT, Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection

    from sandbox_skills.daemon.truth.run import Run

NOW = 1_000.0
ME = Node("me", slots=8, capabilities=frozenset({"docker"}))


@dataclass(frozen=True)
class World:
    """What is there when a run of `tenants[0]` comes, in its session where it has one."""

    tenants: Sequence[tuple[int, bool, int]]
    """The last turn of each, whether it is disabled, and its concurrency."""
    runs: Sequence[tuple[int, bool, bool]]
    """Whose each is, whether it is in the session, and whether it goes."""
    session_node: str | None
    draining: bool | None
    """None: the node is not known."""
    per_session: int


runs = st.tuples(st.integers(0, 1), st.booleans(), st.sampled_from([True, True, False]))
worlds = st.builds(
    World,
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from([False, False, True]), st.integers(1, 3)),
        min_size=2,
        max_size=2,
    ),
    st.lists(runs, max_size=3),
    st.sampled_from([None, "me", "other"]),
    st.sampled_from([False, False, True, None]),
    st.integers(1, 2),
)
news = st.builds(
    NewRun,
    st.just("tenant 0"),
    st.just({"argv": ["a"]}),
    st.just(SkillRef("echo", "1", "sha")),
    session_id=st.sampled_from([None, None, "session"]),
    needs=st.sampled_from([frozenset[str](), frozenset({"docker"}), frozenset({"other"})]),
    actor=st.just("test"),
)


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    try:
        Table.metadata.create_all(engine)
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def fill(connection: Connection, world: World) -> None:
    for number, (turn, is_disabled, concurrency) in enumerate(world.tenants):
        name, at = f"tenant {number}", NOW if is_disabled else None
        limits = {"concurrency": concurrency}
        connection.execute(
            insert(TENANT).values(
                id=name, name=name, limits=limits, policy={}, turn=turn, created_at=NOW, disabled_at=at
            )
        )
    connection.execute(
        insert(SESSION).values(
            id="session",
            tenant_id="tenant 0",
            name="",
            state="active",
            node=world.session_node,
            ttl_seconds=1.0,
            created_at=NOW,
            last_used_at=NOW,
            expires_at=NOW,
        )
    )
    if world.draining is not None:
        connection.execute(
            insert(NODE).values(
                id="me", started_at=NOW, heartbeat_at=NOW, draining=world.draining, slots=8, capabilities=[]
            )
        )
    for number, (owner, is_in_session, goes) in enumerate(world.runs):
        new = NewRun(f"tenant {owner}", {}, session_id="session" if is_in_session else None)
        begin(connection, f"old {number}", new, now=NOW, holder=Holder("me", NOW) if goes else None)


def rows(connection: Connection, new_id: str) -> list[dict[str, Any]]:
    """Returns all that is there, but of the new run's id, which differs."""
    found = [
        dict(row)
        for table in (RUN, EVENT, TENANT, AUDIT)
        for row in connection.execute(select(table)).mappings()
    ]
    for row in found:
        row.pop("hash", None)
        row.update({name: "new" for name, value in row.items() if new_id in str(value) and name != "data"})
    return sorted(found, key=str)


def accepted(connection: Connection, new: NewRun, options: QueueOptions, node: Node | None) -> Run:
    answer = submit(connection, new, options, node=node, now=NOW)
    assert isinstance(answer, Accepted)
    return answer.run


@given(worlds, news, st.integers(1, 8))
def test_a_run_that_begins_at_once_is_as_if_it_had_waited_and_been_claimed(
    connection: Connection, world: World, new: NewRun, slots: int
) -> None:
    options = QueueOptions(runs_per_session=world.per_session)
    with connection.begin() as trial:
        fill(connection, world)
        mine = accepted(connection, new, options, ME)
        at_once = rows(connection, mine.id)
        trial.rollback()
    with connection.begin() as trial:
        fill(connection, world)
        other = accepted(connection, new, options, None)
        claimed = claim(connection, ME, options, slots=slots, now=NOW)
        in_turn = rows(connection, other.id)
        trial.rollback()
    nothing_waits = all(goes for _, _, goes in world.runs)
    begins = mine.state is RunState.RUNNING
    event(f"at once: {begins}")
    assert other.state is RunState.QUEUED
    assert begins == (nothing_waits and bool(claimed))
    if begins:
        assert at_once == in_turn
        assert [replace(run, id=mine.id) for run in claimed] == [mine]

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    bindparam,
    create_engine,
    insert,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.pool import StaticPool

from sandbox_skills.daemon.truth.prepared import Prepared, execute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

THING = Table(
    "thing",
    MetaData(),
    Column("name", String, primary_key=True),
    Column("count", Integer, default=7),
    Column("weight", Float),
    Column("good", Boolean),
    Column("more", JSON(none_as_null=True)),
)
ADD = Prepared(insert(THING).values({column.name: bindparam(column.name) for column in THING.c}))
FIND = Prepared(select(*THING.c).where(THING.c.name == bindparam("wanted")))

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
things = st.fixed_dictionaries(
    {
        "name": st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
        "count": st.none() | st.integers(-(2**63), 2**63 - 1),
        "weight": st.none() | st.floats(allow_nan=False),
        "good": st.none() | st.booleans(),
        "more": json_values,
    }
)


def thing(name: str, **values: object) -> dict[str, object]:
    return {"name": name, "count": 1, "weight": 0.5, "good": True, "more": {"a": [1]}, **values}


def opened() -> Iterator[Connection]:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    try:
        with engine.connect() as connection, connection.begin():
            THING.metadata.create_all(connection)
            yield connection
    finally:
        engine.dispose()


@pytest.fixture
def connection() -> Iterator[Connection]:
    yield from opened()


@given(things)
def test_values_come_back_as_sqlalchemy_reads_them(values: dict[str, object]) -> None:
    for connection in opened():
        ADD.run(connection, values)
        row = FIND.first(connection, {"wanted": values["name"]})
        assert row is not None
        assert row == connection.execute(select(*THING.c)).one()
        assert row._asdict() == values


def test_rows_have_their_columns_by_name_and_may_be_none(connection: Connection) -> None:
    ADD.run_all(connection, [thing(name) for name in "abc"])
    names = Prepared(select(THING.c.name, THING.c.good).order_by(THING.c.name))
    assert [(row.name, row.good) for row in names.all(connection)] == [("a", True), ("b", True), ("c", True)]
    assert FIND.first(connection, {"wanted": "d"}) is None
    assert not FIND.all(connection, {"wanted": "d"})


def test_a_change_returns_what_it_says(connection: Connection) -> None:
    ADD.run(connection, thing("a"))
    more = update(THING).where(THING.c.name == bindparam("wanted"), THING.c.good == True)  # noqa: E712
    changed = Prepared(more.values(weight=THING.c.weight + bindparam("more_of_it")).returning(THING.c.weight))
    row = changed.first(connection, {"wanted": "a", "more_of_it": 4})
    assert row is not None
    assert row.weight == 4.5
    assert changed.first(connection, {"wanted": "b", "more_of_it": 4}) is None


def test_a_value_that_is_not_given_is_told_and_no_default_stands_in(connection: Connection) -> None:
    values = thing("a")
    del values["count"]
    with pytest.raises(KeyError, match="count"):
        ADD.run(connection, values)


def test_faults_of_the_driver_are_those_of_sqlalchemy(connection: Connection) -> None:
    ADD.run(connection, thing("a"))
    with pytest.raises(IntegrityError):
        ADD.run(connection, thing("a"))
    with pytest.raises(IntegrityError):
        ADD.run_all(connection, [thing("b"), thing("a")])
    with pytest.raises(OperationalError, match="no such table"):
        execute(connection, "select * from nowhere")


def test_lists_of_values_cannot_be_prepared(connection: Connection) -> None:
    for is_wanted in (THING.c.name.in_(bindparam("wanted", expanding=True)), THING.c.name.in_([])):
        with pytest.raises(TypeError, match="lists"):
            Prepared(select(THING.c.name).where(is_wanted)).all(connection, {"wanted": ["a"]})


def test_each_dialect_has_a_text_of_its_own() -> None:
    lite, post = (FIND._form(dialect()) for dialect in (sqlite.dialect, postgresql.dialect))
    assert lite.given({"wanted": "a"}) == ["a"]
    assert post.given({"wanted": "a"}) == {"wanted": "a"}
    assert "?" in lite.text
    assert "%(wanted)s" in post.text

"""Statements that are compiled once and then go straight to the driver: for the way that every run goes.

SQLAlchemy's own way costs ten times what the driver needs for such a statement. One is written as everywhere else, and
compiled for the dialect of its connection; its types convert values both ways, as they always do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Text, bindparam, cast
from sqlalchemy.engine import result_tuple
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from sqlalchemy import (
        BindParameter,
        Column,
        Connection,
        Delete,
        Dialect,
        Insert,
        Label,
        Row,
        Select,
        Update,
    )
    from sqlalchemy.engine.interfaces import DBAPICursor
    from sqlalchemy.types import TypeEngine

    Convert = Callable[[Any], Any]
    Statement = Select[*tuple[Any, ...]] | Insert | Update | Delete
    Values = Mapping[str, object]

NOTHING: Values = {}
"""The values of a statement that takes none."""


def as_text(column: Column[Any]) -> Label[str]:
    """Returns a column of JSON as it stands there: what has not changed need not be read."""
    return cast(column, Text).label(column.name)


def named(names: Iterable[str], *, as_json: Collection[str] = ()) -> dict[str, BindParameter[Any]]:
    """Returns values of columns, each by the column's name; those in `as_json` are JSON already when they are given."""
    return {name: bindparam(name, type_=Text() if name in as_json else None) for name in names}


class Prepared:
    """A statement, each of whose values has a name and is given with each call.

    What it returns has its columns by name. Values that are lists (expanding parameters) cannot be prepared, which
    raises TypeError; defaults of columns are not filled in. For the rest it raises what SQLAlchemy raises.
    """

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self._forms: dict[tuple[str, str], _Form] = {}

    def first(self, connection: Connection, values: Values = NOTHING) -> Row[Any] | None:
        """Returns the first row, or None."""
        rows = self._rows(connection, values, most=1)
        return rows[0] if rows else None

    def all(self, connection: Connection, values: Values = NOTHING) -> Sequence[Row[Any]]:
        """Returns every row."""
        return self._rows(connection, values, most=None)

    def run(self, connection: Connection, values: Values) -> None:
        """Executes a statement that returns nothing."""
        form = self._form(connection.dialect)
        execute(connection, form.text, form.given(values), most=0)

    def run_all(self, connection: Connection, rows: Iterable[Values]) -> None:
        """Executes it with each of several sets of values."""
        form = self._form(connection.dialect)
        _execute_all(connection, form.text, [form.given(values) for values in rows])

    def _rows(self, connection: Connection, values: Values, *, most: int | None) -> Sequence[Row[Any]]:
        form = self._form(connection.dialect)
        found, described = execute(connection, form.text, form.given(values), most=most)
        if not found:
            return ()
        if form.read_as is None:
            form.read_as = form.readers(connection.dialect, described)
        return [form.row(one) for one in found]

    def _form(self, dialect: Dialect) -> _Form:
        key = (dialect.name, dialect.driver)
        known = self._forms.get(key)
        if known is None:
            known = self._forms[key] = _formed(self._statement, dialect)
        return known


def execute(
    connection: Connection,
    text: str,
    values: Any = (),  # noqa: ANN401  # drivers differ
    *,
    most: int | None = None,
) -> tuple[Sequence[Sequence[Any]], Sequence[Sequence[Any]]]:
    """Executes a text by the driver alone; raises what SQLAlchemy raises.

    Returns rows, at most so many, and how the driver describes their columns.
    """
    cursor = _cursor(connection)
    try:
        cursor.execute(text, values)
        if most == 0:
            return (), ()
        return (cursor.fetchall() if most is None else cursor.fetchmany(most)), cursor.description or ()
    except connection.dialect.loaded_dbapi.Error as error:
        raise _fault(connection, text, error) from error
    finally:
        cursor.close()


def _execute_all(connection: Connection, text: str, rows: Sequence[Any]) -> None:
    cursor = _cursor(connection)
    try:
        cursor.executemany(text, rows)
    except connection.dialect.loaded_dbapi.Error as error:
        raise _fault(connection, text, error) from error
    finally:
        cursor.close()


def _cursor(connection: Connection) -> DBAPICursor:
    """Returns the driver's own, past the pool's."""
    driver = connection.connection.dbapi_connection
    assert driver is not None, "who has a connection has not given it back"
    return driver.cursor()


def _fault(connection: Connection, text: str, error: Exception) -> BaseException:
    """Returns SQLAlchemy's error for one of the driver."""
    dialect = connection.dialect
    return DBAPIError.instance(text, None, error, dialect.loaded_dbapi.Error, dialect=dialect)


@dataclass(slots=True)
class _Form:
    """A statement as one driver takes it: its text, its values in order or by name, and what its rows are.

    How columns are read, by place, is known with the first row: some types ask what the driver has there.
    """

    text: str
    order: Sequence[str] | None
    fixed: Values
    given_as: Sequence[tuple[str, Convert]]
    make_row: Callable[[Iterable[Any]], Row[Any]]
    types: Sequence[TypeEngine[Any]]
    read_as: Sequence[tuple[int, Convert]] | None = None

    def given(self, values: Values) -> Sequence[object] | Values:
        """Returns values as the driver takes them."""
        if not self.fixed and not self.given_as:
            return self._ordered(values)
        known = {**self.fixed, **values}
        for name, convert in self.given_as:
            known[name] = convert(known[name])
        return self._ordered(known)

    def _ordered(self, values: Values) -> Sequence[object] | Values:
        return values if self.order is None else [values[name] for name in self.order]

    def readers(self, dialect: Dialect, described: Sequence[Sequence[Any]]) -> Sequence[tuple[int, Convert]]:
        """Returns what converts columns that have to be; the second word of a description is the driver's type."""
        found = enumerate(zip(self.types, described, strict=True))
        return [(at, how) for at, (one, told) in found if (how := _out_of(one, dialect, told[1])) is not None]

    def row(self, found: Sequence[Any]) -> Row[Any]:
        """Returns a row of the driver's with its columns by name."""
        if not self.read_as:
            return self.make_row(found)
        values = list(found)
        for place, convert in self.read_as:
            values[place] = convert(values[place])
        return self.make_row(values)


def _formed(statement: Statement, dialect: Dialect) -> _Form:
    compiled = statement.compile(dialect=dialect)
    assert isinstance(compiled, SQLCompiler)
    if compiled.post_compile_params:
        raise TypeError(
            f"{compiled.string} has values that are lists, which are known only when it is executed"
        )
    types = {name: bind.type for bind, name in compiled.bind_names.items()}
    columns = statement.exported_columns
    return _Form(
        compiled.string,
        compiled.positiontup if compiled.positional else None,
        {name: value for name, value in compiled.params.items() if value is not None},
        [(name, convert) for name, type_ in types.items() if (convert := _into(type_, dialect)) is not None],
        result_tuple([str(name) for name, _ in columns.items()]),
        [column.type for column in columns],
    )


def _into(type_: TypeEngine[Any], dialect: Dialect) -> Convert | None:
    return type_.dialect_impl(dialect).bind_processor(dialect)


def _out_of(type_: TypeEngine[Any], dialect: Dialect, told: object) -> Convert | None:
    return type_.dialect_impl(dialect).result_processor(dialect, told)

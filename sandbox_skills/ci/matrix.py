"""A case with a matrix → one case for each row, still as it was read. Pure."""

from __future__ import annotations

import re
from collections import Counter
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sandbox_skills.ci.yaml_tree import Tree

MAX_ROWS = 1_000
"""Rows of one case: three lists of ten. More is a loop that belongs into a script."""

_NAME = re.compile(r"[A-Za-z_]\w{0,63}", re.ASCII)
_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}", re.ASCII)


class MatrixError(Exception):
    """The matrix is none; `at` leads to what is wrong, from the case."""

    def __init__(self, message: str, *at: str | int) -> None:
        super().__init__(message)
        self.at = at


def expand(case: Mapping[str, Tree]) -> list[dict[str, Tree]]:
    """Returns the cases that a case stands for, itself where it has no matrix; raises MatrixError.

    The name of each tells its row, unless the name has a placeholder.
    """
    template = {key: value for key, value in case.items() if key != "matrix"}
    if "matrix" not in case:
        return [template]
    rows = list(_rows(case["matrix"]))
    used = set(_placeholders(template))
    for name in dict.fromkeys(name for row in rows for name in row):
        if name not in used:
            raise MatrixError(f"{{{{{name}}}}} stands nowhere in the case", "matrix")
    _check_size(template, rows)
    return [_filled_case(template, row) for row in rows]


def _rows(matrix: Tree) -> Iterator[Mapping[str, Tree]]:
    if isinstance(matrix, dict):
        yield from _combined(matrix)
    elif isinstance(matrix, list):
        yield from _listed(matrix)
    else:
        raise MatrixError("is neither a list of rows nor lists of values by name", "matrix")


def _combined(columns: Mapping[str, Tree]) -> Iterator[Mapping[str, Tree]]:
    lists: list[list[Tree]] = []
    number = 1
    for name, values in columns.items():
        _check_name(name, "matrix", name)
        if not isinstance(values, list) or not values:
            raise MatrixError("is no list of values", "matrix", name)
        number *= len(values)
        lists.append(values)
    _check_number(number if columns else 0)
    for row in product(*lists):
        yield dict(zip(columns, row, strict=True))


def _listed(rows: list[Tree]) -> Iterator[Mapping[str, Tree]]:
    _check_number(len(rows))
    names: set[str] = set()
    for index, row in enumerate(rows):
        if not isinstance(row, dict) or not row:
            raise MatrixError("is no row: write {name: value}", "matrix", index)
        for name in row:
            _check_name(name, "matrix", index, name)
        if names and row.keys() != names:
            told = ", ".join(sorted(names))
            raise MatrixError(f"has not the names of the rows above: {told}", "matrix", index)
        names = set(row)
        yield row


MAX_FILLED = 8 * 1024 * 1024
"""Characters of all rows together: sixteen times what a whole file may have, and little memory."""


def _check_size(template: Tree, rows: Sequence[Mapping[str, Tree]]) -> None:
    """Refuses what a few lines would blow up to gigabytes, before any of it is made."""
    stands = Counter(_placeholders(template))
    size = sum(len(str(row[name])) * stands[name] for row in rows for name in row)
    if size > MAX_FILLED:
        raise MatrixError(f"fills in {size:,} characters, more than {MAX_FILLED:,}", "matrix")


def _check_number(rows: int) -> None:
    if not 0 < rows <= MAX_ROWS:
        raise MatrixError(f"has {rows:,} rows, and 1 to {MAX_ROWS:,} can be run", "matrix")


def _check_name(name: str, *at: str | int) -> None:
    if not _NAME.fullmatch(name):
        raise MatrixError("has a name that is none: use letters, digits and underscores", *at)


def _placeholders(value: Tree) -> Iterator[str]:
    if isinstance(value, str):
        yield from _PLACEHOLDER.findall(value)
    else:
        for one in value.values() if isinstance(value, dict) else value:
            yield from _placeholders(one)
        for key in value if isinstance(value, dict) else ():
            yield from _PLACEHOLDER.findall(key)


def _filled_case(template: Mapping[str, Tree], row: Mapping[str, Tree]) -> dict[str, Tree]:
    filled = {key: _filled(value, row) for key, value in template.items()}
    name = template.get("name")
    if isinstance(name, str) and not _PLACEHOLDER.search(name):
        told = ", ".join(f"{key}={value}" for key, value in row.items())
        filled["name"] = f"{name} [{told if len(told) <= MAX_TOLD else told[:MAX_TOLD] + '…'}]"
    return filled


MAX_TOLD = 80
"""Characters of a row in the name of its case: what a line of a report has room for."""


def _filled(value: Tree, row: Mapping[str, Tree]) -> Tree:
    if isinstance(value, dict):
        return {str(_text(key, row)): _filled(one, row) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, row) for one in value]
    whole = _PLACEHOLDER.fullmatch(value)
    # What is nothing but a placeholder becomes the value itself, a number or a list too.
    return row[whole[1]] if whole and whole[1] in row else _text(value, row)


def _text(value: str, row: Mapping[str, Tree]) -> str:
    if not _PLACEHOLDER.search(value):
        return value
    return _PLACEHOLDER.sub(lambda match: str(row.get(match[1], match[0])), value)

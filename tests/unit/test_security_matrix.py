"""The README's table of attacks has the families that there are, and none of it failed."""

from __future__ import annotations

from pathlib import Path

from tests.security import matrix
from tests.security.engines import TITLES
from tests.security.matrix import Matrix, families, kept, rows

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def test_its_rows_are_the_families_there_are() -> None:
    assert rows(README) == list(families())


def test_its_columns_are_the_engines_there_are_and_nothing_failed() -> None:
    head = kept(README).splitlines()[0]
    assert head == f"| attacks | {' | '.join(TITLES.values())} |"
    assert "failed" not in kept(README)


def test_a_family_says_what_it_tries() -> None:
    assert all(title and not title.endswith(".") for title in families().values())


def test_a_table_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    file.write_text(f"before\n{matrix.BEGIN}old\n{matrix.END}\nafter\n", encoding="utf-8")
    matrix.write(file, "new\n")
    assert file.read_text(encoding="utf-8") == f"before\n{matrix.BEGIN}new\n{matrix.END}\nafter\n"


def test_what_was_not_tried_is_not_complete() -> None:
    assert not Matrix().complete()

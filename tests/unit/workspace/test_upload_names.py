"""Names for uploads: harmless, and each its own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.workspace.paths import name_fault
from sandbox_skills.workspace.upload_names import upload_names


def test_foreign_names_become_harmless_ones() -> None:
    given_names = ("../notes.txt", "C:\\tmp\\data.csv", "", ".", "..", "/")
    assert upload_names(given_names) == (
        "notes.txt",
        "data.csv",
        "upload",
        "upload_2",
        "upload_3",
        "upload_4",
    )


def test_a_name_that_is_taken_is_counted_on() -> None:
    assert upload_names(["a.txt", "A.TXT", "a.txt"], taken=["a_2.txt"]) == ("a.txt", "A_3.TXT", "a_4.txt")


@given(st.lists(st.text(max_size=300), max_size=8), st.lists(st.text(max_size=20), max_size=4))
def test_every_name_is_a_name_and_none_is_there_twice(names: list[str], taken: list[str]) -> None:
    given_names = upload_names(names, taken=taken)
    assert [fault for name in given_names if (fault := name_fault(name))] == []
    folded = [name.casefold() for name in (*given_names, *taken)]
    assert len({name.casefold() for name in given_names}) == len(names)
    assert not {name.casefold() for name in given_names} & set(folded[len(names) :])

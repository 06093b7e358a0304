"""Names and references of artifacts."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sandbox_skills.artifacts import MAX_NAME_BYTES, check_name, format_ref, parse_ref
from sandbox_skills.artifacts.names import MAX_VERSION
from sandbox_skills.errors import ArtifactNameError, PathEscapeError, RequestError

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]) | st.sampled_from("@/.:3"), min_size=1)


def is_name(text: str) -> bool:
    try:
        check_name(text)
    except RequestError:
        return False
    return True


@pytest.mark.parametrize(
    "name", ["a", "out/x.csv", "user:prefs", "a b", "ü/漢", "a@1", "@", "a//b", "..a", "x/...", "é" * 512]
)
def test_any_plain_text_is_a_name(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize("name", ["", "a\0b", "a\nb", "\x7f", "\x85", "\ud800", "é" * 513, "artifact://a"])
def test_what_cannot_be_kept_or_is_a_reference_is_no_name(name: str) -> None:
    with pytest.raises(ArtifactNameError):
        check_name(name)


@pytest.mark.parametrize("name", ["/a", "..", "../a", "a/../b", "a/..", "a\\b"])
def test_a_name_that_would_escape_as_a_path_is_refused(name: str) -> None:
    with pytest.raises(PathEscapeError):
        check_name(name)


def test_an_error_shows_the_start_of_a_name_on_one_line() -> None:
    with pytest.raises(ArtifactNameError) as caught:
        check_name("\n" + "x" * 5000)
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ("artifact://item@123", ("item", 123)),
        ("artifact://item", ("item", None)),
        ("artifact://tail@", ("tail@", None)),
        ("artifact://bad@v1", ("bad@v1", None)),
        ("artifact://a@b@c", ("a@b@c", None)),
        ("artifact://a@b@123", ("a@b", 123)),
        ("artifact://a@1@2", ("a@1", 2)),
        ("artifact://a@٣", ("a@٣", None)),
        ("artifact://a@-1", ("a@-1", None)),
        ("artifact://a@007", ("a", 7)),
        ("artifact://user:out/x.csv@0", ("user:out/x.csv", 0)),
    ],
)
def test_digits_after_the_last_at_sign_are_the_version(ref: str, expected: tuple[str, int | None]) -> None:
    assert parse_ref(ref) == expected


@pytest.mark.parametrize(
    "ref", ["", "item", "artifact:/a", "artifact://", "artifact://@3", "artifact://a@" + "1" * 5000]
)
def test_what_names_nothing_is_no_reference(ref: str) -> None:
    with pytest.raises(ArtifactNameError):
        parse_ref(ref)


def test_a_reference_to_an_escaping_name_is_refused() -> None:
    with pytest.raises(PathEscapeError):
        parse_ref("artifact://../x@1")


@given(name=TEXT, version=st.integers(0, MAX_VERSION))
def test_a_reference_leads_back_to_its_name_and_version(name: str, version: int) -> None:
    assume(is_name(name))
    assert parse_ref(format_ref(name, version)) == (name, version)


@given(st.text() | TEXT)
def test_any_text_is_a_short_safe_name_or_an_error_of_the_caller(text: str) -> None:
    if is_name(text):
        assert 0 < len(text.encode()) <= MAX_NAME_BYTES
        assert ".." not in text.split("/")
        assert text.isprintable() or not any(ord(character) < 32 for character in text)
    try:
        name, version = parse_ref("artifact://" + text)
    except RequestError:
        return
    assert is_name(name)
    assert version is None or version >= 0

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.daemon.access.tokens import matches, new_token, prefix_of, token_hash


def test_a_key_is_named_by_its_prefix_and_proved_by_the_rest() -> None:
    token = new_token()
    assert prefix_of(token.text) == token.prefix
    assert token.text.startswith(f"{token.prefix}_")
    assert len(token.text) == 4 + 16 + 1 + 64
    assert matches(token.text, token.hash)
    assert not matches(token.text[:-1] + ("0" if token.text[-1] != "0" else "1"), token.hash)


def test_what_is_kept_and_shown_does_not_tell_the_key() -> None:
    token = new_token()
    assert token.text not in repr(token)
    assert token.text[21:] not in token.hash
    assert token.hash == token_hash(token.text)


def test_no_two_keys_are_the_same() -> None:
    assert len({new_token().prefix for _ in range(100)}) == 100


@given(st.text())
def test_any_text_has_a_prefix_or_is_no_key(text: str) -> None:
    assert prefix_of(text) is None
    assert not matches(text, token_hash("another"))


def test_a_line_end_behind_a_key_makes_it_none() -> None:
    assert prefix_of(new_token().text + "\n") is None

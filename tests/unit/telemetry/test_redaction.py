"""Secrets are taken out in every form that programs write them in, in whatever pieces they come."""

from __future__ import annotations

import base64
import json
import textwrap
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.errors import PolicyError, SandboxLostError
from sandbox_skills.telemetry import NOTHING, REDACTED, Redaction, StreamRedactor
from sandbox_skills.telemetry.secret_forms import MIN_SECRET, forms_of

SECRET = 'sk-live/4f+9 ä"q\\7?x=y'
KEY = "-----BEGIN KEY-----\n" + "\n".join("qwertzuiopasdfghjklyxcvbnm0123456789"[n:] for n in range(9)) + "\n"

letters = st.text("ab/+ \n", min_size=MIN_SECRET, max_size=14)


def without(secret: str, text: str) -> str:
    return Redaction([secret]).text(text)


class TestForms:
    @pytest.mark.parametrize(
        "shown",
        [
            SECRET,
            quote(SECRET, safe=""),
            quote(SECRET),
            quote_plus(SECRET),
            quote(SECRET, safe="").lower(),
            SECRET.encode().hex(),
            SECRET.encode().hex().upper(),
            json.dumps(SECRET)[1:-1],
            json.dumps(SECRET, ensure_ascii=False)[1:-1],
            json.dumps(SECRET)[1:-1].replace("/", "\\/"),
        ],
    )
    def test_as_it_is_and_as_programs_escape_it(self, shown: str) -> None:
        assert without(SECRET, f"<{shown}>") == f"<{REDACTED}>"

    @pytest.mark.parametrize("before", ["", "u", "us", "user:", "user:p"])
    @pytest.mark.parametrize("after", ["", "!", "!!", "!!!"])
    @pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
    def test_in_base64_wherever_it_begins(self, before: str, after: str, encode: object) -> None:
        assert callable(encode)
        encoded = encode(f"{before}{SECRET}{after}".encode()).decode()
        shown = without(SECRET, encoded)
        assert REDACTED in shown
        # What is left are the characters in which the neighbours have a part, and padding.
        around = len(base64.b64encode(f"{before}{after}".encode()))
        assert len(shown) - len(REDACTED) <= around + 6

    @pytest.mark.parametrize("width", [64, 76])
    def test_in_base64_that_is_broken_into_lines(self, width: int) -> None:
        lines = textwrap.wrap(base64.b64encode(KEY.encode()).decode(), width)
        shown = without(KEY, "\n".join(lines)).splitlines()
        assert len(lines) > 2
        assert all(line.startswith(REDACTED) for line in shown)

    def test_line_by_line_and_as_a_terminal_has_it(self) -> None:
        assert without(KEY, f"a {KEY}b") == f"a {REDACTED}b"
        assert without(KEY, KEY.replace("\n", "\r\n")) == REDACTED
        assert set(without(KEY, textwrap.indent(KEY, "  ")).split()) == {REDACTED}
        assert without(KEY, KEY.strip()) == REDACTED

    def test_one_that_ends_with_a_line_end_is_found_without_it(self) -> None:
        assert without("abcdefgh\n", "abcdefgh!") == f"{REDACTED}!"

    def test_a_short_value_is_not_looked_for(self) -> None:
        assert forms_of(["a" * (MIN_SECRET - 1), "", " " * 7]) == ()
        assert not Redaction(["short"])
        assert without("root", "root") == "root"

    def test_no_form_is_so_short_that_honest_output_has_it(self) -> None:
        assert min(map(len, forms_of(["12345678"]))) >= MIN_SECRET


@given(st.lists(letters, min_size=1, max_size=3), st.data())
def test_a_stream_is_redacted_as_if_it_had_come_in_one_piece(secrets: list[str], data: st.DataObject) -> None:
    redaction = Redaction(secrets)
    forms = [form.decode() for form in forms_of(secrets)]
    parts = st.one_of(st.sampled_from([*forms, *secrets]), st.text("ab/+ \n%", max_size=4))
    parts |= st.sampled_from(forms).flatmap(lambda form: st.integers(0, len(form)).map(lambda n: form[:n]))
    text = "".join(data.draw(st.lists(parts, max_size=8))).encode()
    whole = redaction.data(text)
    assert not any(form in whole for form in forms_of(secrets))
    for cut in range(len(text) + 1):
        stream = StreamRedactor(redaction)
        assert stream.feed(text[:cut]) + stream.feed(text[cut:]) + stream.end() == whole
    stream = StreamRedactor(redaction)
    assert b"".join(stream.feed(bytes([one])) for one in text) + stream.end() == whole


@given(st.lists(letters, min_size=1, max_size=3), st.text("!~^", max_size=30), st.data())
def test_what_was_cut_never_ends_in_a_part_of_a_secret(
    secrets: list[str], before: str, data: st.DataObject
) -> None:
    redaction, forms = Redaction(secrets), forms_of(secrets)
    form = data.draw(st.sampled_from(forms))
    cut = data.draw(st.integers(1, len(form)))
    shown = redaction.data(before.encode() + form[:cut], cut=True)
    assert not any(shown.endswith(one[:length]) for one in forms for length in range(1, len(one) + 1))
    assert shown.decode().replace(REDACTED, "").startswith(before)


@given(letters, st.lists(st.binary(max_size=40)))
def test_a_stream_holds_less_than_a_secret_is_long(secret: str, pieces: list[bytes]) -> None:
    stream = StreamRedactor(Redaction([secret]))
    longest = max(map(len, forms_of([secret])))
    taken = shown = 0
    for piece in [*pieces, secret.encode()[:-1]]:
        taken += len(piece)
        shown += len(stream.feed(piece).replace(REDACTED.encode(), secret.encode()))
        assert len(stream._held) < longest


def test_output_that_holds_none_is_passed_on_at_once() -> None:
    stream = StreamRedactor(Redaction([SECRET]))
    assert stream.feed(b"Password: ") == b"Password: "
    assert stream.feed(b"ask") == b"a"
    assert stream.feed(b"ed") == b"sked"


class TestValues:
    def test_every_text_of_a_json_value_is_redacted(self) -> None:
        value = {"a": [SECRET, 1, None, {SECRET: True}], "b": f"x{SECRET}"}
        shown = Redaction([SECRET]).value(value)
        assert shown == {"a": [REDACTED, 1, None, {REDACTED: True}], "b": f"x{REDACTED}"}

    def test_without_secrets_everything_is_passed_on(self) -> None:
        value = {"a": "b"}
        assert NOTHING.value(value) is value
        assert NOTHING.data(b"x", cut=True) == b"x"
        assert not NOTHING
        assert NOTHING.adding(()) is NOTHING

    def test_more_can_be_added(self) -> None:
        both = Redaction(["first-secret"]).adding(["other-secret"])
        assert both.text("first-secret other-secret") == f"{REDACTED} {REDACTED}"
        assert both.adding(["first-secret"]) is both

    def test_a_lone_surrogate_is_kept(self) -> None:
        assert Redaction([SECRET]).text(f"\udcff{SECRET}") == f"\udcff{REDACTED}"

    def test_an_error_keeps_its_kind(self) -> None:
        with pytest.raises(SandboxLostError) as caught, Redaction([SECRET]).of_errors():
            raise SandboxLostError(f"lost {SECRET}", hint=f"try {SECRET}")
        assert (str(caught.value), caught.value.message) == (f"lost {REDACTED}",) * 2
        assert caught.value.hint == f"try {REDACTED}"
        with pytest.raises(ZeroDivisionError), Redaction([SECRET]).of_errors():
            raise ZeroDivisionError
        error = PolicyError("plain")
        NOTHING.error(error)
        assert error.message == "plain"

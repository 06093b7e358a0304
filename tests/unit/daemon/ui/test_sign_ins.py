"""Browsers that are signed in: for how long, how many, and what their tokens tell."""

from __future__ import annotations

from sandbox_skills.daemon.ui.sign_ins import IDLE_SECONDS, LIFETIME_SECONDS, MAX_SIGN_INS, SignIns, same


def added(sign_ins: SignIns, now: float = 0.0) -> str:
    return sign_ins.add(key_id="k", prefix="p", now=now)


def test_a_token_stands_for_its_key() -> None:
    sign_ins = SignIns()
    found = sign_ins.find(added(sign_ins), 1.0)
    assert found is not None
    assert (found.key_id, found.prefix) == ("k", "p")


def test_an_unknown_token_stands_for_nobody() -> None:
    sign_ins = SignIns()
    added(sign_ins)
    assert sign_ins.find("", 0.0) is None
    assert sign_ins.find("ä" * 50, 0.0) is None


def test_who_was_idle_signs_in_again() -> None:
    sign_ins = SignIns()
    token = added(sign_ins)
    assert sign_ins.find(token, IDLE_SECONDS) is not None
    assert sign_ins.find(token, 2 * IDLE_SECONDS + 1) is None


def test_after_a_day_of_work_the_key_is_asked_for_again() -> None:
    sign_ins = SignIns()
    token = added(sign_ins)
    at = 0.0
    while at < LIFETIME_SECONDS:
        assert sign_ins.find(token, at) is not None
        at += IDLE_SECONDS / 2
    assert sign_ins.find(token, LIFETIME_SECONDS + 1) is None


def test_who_signed_out_is_out() -> None:
    sign_ins = SignIns()
    token = added(sign_ins)
    sign_ins.remove(token)
    sign_ins.remove(token)
    assert sign_ins.find(token, 0.0) is None


def test_of_too_many_the_one_that_was_idle_longest_goes() -> None:
    sign_ins = SignIns()
    tokens = [added(sign_ins, float(number)) for number in range(MAX_SIGN_INS)]
    sign_ins.find(tokens[0], 5000.0)
    added(sign_ins, 5001.0)
    assert sign_ins.find(tokens[0], 5001.0) is not None
    assert sign_ins.find(tokens[1], 5001.0) is None


def test_every_browser_has_its_own_token_against_forged_forms() -> None:
    sign_ins = SignIns()
    one, other = (sign_ins.find(added(sign_ins), 0.0) for _ in range(2))
    assert one is not None
    assert other is not None
    assert not same(one.csrf, other.csrf)


def test_the_token_of_the_sign_in_form_fits_its_cookie_and_this_process_only() -> None:
    sign_ins = SignIns()
    assert same(sign_ins.form_token("a"), sign_ins.form_token("a"))
    assert not same(sign_ins.form_token("a"), sign_ins.form_token("b"))
    assert not same(sign_ins.form_token("a"), SignIns().form_token("a"))


def test_tokens_of_any_letters_are_compared() -> None:
    assert not same("ä", "a")

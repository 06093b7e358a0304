"""Which pins hold for a skill: no new name, spelling or place is a way out of one."""

from __future__ import annotations

import unicodedata
from typing import Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.catalog import Pin
from sandbox_skills.catalog.pin_match import Claim, PinIndex, fold, pins_called

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
FORMS: tuple[Form, ...] = get_args(Form)

PDF = Pin("PDF Tools", "aa", {}, folder="/r/pdf")
SUMS = Pin("sums", "bb", {}, folder="/r/sums")
OTHER = Pin("sums", "cc", {}, folder="/elsewhere/sums")


def index(*pins: Pin) -> PinIndex:
    return PinIndex((pin, {pin.folder}) for pin in pins)


@pytest.mark.parametrize(
    "claim",
    [
        Claim("PDF Tools", "pdf", {"/r/pdf"}),
        Claim("pdf2", "pdf", {"/r/pdf"}),
        Claim("pdf2", "x", {"/link", "/r/pdf"}),
        Claim("PDF Tools", "x", {"/x"}),
        Claim("pdf tools", "x", {"/x"}),
        Claim("\uff30DF Tools", "x", {"/x"}),
        Claim("pdf", "x", {"/x"}),
        Claim("pdf2", "pdf", {"/x/pdf"}, asked="pdf"),
        Claim("pdf2", "x", {"/x"}, asked="PDF tools"),
    ],
)
def test_a_pin_holds_for_whatever_lies_in_its_place_or_goes_by_its_name(claim: Claim) -> None:
    assert index(PDF, SUMS).holding(claim) == (PDF,)


@pytest.mark.parametrize(
    "claim", [Claim("csv", "csv", {"/r/csv"}, asked="csv"), Claim("csv", "pdf", {"/x/pdf"}, asked="csv")]
)
def test_it_holds_for_nothing_else(claim: Claim) -> None:
    assert index(PDF, SUMS).holding(claim) == ()


def test_a_pin_holds_for_a_skill_whose_folder_has_its_name() -> None:
    assert index(SUMS).holding(Claim("sums2", "sums", {"/x/sums"})) == (SUMS,)


def test_what_was_accepted_in_a_folder_under_that_name_is_the_last_word_on_it() -> None:
    pins = index(SUMS, OTHER)
    assert pins.holding(Claim("sums", "sums", {"/r/sums"}, asked="sums")) == (SUMS,)
    assert pins.holding(Claim("sums", "sums", {"/elsewhere/sums"})) == (OTHER,)


def test_without_that_every_pin_that_could_be_meant_holds() -> None:
    assert index(SUMS, OTHER).holding(Claim("sums", "x", {"/third"})) == (SUMS, OTHER)
    assert index(SUMS, OTHER, PDF).holding(Claim("pdf", "x", {"/r/sums"})) == (SUMS, PDF)


@given(st.text(min_size=1, max_size=20), st.sampled_from(FORMS))
def test_no_spelling_of_a_name_is_another_name(name: str, form: Form) -> None:
    spelled = unicodedata.normalize(form, name)
    assert fold(spelled) == fold(name)
    assert fold(fold(name)) == fold(name)
    assert index(Pin(name, "aa", {}, folder="/r/x")).holding(Claim(spelled, "y", {"/y"}))


def test_a_word_means_the_pins_of_that_name_else_those_of_that_folder() -> None:
    assert pins_called([PDF, SUMS, OTHER], "SUMS") == (SUMS, OTHER)
    assert pins_called([PDF, SUMS], "pdf") == (PDF,)
    assert pins_called([PDF], "other") == ()
    assert pins_called([Pin("a", "aa", {})], "") == ()

"""What `make fuzz` gives bytes to: its first inputs, and some that come of them, as the fuzzer would go on."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS

every_target = pytest.mark.parametrize("name", TARGETS)


@every_target
def test_it_takes_what_the_fuzzer_begins_with(name: str) -> None:
    target, seeds = TARGETS[name]
    for seed in (*seeds(), b"", bytes(1000)):
        target(seed)


@every_target
@settings(max_examples=30)
@given(data=st.data())
def test_it_takes_whatever_comes_of_that(name: str, data: st.DataObject) -> None:
    target, seeds = TARGETS[name]
    whole = bytearray(data.draw(st.sampled_from([b"", *seeds()])))
    for _ in range(data.draw(st.integers(1, 3))):
        at, end = sorted(data.draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
        whole[at:end] = data.draw(st.binary(max_size=40))
    target(bytes(whole))

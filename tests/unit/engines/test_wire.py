"""Frames: whatever the box sends, and however it is cut."""

from __future__ import annotations

import json
import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.engines.wire import (
    HEADER,
    MAX_DATA,
    MAX_JSON,
    MAX_REPLY_JSON,
    RAW,
    Decoder,
    Frame,
    Kind,
    encode,
    encode_chunks,
)
from sandbox_skills.errors import RequestError, RunnerProtocolError

REPLIES = [kind for kind in Kind if kind >= Kind.HELLO]

frames = st.lists(
    st.builds(Frame, st.sampled_from(REPLIES), st.integers(0, 2**32 - 1), st.binary(min_size=1, max_size=50)),
    max_size=8,
)


def decoded(decoder: Decoder, *pieces: bytes) -> list[Frame]:
    return [frame for piece in pieces for frame in decoder.feed(piece)]


@given(frames, st.data())
def test_frames_are_the_same_however_the_stream_is_cut(sent: list[Frame], data: st.DataObject) -> None:
    stream = b"".join(encode(frame.kind, frame.ref, frame.payload) for frame in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    ends = [0, *cuts, len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(ends)]
    assert decoded(Decoder(), *pieces) == sent


@given(st.lists(st.binary(max_size=100), max_size=10))
def test_any_bytes_are_frames_or_a_breach_and_little_is_kept(pieces: list[bytes]) -> None:
    decoder = Decoder()
    try:
        for piece in pieces:
            list(decoder.feed(piece))
            assert decoder.pending < HEADER.size + MAX_REPLY_JSON
    except RunnerProtocolError:
        with pytest.raises(RunnerProtocolError):
            list(decoder.feed(b""))


@pytest.mark.parametrize("kind", REPLIES)
def test_the_longest_frame_passes_and_a_longer_one_is_refused_at_its_header(kind: Kind) -> None:
    longest = MAX_DATA if kind in RAW else MAX_REPLY_JSON
    (frame,) = decoded(Decoder(), encode(kind, 7, bytes(longest)))
    assert len(frame.payload) == longest
    with pytest.raises(RunnerProtocolError, match="too long"):
        decoded(Decoder(), HEADER.pack(kind, 7, longest + 1))


@pytest.mark.parametrize("number", sorted(set(range(256)) - set(REPLIES)))
def test_a_kind_that_a_box_does_not_send_is_refused(number: int) -> None:
    with pytest.raises(RunnerProtocolError, match="unknown frame kind"):
        decoded(Decoder(), HEADER.pack(number, 1, 0))


@pytest.mark.parametrize("kind", [kind for kind in REPLIES if kind in RAW])
def test_raw_frames_that_carry_nothing_are_refused(kind: Kind) -> None:
    with pytest.raises(RunnerProtocolError, match="empty"):
        decoded(Decoder(), HEADER.pack(kind, 1, 0))


def test_a_frame_that_is_not_whole_is_kept_back() -> None:
    decoder = Decoder()
    stream = encode(Kind.PONG, 1, b"{}")
    assert decoded(decoder, stream[:-1]) == []
    assert decoder.pending == len(stream) - 1
    assert decoded(decoder, stream[-1:]) == [Frame(Kind.PONG, 1, b"{}")]


@pytest.mark.parametrize(
    "payload",
    [b"[1]", b"1", b"null", b'"x"', b"{", b"\xff", b"{}{}", b"[" * 100_000, b'{"a":' * 50_000, b"9" * 5000],
)
def test_a_payload_that_is_no_object_is_a_breach(payload: bytes) -> None:
    with pytest.raises(RunnerProtocolError):
        Frame(Kind.PONG, 1, payload).json()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=())), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=())), json_values))
def test_what_is_written_as_json_is_read_as_the_same_by_both_sides(value: dict[str, object]) -> None:
    payload = encode(Kind.RUN, 1, value)[HEADER.size :]
    told = repr(value)  # in which NaN is NaN
    assert repr(json.loads(payload)) == told
    assert repr(Frame(Kind.ENDED, 1, payload).json()) == told
    assert repr(Frame(Kind.ENDED, 1, json.dumps(value).encode()).json()) == told


@given(st.binary(max_size=40) | st.text('{}[]",:0123456789.eE+-\\u truefalsn', max_size=40).map(str.encode))
def test_what_is_read_as_json_is_what_the_standard_library_reads(payload: bytes) -> None:
    try:
        expected: object = json.loads(payload)
    except ValueError:
        expected = None
    if payload and isinstance(expected, dict):
        assert repr(Frame(Kind.ENDED, 1, payload).json()) == repr(expected)
    elif payload:
        with pytest.raises(RunnerProtocolError):
            Frame(Kind.ENDED, 1, payload).json()


def test_an_empty_payload_is_an_empty_object() -> None:
    assert Frame(Kind.PONG, 1, b"").json() == {}


@given(st.binary(max_size=100), st.integers(0, 2**32 - 1))
def test_encoding_is_the_documented_header_and_the_payload(payload: bytes, ref: int) -> None:
    assert encode(Kind.STDIN, ref, payload) == struct.pack("!BII", 4, ref, len(payload)) + payload


def test_a_request_that_is_too_long_for_the_runner_is_the_callers_fault() -> None:
    encode(Kind.RUN, 1, {"a": "x" * (MAX_JSON - 8)})
    with pytest.raises(RequestError, match="longer than"):
        encode(Kind.RUN, 1, {"a": "x" * (MAX_JSON - 7)})


@pytest.mark.parametrize("size", [0, 1, MAX_DATA, MAX_DATA + 1, 3 * MAX_DATA])
def test_raw_data_is_cut_into_frames_that_pass(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    sent = list(encode_chunks(Kind.STDIN, 3, data[:size]))
    assert b"".join(frame[HEADER.size :] for frame in sent) == data[:size]
    assert all(0 < len(frame) - HEADER.size <= MAX_DATA for frame in sent)


def test_text_survives_json_as_it_is() -> None:
    text = "grüße \N{SNOWMAN} \udc80"
    assert json.loads(encode(Kind.RUN, 1, {"text": text})[HEADER.size :]) == {"text": text}

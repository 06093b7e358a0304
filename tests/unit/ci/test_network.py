"""What counts as an attempt at the network, by what a recorder saw."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.ci.network import UNKNOWN, hosts_tried
from sandbox_skills.recording import Event, EventKind, Recording


def tried(*events: Event, **lost: int) -> tuple[str, ...]:
    counts: dict[EventKind, int] = {"connect": lost["connect"]} if lost else {}
    return hosts_tried(Recording(events, counts))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1"])
def test_what_stays_inside_is_no_attempt(host: str) -> None:
    assert tried(Event("connect", host, "8080")) == ()


@pytest.mark.parametrize(
    ("host", "told"),
    [
        ("192.0.2.1", "192.0.2.1:443"),
        ("10.0.0.1", "10.0.0.1:443"),
        ("169.254.169.254", "169.254.169.254:443"),
        ("2001:db8::1", "[2001:db8::1]:443"),
        ("::ffff:192.0.2.1", "[::ffff:192.0.2.1]:443"),
        ("", UNKNOWN),
    ],
)
def test_what_leads_out_is_one(host: str, told: str) -> None:
    assert tried(Event("connect", host, "443"), Event("connect", host, "443")) == (told,)


def test_a_name_is_told_and_not_the_server_that_was_asked() -> None:
    server = Event("connect", "127.0.0.1", "53")
    assert tried(server, Event("lookup", "a.example")) == ("a.example",)
    assert tried(server) == ("name server 127.0.0.1",)


def test_what_there_was_no_room_for_is_counted() -> None:
    assert tried(connect=7) == ("and 7 times more",)


def test_files_and_programs_are_no_attempts() -> None:
    assert (
        tried(Event("read", "/etc/hosts"), Event("program", "/usr/bin/curl", "curl http://a.example")) == ()
    )


@given(st.text(), st.text())
def test_any_text_can_be_an_address(host: str, port: str) -> None:
    assert len(tried(Event("connect", host, port))) <= 1

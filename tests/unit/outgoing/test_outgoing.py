from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from sandbox_skills.errors import SettingsError
from sandbox_skills.outgoing.address import check_address, same_origin, without_key
from sandbox_skills.outgoing.connection import keyed_client
from sandbox_skills.outgoing.retries import retry_after_seconds
from sandbox_skills.outgoing.retry_policy import JITTER, RetryPolicy


@pytest.mark.parametrize(
    "url", ["https://example.com", "http://127.0.0.1:1", "http://[::1]:8765/x", "http://localhost"]
)
def test_a_key_may_go_over_encryption_or_to_this_machine(url: str) -> None:
    check_address(url, key="k", setting="server.url", whose="server")


@pytest.mark.parametrize("url", ["http://example.com", "http://127.0.0.1.example.com", "http://10.0.0.1"])
def test_a_key_is_not_sent_in_the_clear(url: str) -> None:
    check_address(url, key="", setting="server.url", whose="server")
    with pytest.raises(SettingsError, match=r"the key of the server .* not encrypted") as caught:
        check_address(url, key="k", setting="server.url", whose="server")
    assert caught.value.hint == "use https in server.url, or no server.api_key"


@pytest.mark.parametrize(
    "url", ["", "example.com", "ftp://example.com", "unix:///run/x", "https://", "http://[", "http://h:x"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="is no http"):
        check_address(url, key="", setting="server.url", whose="server")


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("https://EXAMPLE.com:443/v1", True),
        ("http://example.com", False),
        ("https://example.com:444", False),
        ("https://example.org", False),
        ("https://example.com@evil.org", False),
        ("https://example.com:x", False),
    ],
)
def test_an_origin_is_scheme_host_and_port(other: str, same: object) -> None:
    assert same_origin("https://example.com/", other) is same


def test_a_key_that_a_server_says_back_is_not_told() -> None:
    assert without_key("no such key ssk_1", "ssk_1") == "no such key [redacted]"
    assert without_key("plain", "") == "plain"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3", 3.0), ("0.5", 0.5), ("-1", 0.0), ("nan", None), ("inf", None), ("soon", None), ("", None)],
)
def test_a_retry_after_is_read(text: str, seconds: float | None) -> None:
    assert retry_after_seconds(text) == seconds


def test_a_retry_after_may_be_a_date() -> None:
    now = datetime.now(UTC)
    asked = retry_after_seconds(format_datetime(now + timedelta(seconds=100), usegmt=True))
    assert asked is not None
    assert 98 <= asked - (now.timestamp() - time.time()) <= 101
    assert retry_after_seconds(format_datetime(now - timedelta(days=1), usegmt=True)) == 0.0


def test_waits_grow_to_the_longest_and_what_a_server_asks_for_counts() -> None:
    policy = RetryPolicy(first_wait=1.0, longest_wait=3.0)
    for attempt, least in enumerate((1.0, 1.5, 2.25, 3.0, 3.0), start=1):
        assert least <= policy.wait(attempt) <= least * (1 + JITTER)
    assert 20 <= policy.wait(1, 20.0) <= 20 + JITTER


def test_a_client_with_a_key_follows_nobody_and_asks_the_environment_nothing() -> None:
    client = keyed_client(
        "http://127.0.0.1:1/api", {"A": "b", "Empty": ""}, connect_seconds=1, idle_seconds=2
    )
    assert not client.follow_redirects
    assert not client.trust_env
    assert str(client.base_url) == "http://127.0.0.1:1/api/"
    assert client.headers["a"] == "b"
    assert "empty" not in client.headers


@pytest.mark.parametrize("key", ["ssk_…", "a\nb", "a\r\nX-Other: 1", "a\x00b", "a\x7fb"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(SettingsError, match="Authorization: a request's header cannot") as caught:
        keyed_client(
            "http://127.0.0.1", {"Authorization": f"Bearer {key}"}, connect_seconds=1, idle_seconds=1
        )
    assert "ssk" not in str(caught.value)

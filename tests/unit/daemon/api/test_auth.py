"""Which key a request brings: one rule for routes, WebSockets and MCP."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from sandbox_skills.daemon.api.auth import token_in


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ({}, None),
        ({"Authorization": "Bearer ssk_1"}, "ssk_1"),
        ({"authorization": "bearer  ssk_1 "}, "ssk_1"),
        ({"X-API-Key": "ssk_2"}, "ssk_2"),
        ({"Authorization": "Bearer ssk_1", "X-API-Key": "ssk_2"}, "ssk_1"),
        ({"Authorization": "Basic c3Nr", "X-API-Key": "ssk_2"}, "ssk_2"),
        ({"Authorization": "Bearer ", "X-API-Key": "ssk_2"}, "ssk_2"),
        ({"Authorization": "ssk_1"}, None),
    ],
)
def test_the_bearer_counts_before_the_other_header(headers: dict[str, str], token: str | None) -> None:
    assert token_in(Headers(headers)) == token

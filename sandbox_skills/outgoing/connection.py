"""The one way an HTTP client with a key is made: no redirects, and neither proxies nor netrc of the environment."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx

from sandbox_skills.errors import SettingsError
from sandbox_skills.outgoing.unpacking import ACCEPTED, unpacked

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

KEPT_ALIVE = 32
"""Idle connections: as many as calls that usually go on at once."""

USER_AGENT = "sandbox-skills"

_OWN_HEADERS = {"User-Agent": USER_AGENT, "Accept-Encoding": ACCEPTED}


def keyed_client(
    base_url: str,
    headers: Mapping[str, str],
    *,
    connect_seconds: float,
    idle_seconds: float,
    proxy: str | None = None,
) -> httpx.AsyncClient:
    """Returns a client whose key goes to the host of `base_url` alone; headers with an empty value are left out.

    `connect_seconds` is the longest wait for a connection, `idle_seconds` that between two pieces of an answer.
    Raises SettingsError for a key, or another value, that no header may have.
    """
    _check_values(headers)
    return httpx.AsyncClient(
        base_url=base_url.rstrip("/") + "/",
        headers={name: value for name, value in {**_OWN_HEADERS, **headers}.items() if value},
        timeout=httpx.Timeout(idle_seconds, connect=connect_seconds, pool=None),
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=KEPT_ALIVE),
        follow_redirects=False,
        trust_env=False,
        # Where nothing is encrypted there is no certificate to check, and to load them takes 20 ms.
        verify=urlsplit(base_url).scheme != "http",
        proxy=proxy,
    )


def _check_values(headers: Mapping[str, str]) -> None:
    # Not shown: one of them is the key. What the HTTP library says of it shows all of it.
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise SettingsError(
                f"{name}: a request's header cannot have such characters",
                hint="set the key as it was given; a placeholder has dots, and a file's key may end with its line",
            )


def chunks_of(response: httpx.Response) -> aclosing[AsyncGenerator[bytes]]:
    """Returns what gives a body as it comes, for an `async with`: left early, it is closed at once.

    Reading raises httpx.DecodingError for a body that cannot be unpacked.
    """
    return aclosing(unpacked(response))


async def read_at_most(response: httpx.Response, most: int) -> bytes:
    """Returns the beginning of a body, `most` bytes of it."""
    body = bytearray()
    async with chunks_of(response) as chunks:
        async for data in chunks:
            body += data[: most - len(body)]
            if len(body) >= most:
                break
    return bytes(body)


def why(error: Exception) -> str:
    """Returns what an exception of the network says, its name where it says nothing."""
    return str(error) or type(error).__name__

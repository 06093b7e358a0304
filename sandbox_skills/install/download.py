"""Fetches one archive over HTTP: bounded in bytes, time and redirects, and led nowhere by a stranger."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import httpx

from sandbox_skills.errors import SourceError
from sandbox_skills.workspace.paths import shown

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.install.limits import FetchLimits

STALL_SECONDS = 30.0
"""Longest wait for the next bytes: a server that is slower than this is not coming back."""


async def download(url: str, target: Path, limits: FetchLimits) -> None:
    """Writes what is at `url` to `target`; raises SourceError for anything but a whole file within the limits.

    A redirect may lead neither from https to http nor from elsewhere to an address of this host or its network:
    the user named the first address, a stranger the next.
    """
    try:
        with anyio.fail_after(limits.seconds):
            async with httpx.AsyncClient(
                timeout=STALL_SECONDS, headers={"Accept-Encoding": "identity"}
            ) as client:
                await _follow(client, url, target, limits)
    except TimeoutError as error:
        raise SourceError(f"{shown(url)} took more than {limits.seconds:g} seconds") from error
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise SourceError(f"{shown(url)} cannot be fetched: {str(error) or type(error).__name__}") from error


async def _follow(client: httpx.AsyncClient, url: str, target: Path, limits: FetchLimits) -> None:
    inside = await _leads_inside(url)
    for _ in range(limits.redirects + 1):
        async with client.stream("GET", url) as response:
            if response.next_request is None:
                await _save(response, target, limits)
                return
            following = str(response.next_request.url)
        if fault := redirect_fault(
            url, following, from_inside=inside, to_inside=await _leads_inside(following)
        ):
            raise SourceError(f"{shown(url)} redirects to {shown(following)}, which {fault}")
        url = following
    raise SourceError(f"{shown(url)} redirects more than {limits.redirects} times")


def redirect_fault(url: str, following: str, *, from_inside: bool, to_inside: bool) -> str:
    """Returns why a redirect is not followed, as the end of a sentence; empty where it may be.

    "Inside" is an address of this host or of a private network.
    """
    if urlsplit(following).scheme not in {"http", "https"}:
        return "is not fetched"
    if urlsplit(url).scheme == "https" and urlsplit(following).scheme == "http":
        return "is not encrypted"
    return "is an address of this host or its network" if to_inside and not from_inside else ""


async def _leads_inside(url: str) -> bool:
    """Whether the host of `url` has an address that is not public. A name that a proxy alone knows counts as public."""
    host = urlsplit(url).hostname or ""
    try:
        found = await anyio.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return any(not is_public(str(item[4][0])) for item in found)


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public Internet, an IPv4 address within IPv6 included."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return (mapped or parsed).is_global


async def _save(response: httpx.Response, target: Path, limits: FetchLimits) -> None:
    if not response.is_success:
        raise SourceError(
            f"{shown(str(response.url))} answers {response.status_code} {response.reason_phrase}"
        )
    left = limits.download_bytes
    async with await anyio.open_file(target, "wb") as file:
        async for data in response.aiter_raw():
            left -= len(data)
            if left < 0:
                raise SourceError(f"{shown(str(response.url))} has more than {limits.download_bytes} bytes")
            await file.write(data)

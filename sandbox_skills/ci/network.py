"""What of a recording is an attempt at the network. Pure."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox_skills.recording import Event, Recording

NAME_SERVER = "53"
UNKNOWN = "an address that could not be read"


def hosts_tried(recording: Recording) -> tuple[str, ...]:
    """Returns each place that was tried: names that were looked up, and addresses with their ports.

    A program that talks to itself over the loopback tries no network. A name server is only the way to a name: it is
    told where no name was seen.
    """
    names = [event.what for event in recording.of("lookup")]
    places = [_place(event) for event in recording.of("connect") if not _is_inside(event, names)]
    lost = recording.lost.get("connect", 0) + recording.lost.get("lookup", 0)
    return (*dict.fromkeys([*names, *places]), *((f"and {lost} times more",) if lost else ()))


def _place(event: Event) -> str:
    if not event.what:
        return UNKNOWN
    host = f"[{event.what}]" if ":" in event.what else event.what
    return f"name server {host}" if event.detail == NAME_SERVER else f"{host}:{event.detail}"


def _is_inside(event: Event, names: list[str]) -> bool:
    if event.detail == NAME_SERVER:
        return bool(names)
    try:
        address = ip_address(event.what)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or mapped.is_unspecified)

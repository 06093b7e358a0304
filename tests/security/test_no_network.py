"""A box has the loopback and nothing else: what is outside is refused at once, what is inside works."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.spec import Command
from tests.security.conftest import ENVIRONMENT

if TYPE_CHECKING:
    import docker

    from tests.security.conftest import Box

pytestmark = [pytest.mark.anyio]

OUTSIDE = {
    "v4": "192.0.2.1",
    "v6": "2001:db8::1",
    "metadata v4": "169.254.169.254",
    "metadata v6": "fd00:ec2::254",
    "private": "10.0.0.1",
    "link local v6": "fe80::1",
    "broadcast": "255.255.255.255",
    "multicast": "224.0.0.1",
}
"""The first two are what RFC 5737 and RFC 3849 keep for examples."""

NAMES = ("example.com", "host.docker.internal", "gateway.docker.internal", "metadata.google.internal")

REFUSALS = {"ENETUNREACH", "EHOSTUNREACH", "EADDRNOTAVAIL", "EACCES", "EINVAL"}
"""EACCES and EINVAL are for broadcast and for a link-local address without an interface."""


def interfaces() -> dict[str, list[str]]:
    import socket
    from pathlib import Path

    lines = Path("/proc/net/dev").read_text(encoding="utf-8").splitlines()[2:]
    routes = Path("/proc/net/route").read_text(encoding="utf-8").splitlines()[1:]
    sysfs = Path("/sys/class/net")
    return {
        "names": [line.split(":")[0].strip() for line in lines],
        "by netlink": [name for _, name in socket.if_nameindex()],
        "in sysfs": sorted(path.name for path in sysfs.iterdir()) if sysfs.exists() else [],
        "routes": routes,
    }


def connecting(addresses: list[str], port: int) -> dict[str, str]:
    import socket
    from functools import partial

    from tests.security.inside import errno_of

    found = {}
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with (
            socket.socket(family, socket.SOCK_STREAM) as tcp,
            socket.socket(family, socket.SOCK_DGRAM) as udp,
        ):
            tcp.settimeout(1)
            found[f"tcp {address}"] = errno_of(partial(tcp.connect, (address, port)))
            found[f"udp {address}"] = errno_of(partial(udp.sendto, b"x", (address, port)))
    return found


def looking_up(names: list[str]) -> list[str]:
    import socket
    from contextlib import suppress

    known = []
    for name in names:
        with suppress(socket.gaierror):
            known += [str(row[4][0]) for row in socket.getaddrinfo(name, 443, type=socket.SOCK_STREAM)]
    return known


def talking_to_oneself() -> dict[str, str]:
    import socket

    heard = {}
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        server = socket.create_server((address, 0), family=family)
        with server, socket.create_connection(server.getsockname()[:2]) as client:
            client.sendall(b"tcp")
            other, _ = server.accept()
            heard[f"tcp {address}"] = other.recv(3).decode()
            other.close()
        with (
            socket.socket(family, socket.SOCK_DGRAM) as receiver,
            socket.socket(family, socket.SOCK_DGRAM) as sender,
        ):
            receiver.bind((address, 0))
            sender.sendto(b"udp", receiver.getsockname())
            heard[f"udp {address}"] = receiver.recv(3).decode()
    with socket.create_server(("", 0)) as everywhere:
        socket.create_connection(("localhost", everywhere.getsockname()[1])).close()
        heard["localhost"] = "ok"
    return heard


def calling_by_unix_sockets(names: list[str]) -> dict[str, str]:
    import socket
    from functools import partial

    from tests.security.inside import errno_of

    found = {}
    for name in names:
        with socket.socket(socket.AF_UNIX) as caller:
            found[name] = errno_of(partial(caller.connect, name))
    return found


def using_unix_sockets() -> list[str]:
    import socket

    heard = []
    for name in ("\0own", "/workspace/work/own.sock"):
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
            server.bind(name)
            server.listen()
            client.connect(name)
            client.sendall(b"unix")
            other, _ = server.accept()
            heard.append(other.recv(4).decode())
            other.close()
    return heard


async def test_the_loopback_is_the_only_interface(box: Box) -> None:
    found = await box.call(interfaces)
    # bubblewrap's boxes have no sysfs at all.
    in_sysfs = [] if box.engine == "bubblewrap" else ["lo"]
    assert found == {"names": ["lo"], "by netlink": ["lo"], "in sysfs": in_sysfs, "routes": []}


async def test_nothing_outside_is_reached_and_nobody_waits(box: Box) -> None:
    found = await box.call(connecting, list(OUTSIDE.values()), 80)
    assert len(found) == 2 * len(OUTSIDE)
    assert set(found.values()) <= REFUSALS, found  # one that waited would have run into its time
    assert found["tcp 192.0.2.1"] == found["udp 192.0.2.1"] == "ENETUNREACH"


async def test_no_name_outside_is_known_and_nobody_waits(box: Box) -> None:
    async with asyncio.timeout(10):  # one question that nobody answers takes 5 s, and there are four at least
        assert await box.call(looking_up, [*NAMES]) == []


async def test_the_host_is_not_reached_by_any_of_its_addresses(box: Box, daemon: docker.APIClient) -> None:
    gateways = [
        config["Gateway"]
        for network in daemon.networks()
        for config in network["IPAM"]["Config"] or []
        if config.get("Gateway")
    ]
    with closing(socket.create_server(("", 0))) as server:
        server.settimeout(0)
        port = server.getsockname()[1]
        found = await box.call(connecting, ["127.0.0.1", *gateways, *own_addresses()], port)
        assert found.pop("tcp 127.0.0.1") == "ECONNREFUSED"
        assert found.pop("udp 127.0.0.1") == "ok"  # to the box's own loopback, where nobody listens
        assert set(found.values()) <= REFUSALS, found
        with pytest.raises(BlockingIOError):
            server.accept()


async def test_a_neighbour_is_not_reached(box: Box, neighbour: Box) -> None:
    text = "import socket, time; s = socket.create_server(('', 4242)); print(flush=True); time.sleep(60)"
    command, listens = Command(("python3", "-c", text), env=ENVIRONMENT), asyncio.Event()
    server = asyncio.ensure_future(neighbour.run(command, on_output=lambda *_: listens.set()))
    async with asyncio.timeout(10):
        await listens.wait()
    found = await box.call(connecting, ["127.0.0.1"], 4242)
    assert found["tcp 127.0.0.1"] == "ECONNREFUSED"
    assert not server.done()
    server.cancel()
    with pytest.raises(asyncio.CancelledError):
        await server


async def test_the_hosts_abstract_sockets_are_not_reached(box: Box) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind("\0canary-of-the-host")
        server.listen()
        found = await box.call(calling_by_unix_sockets, ["\0canary-of-the-host", "/var/run/docker.sock"])
    assert found == {"\0canary-of-the-host": "ECONNREFUSED", "/var/run/docker.sock": "ENOENT"}


async def test_programs_talk_over_unix_sockets(box: Box) -> None:
    assert await box.call(using_unix_sockets) == ["unix", "unix"]


async def test_programs_talk_over_the_loopback(box: Box) -> None:
    found = await box.call(talking_to_oneself)
    assert set(found.values()) == {"tcp", "udp", "ok"}
    assert len(found) == 5


async def test_localhost_has_a_name(box: Box) -> None:
    assert set(await box.call(looking_up, ["localhost"])) == {"127.0.0.1", "::1"}


def own_addresses() -> list[str]:
    """Addresses of this host that are not its loopback's."""
    found = socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET, socket.SOCK_STREAM)
    return [str(row[4][0]) for row in found if not str(row[4][0]).startswith("127.")]

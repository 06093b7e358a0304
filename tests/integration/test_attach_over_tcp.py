"""The raw upgrade over TCP and TLS. Not among the unit tests: those have no loopback interface."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.attach import MUX_HEADER, attach
from sandbox_skills.engines.docker_client import DockerConnection, TlsFiles, address
from sandbox_skills.errors import EngineUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"

PATIENCE = 5.0


class Receiver:
    def __init__(self) -> None:
        self.data = bytearray()
        self.ended = asyncio.Event()

    def received(self, data: memoryview) -> None:
        self.data += data

    def lost(self, reason: str) -> None:
        self.ended.set()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for localhost that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    argv = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    argv += f" -addext subjectAltName=DNS:localhost -keyout {key} -out {cert}"
    subprocess.run(argv.split(), check=True, capture_output=True)
    return cert, key


@asynccontextmanager
async def daemon(tls: ssl.SSLContext | None = None) -> AsyncGenerator[int]:
    """Upgrades, says hello in two pieces, sends back what it gets, and ends."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(HEAD + MUX_HEADER.pack(1, 6) + b"hel")
            await writer.drain()
            writer.write(b"lo ")
            data = await reader.readexactly(300_000)
            for start in range(0, len(data), 32_000):
                part = data[start : start + 32_000]
                writer.write(MUX_HEADER.pack(1, len(part)) + part)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def echoed(connection: DockerConnection) -> bytes:
    receiver = Receiver()
    channel = await attach(address(connection), "1.41", "box", receiver)
    channel.write(b"x" * 300_000)
    await channel.drain()
    await asyncio.wait_for(receiver.ended.wait(), PATIENCE)
    channel.close()
    return bytes(receiver.data)


def server_side(certificate: tuple[Path, Path], *, client_ca: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client_ca)
    return context


async def test_over_tcp() -> None:
    async with daemon() as port:
        assert await echoed(DockerConnection(f"tcp://127.0.0.1:{port}")) == b"hello " + b"x" * 300_000


async def test_over_tls_with_certificates_on_both_sides(certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    async with daemon(server_side(certificate, client_ca=cert)) as port:
        files = TlsFiles(ca=cert, cert=cert, key=key)
        assert await echoed(DockerConnection(f"tcp://localhost:{port}", files)) == b"hello " + b"x" * 300_000


async def test_a_certificate_that_nobody_vouches_for_is_no_daemon(certificate: tuple[Path, Path]) -> None:
    async with daemon(server_side(certificate)) as port:
        with pytest.raises(EngineUnavailableError, match="certificate"):
            await echoed(DockerConnection(f"tcp://localhost:{port}", TlsFiles()))
        with pytest.raises(EngineUnavailableError, match="certificate"):
            await echoed(DockerConnection(f"tcp://127.0.0.1:{port}", TlsFiles(ca=certificate[0])))


async def test_tls_without_verification_takes_any_certificate(certificate: tuple[Path, Path]) -> None:
    async with daemon(server_side(certificate)) as port:
        data = await echoed(DockerConnection(f"tcp://127.0.0.1:{port}", TlsFiles(verify=False)))
        assert data.startswith(b"hello xxx")


async def test_a_port_that_nobody_listens_on_is_no_daemon() -> None:
    async with daemon() as port:
        pass
    with pytest.raises(EngineUnavailableError):
        await echoed(DockerConnection(f"tcp://127.0.0.1:{port}"))

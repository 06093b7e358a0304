"""The Docker daemon: where it listens, how we speak to it, what its refusals mean."""

from __future__ import annotations

import ssl
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import docker
import docker.errors
import requests.exceptions
from docker.tls import TLSConfig
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from sandbox_skills.engines.attach import DaemonAddress
from sandbox_skills.errors import EngineError, EngineUnavailableError, SandboxLostError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEFAULT_HOST = "unix:///var/run/docker.sock"

REQUEST_SECONDS = 60.0
"""Longest wait for one answer of the daemon; a loaded one took 12 s to start a container."""

CONNECT_ATTEMPTS = 3
"""A daemon that is being restarted by its supervisor is back within about a second."""

POOL_SIZE = 32
"""Connections kept to the daemon: as many as worker threads that may ask at once."""

NO_DAEMON_HINT = (
    "start Docker, or name its address in DOCKER_HOST; in a checkout, `make docker` installs and starts one"
)
NO_PERMISSION_HINT = "run as root, or as a member of the group that owns the socket (often `docker`)"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Certificate files for a daemon on TCP; `verify` False checks no server name, as Docker's `--tls` does."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    verify: bool = True


@dataclass(frozen=True, slots=True)
class DockerConnection:
    """Where the daemon is: `unix://PATH` or `tcp://HOST:PORT`."""

    host: str = DEFAULT_HOST
    tls: TlsFiles | None = None


def address(connection: DockerConnection) -> DaemonAddress:
    """Returns the address for a raw connection; raises EngineUnavailableError for a transport we lack."""
    url = urlsplit(connection.host)
    if url.scheme == "unix":
        return DaemonAddress(path=url.path)
    if url.scheme in {"tcp", "http", "https"} and url.hostname:
        tls = _ssl_context(connection.tls) if connection.tls is not None else None
        return DaemonAddress(host=url.hostname, port=url.port or (2376 if tls else 2375), tls=tls)
    raise EngineUnavailableError(
        f"cannot speak to a Docker daemon at {connection.host!r}",
        hint="use unix://PATH or tcp://HOST:PORT; forward an ssh:// daemon's socket with `ssh -L`",
    )


def connect(connection: DockerConnection, *, timeout_seconds: float = REQUEST_SECONDS) -> docker.APIClient:
    """Returns a client of a daemon that answers. Blocks; raises EngineUnavailableError with the fix.

    `timeout_seconds` is the longest wait for one answer, not for the whole of a stream.
    """
    address(connection)
    with translated("reach the Docker daemon"):
        retrying = Retrying(
            retry=retry_if_exception_type(requests.exceptions.ConnectionError),
            stop=stop_after_attempt(CONNECT_ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.1, max=1.0),
            reraise=True,
        )
        return retrying(_client, connection, timeout_seconds)


def _client(connection: DockerConnection, timeout_seconds: float) -> docker.APIClient:
    client = docker.APIClient(
        base_url=connection.host,
        tls=_tls_config(connection.tls) if connection.tls is not None else False,
        version="auto",
        timeout=max(1, round(timeout_seconds)),
        max_pool_size=POOL_SIZE,
    )
    # A proxy named in the environment is for the world, not for a daemon that may run code as root.
    client.trust_env = False
    return client


@contextmanager
def translated(action: str, *, lost: bool = False) -> Iterator[None]:
    """Turns docker-py's and requests' exceptions into ours, once, with the cause kept.

    `lost` says that a sandbox existed already: a daemon that is gone then is a SandboxLostError.
    """
    gone = SandboxLostError if lost else EngineUnavailableError
    try:
        yield
    except docker.errors.APIError as error:
        raise EngineError(f"cannot {action}: {error.explanation or error}") from error
    except (docker.errors.DockerException, requests.exceptions.RequestException, OSError) as error:
        text = str(error)
        if "Permission denied" in text:
            hint, reason = NO_PERMISSION_HINT, "permission denied on its socket"
        elif "FileNotFoundError" in text or "No such file" in text:
            hint, reason = NO_DAEMON_HINT, "no daemon listens there"
        else:
            hint, reason = NO_DAEMON_HINT, text[:300]
        raise gone(f"cannot {action}: {reason}", hint=hint) from error


def _tls_config(files: TlsFiles) -> TLSConfig:
    pair = (str(files.cert), str(files.key)) if files.cert and files.key else None
    return TLSConfig(client_cert=pair, ca_cert=str(files.ca) if files.ca else None, verify=files.verify)


def _ssl_context(files: TlsFiles) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files.ca)
    if not files.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if files.cert and files.key:
        context.load_cert_chain(files.cert, files.key)
    return context
